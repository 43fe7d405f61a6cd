"""The emulator's input: a cubin with its sources, a kernel's code, its module's memory, and a launch."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np

from ncu_swizzle.base.errors import DamagedFile, ProgramFailed, Typed, UsageError
from ncu_swizzle.base.texts import in_crosses
from ncu_swizzle.cubin import elf, launch_recipe
from ncu_swizzle.cubin.elf import Attributes, Cubin
from ncu_swizzle.cubin.lines import as_listed
from ncu_swizzle.emulate import code as machine_code
from ncu_swizzle.emulate import tensor_map
from ncu_swizzle.emulate.code import EXTERNALS, Code, Span
from ncu_swizzle.emulate.counts import ARRAY_BYTES, Buffer, Launch
from ncu_swizzle.emulate.tensor_map import TENSOR_MAP_BYTES
from ncu_swizzle.kernels import check, fills
from ncu_swizzle.kernels.family import Argument, Problem, Target
from ncu_swizzle.kernels.limits import MOST_BLOCK, MOST_GRID, USUAL, LaunchShape, Limits, along_axes, refuse_oversized
from ncu_swizzle.smem import access

# From a kernel and its problem to the emulator's input: code with its constants, and a launch with its memory.
#
# Nothing is allocated: buffers get addresses like those of cuMemAlloc, distinct and 512-byte aligned. A buffer's
# contents are known if the family defines them (index arrays, lengths); random inputs are unknown.

HEAP = 0x7F00_0000_0000  # address of the first buffer
GAP = "nothing"  # in place of a buffer's name: what lies before all others
MATRIX = 0x7D00_0000_0000  # what tensor maps are of: nothing but their copies reaches it
ALIGNMENT = 512  # bytes, for every buffer
POINTER = 8  # bytes
MOST_CODES = 8  # kept: a sweep emulates the same code at each of its sizes
MOST_SHARED = access.block_bytes("sm_90")


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A kernel's cubin, and its sources: the root folders, and the text of each file by its path below one."""

    cubin: Cubin
    symbol: str
    roots: tuple[str, ...] = ()
    sources: Mapping[str, str] | None = None

    @cached_property
    def listed(self) -> Mapping[str, str]:
        """The sources that its line table does not name as they are called: by what it names each."""
        paths_ = (f"{root}/{name}" for root in self.roots for name in self.sources or ())
        return {as_listed(path): path for path in paths_ if not path.isprintable()}


@dataclass(frozen=True, kw_only=True)
class ArgumentValue:
    """One argument of a launch: a scalar's bytes, or a buffer's size in bytes and its content, if known."""

    scalar: bytes = b""
    size: int = 0
    content: bytes | None = None
    name: str = ""  # of a buffer
    passed: bool = True  # no parameter, if not

    @property
    def buffer(self) -> bool:
        return not self.scalar


# ---------------------------------------------------------------------------------------------- code


@lru_cache(maxsize=MOST_CODES)
def code(cubin: Cubin, kernel: str, text: str) -> Code:
    """Return the code of a kernel, given its symbol and the disassembly of its cubin."""
    attributes = cubin.attributes(kernel)
    return machine_code.from_disassembly(
        text,
        kernel,
        constants=constants(cubin, kernel),
        unknown_constants=unknown_constants(cubin, kernel),
        shared_bytes=static_shared(cubin, attributes),
        parameter_offset=attributes.parameter_offset,
        parameter_bytes=attributes.parameter_bytes,
        symbols=symbol_addresses(cubin),
        externals=externals(cubin),
        machine=cubin.section(f".text.{kernel}"),
    )


def static_shared(cubin: Cubin, attributes: Attributes) -> int:
    """Return the bytes of static shared memory, including those reserved by the system on sm_90 and newer."""
    return attributes.static_shared + (access.RESERVED_BYTES if cubin.sm >= 90 else 0)


# ---------------------------------------------------------------------------------------------- launches


