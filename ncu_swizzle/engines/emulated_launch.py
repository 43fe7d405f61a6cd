"""The emulator's input: a cubin with its sources, a kernel's code, and a launch with its memory and parameters."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np

from ncu_swizzle.base.errors import ProgramFailed, Typed, UsageError
from ncu_swizzle.base.texts import in_crosses
from ncu_swizzle.cubin import elf, launch_recipe
from ncu_swizzle.cubin.elf import Attributes, Cubin
from ncu_swizzle.cubin.lines import as_listed
from ncu_swizzle.emulate import code as machine_code
from ncu_swizzle.emulate import tensor_map
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import ARRAY_BYTES, Buffer, Launch
from ncu_swizzle.emulate.tensor_map import TENSOR_MAP_BYTES
from ncu_swizzle.engines import module_image
from ncu_swizzle.engines.module_image import APART
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
        constants=module_image.constants(cubin, kernel),
        unknown_constants=module_image.unknown_constants(cubin, kernel),
        shared_bytes=static_shared(cubin, attributes),
        parameter_offset=attributes.parameter_offset,
        parameter_bytes=attributes.parameter_bytes,
        symbols=module_image.addresses(cubin),
        externals=module_image.externals(cubin),
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
    memory, buffers, arguments = module_image.initial(cubin), [], []
    for number, (value, address) in enumerate(zip(values, addresses(values), strict=True)):
        if value.passed:
            arguments.append(struct.pack("<Q", address) if value.buffer else value.scalar)
        if value.buffer:
            buffers.append(Buffer(value.name or f"parameter {number}", address, value.size))
            if value.content is not None:
                memory[address] = value.content
    sections = module_image.sections(cubin)
    buffers += [Buffer("the module's global variables", start, size) for _, start, size in sections if size]
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