def launch_of(target: Target, cubin: Cubin, symbol: str, sample: int | None = None) -> Launch:
    """Return the launch of a target; random inputs are unknown, or those that this seed draws."""
    family, problem = target.family, target.problem
    arguments = [target.kernel.boxed(argument) for argument in family.arguments]
    too_large = _too_large(arguments, problem, sample)
    rng = np.random.default_rng(sample or 0)
    contents = {
        argument.name: fills.array(argument, problem, rng)
        for argument in arguments
        if _known(argument, sample) and not argument.tensor_map and argument not in too_large
    }
    launched = launch_with(target, cubin, symbol, contents)
    buffers = () if family.shipped else launched.buffers  # those kernels are checked against references
    notes = []
    for argument in too_large:
        size, most = fills.size(argument, problem), ARRAY_BYTES >> 20
        notes.append(f"the contents of {argument.name} are not used: its {size:,} bytes exceed the {most} MiB kept")
    return replace(launched, notes=tuple(notes), buffers=buffers)


def launch_with(
    target: Target, cubin: Cubin, symbol: str, contents: Mapping[str, np.ndarray], apart: int | None = None
) -> Launch:
    """Return the launch of a target with these contents of its buffers; what others hold is unknown.

    With `apart`, all buffers are moved by that many bytes, and matrices behind tensor maps are buffers like others.
    Raises LaunchLacking if the cubin's function has other parameters, and what `launch` raises.
    """
    family, kernel, problem = target.family, target.kernel, target.problem
    arguments = [kernel.boxed(argument) for argument in family.arguments]

    def buffer(argument: Argument, *, passed: bool) -> ArgumentValue:
        held = contents.get(argument.name)
        content = None if held is None else np.ascontiguousarray(held).tobytes()
        return ArgumentValue(size=fills.size(argument, problem), content=content, name=argument.name, passed=passed)

    values = [] if apart is None else [ArgumentValue(size=apart, name=GAP, passed=False)]
    first = len(values)
    for argument in arguments:
        if argument.tensor_map:
            values.append(ArgumentValue(scalar=bytes(TENSOR_MAP_BYTES)))
        elif argument.shape:
            values.append(buffer(argument, passed=argument.passed))
        else:
            values.append(ArgumentValue(scalar=fills.scalar(argument, problem).tobytes()))
    if apart is not None:
        values += [buffer(argument, passed=False) for argument in arguments if argument.tensor_map]
    at = {value.name: address for value, address in zip(values, addresses(values), strict=True) if value.buffer}
    for number, argument in enumerate(arguments, first):
        if argument.tensor_map:
            shape, address = fills.shape(argument, problem), at.get(argument.name, MATRIX)
            tile = check.tiled(address, argument.dtype, shape, argument.box, argument.swizzle)
            values[number] = ArgumentValue(scalar=tile.encoded())
        elif not argument.shape:  # structs get the addresses of the buffers that they point to
            values[number] = replace(values[number], scalar=fills.pointing(argument, values[number].scalar, at))
    if not family.shipped:
        sizes = [POINTER if value.buffer else len(value.scalar) for value in values if value.passed]
        passed = [argument for argument in arguments if argument.passed]
        check.refuse_mismatch(cubin, symbol, passed, sizes, partial(check.declaring_text, family, kernel))
    return launch(cubin, symbol, target.launch, values)


def _known(argument: Argument, sample: int | None) -> bool:
    """Return whether a buffer's contents are known before the launch, those of a sample included."""
    drawn = sample is not None and (argument.fill != "" or not argument.output)
    return argument.shape != () and (fills.reproducible(argument) or drawn)


def _too_large(arguments: Sequence[Argument], problem: Problem, sample: int | None) -> list[Argument]:
    """Return the buffers whose contents exceed the emulator's limit; smaller ones take precedence."""
    filled = [argument for argument in arguments if _known(argument, sample)]
    filled.sort(key=lambda argument: fills.size(argument, problem))
    totals = itertools.accumulate(fills.size(argument, problem) for argument in filled)
    return [argument for argument, total in zip(filled, totals, strict=True) if total > ARRAY_BYTES]


def launch(cubin: Cubin, symbol: str, shape: LaunchShape, values: Sequence[ArgumentValue]) -> Launch:
    """Return a launch with its parameters laid out. Raises UsageError if CUDA would reject it."""
    attributes = cubin.attributes(symbol)
    _refuse_invalid(attributes, symbol, shape)
    sizes = [slot.size for slot in attributes.parameters]
    passed = [POINTER if value.buffer else len(value.scalar) for value in values if value.passed]
    if sizes != passed:
        raise UsageError(
            f"the arguments do not fit {symbol}: it takes parameters of {sizes} bytes but was given {passed}",
            "pass every parameter in the kernel's order; a pointer has 8 bytes",
        )
    memory, buffers, arguments = initial(cubin), [], []
    for number, (value, address) in enumerate(zip(values, addresses(values), strict=True)):
        if value.passed:
            arguments.append(struct.pack("<Q", address) if value.buffer else value.scalar)
        if value.buffer:
            buffers.append(Buffer(value.name or f"parameter {number}", address, value.size))
            if value.content is not None:
                memory[address] = value.content
    placed = sections(cubin)
    buffers += [Buffer("the module's global variables", start, size) for _, start, size in placed if size]
    try:
        packed = _with_maps(cubin, symbol, elf.pack(cubin, symbol, arguments).tobytes())
    except ProgramFailed as error:
        raise UsageError(str(error), error.hint) from error
    return Launch(
        grid=along_axes(shape.grid),
        block=along_axes(shape.block),
        shared_dynamic=shape.shared,
        parameters=packed,
        memory=memory,
        cluster=along_axes(shape.cluster or (attributes.cluster if any(attributes.cluster) else ())),
        buffers=tuple(buffers),
    )


def _with_maps(cubin: Cubin, symbol: str, parameters: bytes) -> bytes:
    """Return the parameters with the tensor maps behind them that the driver would have the cubin's host code make."""
    content = bytearray(launch_recipe.completed(cubin, symbol, parameters))
    bank = cubin.attributes(symbol).parameter_offset  # maps are aligned in the constant bank
    first = -(-(bank + len(parameters)) // check.ALIGNMENT) * check.ALIGNMENT - bank
    for start in range(first, len(content) - TENSOR_MAP_BYTES + 1, TENSOR_MAP_BYTES):
        # It writes the half that the hardware needs.
        content[start : start + TENSOR_MAP_BYTES] = tensor_map.completed_map(
            bytes(content[start : start + TENSOR_MAP_BYTES])
        )
    return bytes(content)


def addresses(values: Sequence[ArgumentValue]) -> Iterator[int]:
    """Yield an address for each value; a scalar's is meaningless."""
    address = HEAP
    for value in values:
        yield address
        if value.buffer:
            # The next buffer starts APART bytes or more behind this one's end, rounded up as cuMemAlloc aligns.
            address += -(-(value.size + APART) // ALIGNMENT) * ALIGNMENT


def _refuse_invalid(attributes: Attributes, name: str, shape: LaunchShape) -> None:
    for what, sizes, most in (("grid", shape.grid, MOST_GRID), ("block", shape.block, MOST_BLOCK)):
        if not 1 <= len(sizes) <= 3 or any(not 1 <= size <= m for size, m in zip(sizes, most, strict=False)):
            raise UsageError(
                f"{what} {in_crosses(sizes) or 'without sizes'} is not valid",
                f"--{what} {USUAL[what]}: one to three sizes, at most {in_crosses(most)}",
            )
    if attributes.required_block and along_axes(shape.block) != along_axes(attributes.required_block):
        raise UsageError(
            f"{name} was compiled for blocks of {in_crosses(attributes.required_block)}",
            Typed(f"--block {','.join(map(str, attributes.required_block))}"),
        )
    threads = attributes.max_threads or access.MOST_THREADS
    refuse_oversized(name, shape, Limits(threads, MOST_SHARED, attributes.static_shared))


def metrics(launch: Launch, attributes: Attributes) -> Mapping[str, tuple[int, str]]:
    """Return those of ncu's launch metrics that can be computed, with its names and units."""
    sizes = {f"launch__{what}_dim_{axis}": size
             for what, dims in (("grid", launch.grid), ("block", launch.block))
             for axis, size in zip("xyz", dims, strict=True)}  # fmt: skip
    blocks, threads = math.prod(launch.grid), math.prod(launch.block)
    dimensions = {name: (size, "block" if "block_dim" in name else "") for name, size in sizes.items()}
    return {
        **dimensions,
        "launch__grid_size": (blocks, ""),
        "launch__block_size": (threads, ""),
        "launch__thread_count": (blocks * threads, "thread"),
        "launch__registers_per_thread": (attributes.registers, "register/thread"),
        "launch__shared_mem_per_block_static": (attributes.static_shared, "byte/block"),
        "launch__shared_mem_per_block_dynamic": (launch.shared_dynamic, "byte/block"),
        "launch__shared_mem_per_block_driver": (attributes.reserved_shared, "byte/block"),
    }


# A module's variables as the loader leaves them, or as a capture found them before a launch.
#
# Of a fresh module unknown are variables of constant memory without an initial value, which the host fills
# (cudaMemcpyToSymbol), and the addresses of functions in tables. Of a captured one the host and earlier kernels may
# have written any variable, so what the cubin initializes them with is not believed. What was captured is, except for
# addresses in it: they are those of another process's module.

GLOBALS = 0x8004_0000_0000  # address of the module's global variables, which no allocation of a process has
APART = 2 << 20  # least bytes between two buffers, so that an out-of-bounds access does not hit the next one
GLOBAL_SECTIONS = (".nv.global.init", ".nv.global")
CONSTANT = 3  # the bank of __constant__ variables
# R_CUDA_64 and R_CUDA_G64, a generic address, which a global variable's is; R_CUDA_32; and halves.
ABSOLUTE_64, LOW_32, HIGH_32 = frozenset({2, 4}), frozenset({1, 56}), frozenset({57})
DYNAMIC_ALIGN = 16  # bytes, of dynamic shared memory
CALL_STEP = 16  # bytes between the addresses of two external functions


def symbol_addresses(cubin: Cubin) -> dict[str, int]:
    """Return the address of each global variable in the module, and of each function outside of it.

    Those of shared memory in code that is not linked yet are such as a linker may give them.
    """
    outside = {name: address for address, name in externals(cubin).items()}
    return {**outside, **_shared(cubin), **{name: address for name, (address, _) in variables(cubin).items()}}


def _shared(cubin: Cubin) -> dict[str, int]:
    """Return addresses for what code that is not linked names in shared memory, each array at its alignment."""
    found, end = {}, access.RESERVED_BYTES if cubin.sm >= 90 else 0
    for symbol in sorted((each for each in cubin.symbols if each.is_shared), key=lambda each: not each.section):
        align = max(symbol.offset, 1) if symbol.section else DYNAMIC_ALIGN
        found[symbol.name] = -(-end // align) * align
        end = found[symbol.name] + symbol.size
    return found


def externals(cubin: Cubin) -> dict[int, str]:
    """Return the functions that the module calls and the driver supplies, such as vprintf, by address."""
    absent = (each for each in cubin.symbols if not each.section and not each.size and not each.is_shared)
    names = [symbol.name for symbol in absent if symbol.name]
    return {EXTERNALS + CALL_STEP * number: name for number, name in enumerate(sorted(set(names)))}


def variables(cubin: Cubin) -> dict[str, tuple[int, int]]:
    """Return the address and size of each global variable in the module."""
    return {
        symbol.name: (start + symbol.offset, symbol.size)
        for section, start, _ in sections(cubin)
        for symbol in cubin.symbols
        if symbol.section == section and symbol.name
    }


def sections(cubin: Cubin) -> Iterator[tuple[str, int, int]]:
    """Yield the name, address and size of each section with global variables, empty ones too."""
    start = GLOBALS
    for section in GLOBAL_SECTIONS:
        yield section, start, cubin.size(section)
        start += APART + cubin.size(section)


# ---------------------------------------------------------------------------------------------- as it is loaded


def constants(cubin: Cubin, kernel: str) -> dict[int, bytes]:
    """Return the constant banks with relocations applied, as the loader leaves them."""
    banks = {}
    for bank, content in cubin.constants(kernel).items():
        patched = bytearray(content)
        for section in _sections(bank, kernel):
            _relocate(cubin, section, patched)
        banks[bank] = bytes(patched)
    return banks


def unknown_constants(cubin: Cubin, kernel: str) -> dict[int, tuple[Span, ...]]:
    """Return which bytes of the constant banks are unknown before the launch."""
    unknown = {}
    for bank, content in cubin.constants(kernel).items():
        spans = [span for section in _sections(bank, kernel) for span in _unresolved(cubin, section)]
        if bank == CONSTANT:
            spans += _without_value(cubin, content)
        if spans:
            unknown[bank] = tuple(sorted(spans))
    return unknown


def initial(cubin: Cubin) -> dict[int, bytes]:
    """Return the content of the module's initialized global variables by address, except unknown pointers."""
    section = GLOBAL_SECTIONS[0]
    content = bytearray(cubin.section(section))
    _relocate(cubin, section, content)
    known = _between(_unresolved(cubin, section), 0, len(content))
    return {GLOBALS + first: bytes(content[first:end]) for first, end in known}


def zeroed(cubin: Cubin) -> tuple[int, int]:
    """Return the address and size of the global variables without an initial value."""
    (_, start, size) = list(sections(cubin))[-1]
    return start, size


def _sections(bank: int, kernel: str) -> tuple[str, str]:
    return f".nv.constant{bank}", f".nv.constant{bank}.{kernel}"


def _relocate(cubin: Cubin, section: str, content: bytearray) -> None:
    """Write the addresses of variables and external functions into a section."""
    known = symbol_addresses(cubin)
    for relocation in cubin.relocations(section):
        if relocation.symbol not in known:
            continue
        address, offset, kind = known[relocation.symbol] + relocation.addend, relocation.offset, relocation.kind
        if kind in ABSOLUTE_64:
            content[offset : offset + 8] = struct.pack("<Q", address % (1 << 64))
        elif kind in LOW_32 or kind in HIGH_32:
            word = (address >> 32 if kind in HIGH_32 else address) & 0xFFFFFFFF
            content[offset : offset + 4] = struct.pack("<I", word)
        else:
            raise DamagedFile(f"unknown relocation type {kind}", "compile the kernel with nvcc 12 or 13")


def _unresolved(cubin: Cubin, section: str) -> Iterator[Span]:
    """Yield where a section holds addresses that are not known here: those of the module's functions."""
    known = symbol_addresses(cubin)
    for relocation in cubin.relocations(section):
        if relocation.symbol not in known:
            yield relocation.offset, relocation.offset + POINTER


def _without_value(cubin: Cubin, content: bytes) -> Iterator[Span]:
    """Yield the variables of constant memory that hold only zeros and no address: the host fills them."""
    section = f".nv.constant{CONSTANT}"
    addressed = [relocation.offset for relocation in cubin.relocations(section)]
    for symbol in cubin.symbols:
        span = range(symbol.offset, symbol.offset + symbol.size)
        if symbol.section != section or not symbol.size or any(content[span.start : span.stop]):
            continue
        if not any(offset in span for offset in addressed):
            yield span.start, span.stop


def _between(unknown: Iterable[Span], start: int, size: int) -> Iterator[Span]:
    """Yield the spans of some bytes that no unknown span touches."""
    at, stop = start, start + size
    for first, end in sorted(unknown):
        if at < min(first, stop):
            yield at, min(first, stop)
        at = max(at, end)
    if at < stop:
        yield at, stop


# ---------------------------------------------------------------------------------------------- as it was captured


@dataclass(frozen=True)
class ModuleImage:
    """Contents of global variables by address, the bank of __constant__ variables, and its unknown bytes."""

    memory: Mapping[int, bytes]
    constants: Mapping[int, bytes]
    unknown_constants: Mapping[int, tuple[Span, ...]]


def captured_image(cubin: Cubin, kernel: str, contents: Mapping[str, bytes]) -> ModuleImage:
    """Return the image, given the contents of some variables by name."""
    memory = dict(_captured_globals(cubin, contents))
    bank = constants(cubin, kernel).get(CONSTANT)
    if bank is None:
        return ModuleImage(memory, {}, {})
    section = f".nv.constant{CONSTANT}"
    filled, unknown = bytearray(bank), list(_relocated(cubin, section))
    for symbol in cubin.symbols:
        if symbol.section != section or not symbol.size:
            continue
        content = contents.get(symbol.name)
        if content is None or len(content) != symbol.size:
            unknown.append((symbol.offset, symbol.offset + symbol.size))
        else:
            filled[symbol.offset : symbol.offset + symbol.size] = content
    spans = {CONSTANT: tuple(sorted(unknown))} if unknown else {}
    return ModuleImage(memory, {CONSTANT: bytes(filled[: len(bank)])}, spans)


def _captured_globals(cubin: Cubin, contents: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield address and content of the global variables, in pieces between what the loader relocates."""
    places = variables(cubin)
    for section in GLOBAL_SECTIONS:
        relocated = list(_relocated(cubin, section))
        for symbol in cubin.symbols:
            content = contents.get(symbol.name)
            if symbol.section == section and content is not None and len(content) == symbol.size:
                address = places[symbol.name][0]
                for first, end in _between(relocated, symbol.offset, symbol.size):
                    yield address + first - symbol.offset, content[first - symbol.offset : end - symbol.offset]


def _relocated(cubin: Cubin, section: str) -> Iterator[Span]:
    for relocation in cubin.relocations(section):
        yield relocation.offset, relocation.offset + POINTER
