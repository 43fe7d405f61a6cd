"""From a kernel and its problem to the emulator's input: code with its constants, and a launch with its memory.

Nothing is allocated: buffers get addresses like those of cuMemAlloc, distinct and 512-byte aligned. A buffer's contents
are known if the family defines them (index arrays, lengths); random inputs are unknown.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from ncu_swizzle.build import argument_check, tensor_map
from ncu_swizzle.catalog import by_value, fills, launch_limits
from ncu_swizzle.catalog.family import Argument, Problem
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin import parameters
from ncu_swizzle.cubin.elf import Attributes, Cubin
from ncu_swizzle.emulate import code as machine_code
from ncu_swizzle.emulate.buffers import Buffer
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Dim3, Launch
from ncu_swizzle.emulate.limits import ARRAY_BYTES
from ncu_swizzle.engines import module_image
from ncu_swizzle.engines.module_image import APART, GLOBAL_SECTIONS, GLOBALS
from ncu_swizzle.errors import ProgramFailed, UsageError
from ncu_swizzle.smem import capacity

HEAP = 0x7F00_0000_0000  # address of the first buffer
MATRIX = 0x7D00_0000_0000  # what tensor maps are of: nothing but their copies reaches it
ALIGNMENT = 512  # bytes, for every buffer
POINTER = 8  # bytes
MOST_CODES = 8  # kept: a sweep emulates the same code at each of its sizes
MOST_SHARED = capacity.block_bytes("sm_90")


@dataclass(frozen=True)
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
        shared_bytes=_static_shared(cubin, attributes),
        parameter_offset=attributes.parameter_offset,
        parameter_bytes=attributes.parameter_bytes,
        symbols=module_image.addresses(cubin),
        externals=module_image.externals(cubin),
    )


def _static_shared(cubin: Cubin, attributes: Attributes) -> int:
    """Return the bytes of static shared memory, including those reserved by the system on sm_90 and newer."""
    return attributes.static_shared + (capacity.RESERVED_BYTES if cubin.sm >= 90 else 0)


# ---------------------------------------------------------------------------------------------- launches


def launch_of(target: Target, cubin: Cubin, symbol: str, sample: int | None = None) -> Launch:
    """Return the launch of a target; random inputs are unknown, or those that this seed draws."""
    family, kernel, problem = target.family, target.kernel, target.problem
    grid, block = family.geometry(kernel, problem)
    too_large = _too_large(family.arguments, problem, sample)
    checked = None if family.shipped else cubin
    arguments = [kernel.boxed(argument) for argument in family.arguments]
    values = described_values(
        arguments, problem, checked, symbol, partial(argument_check.declaring_text, family, kernel), sample
    )
    launched = launch(cubin, symbol, grid, block, family.shared_memory(kernel, problem), values)
    if family.cluster:
        launched = replace(launched, cluster=_three(family.cluster))
    buffers = () if family.shipped else launched.buffers  # those kernels are checked against references
    notes = tuple(_unknown_contents(argument, problem) for argument in too_large)
    return replace(launched, notes=notes, buffers=buffers)


def _known(argument: Argument, sample: int | None) -> bool:
    """Say whether a buffer's contents are known before the launch, those of a sample included."""
    drawn = sample is not None and (argument.fill != "" or not argument.output)
    return argument.shape != () and (fills.reproducible(argument) or drawn)


def _too_large(arguments: Sequence[Argument], problem: Problem, sample: int | None) -> list[Argument]:
    """Return the buffers whose contents do not fit into what the emulator keeps; smaller ones come first."""
    filled = [argument for argument in arguments if _known(argument, sample)]
    filled.sort(key=lambda argument: fills.size(argument, problem))
    totals = itertools.accumulate(fills.size(argument, problem) for argument in filled)
    return [argument for argument, total in zip(filled, totals, strict=True) if total > ARRAY_BYTES]


def _unknown_contents(argument: Argument, problem: Problem) -> str:
    size = fills.size(argument, problem)
    return f"the contents of {argument.name} are not used: its {size:,} bytes exceed the {ARRAY_BYTES >> 20} MiB kept"


def described_values(
    arguments: Sequence[Argument],
    problem: Problem,
    cubin: Cubin | None,
    symbol: str,
    source: Callable[[], str] = str,
    sample: int | None = None,
) -> list[ArgumentValue]:
    """Return the values of arguments; raise LaunchLacking if the cubin's function has other parameters.

    `source` returns the text that declares it; `sample` is the seed of random inputs, drawn as ncu-swizzle run does.
    """
    too_large = _too_large(arguments, problem, sample)
    known = [_known(argument, sample) and argument not in too_large for argument in arguments]
    rng = np.random.default_rng(sample or 0)
    values = [_value(argument, problem, rng if kept else None) for argument, kept in zip(arguments, known, strict=True)]
    if cubin is not None:
        sizes = [POINTER if value.buffer else len(value.scalar) for value in values if value.passed]
        passed = [argument for argument in arguments if argument.passed]
        argument_check.refuse_mismatch(cubin, symbol, passed, sizes, source)
    return _with_addresses(arguments, values)


def _with_addresses(arguments: Sequence[Argument], values: list[ArgumentValue]) -> list[ArgumentValue]:
    """Return the values, structs with the addresses of the buffers that they point to."""
    at = {argument.name: address for argument, address in zip(arguments, _addresses(values), strict=True)}
    return [
        replace(value, scalar=by_value.pointing(argument, value.scalar, at)) if value.scalar else value
        for argument, value in zip(arguments, values, strict=True)
    ]


def launch(
    cubin: Cubin, symbol: str, grid: Sequence[int], block: Sequence[int], shared: int, values: Sequence[ArgumentValue]
) -> Launch:
    """Return a launch with its parameters laid out. Raises UsageError if CUDA would reject it."""
    attributes = cubin.attributes(symbol)
    _refuse_invalid(attributes, symbol, grid, block, shared)
    packed, memory = _packed(cubin, symbol, values)
    return Launch(
        grid=_three(grid),
        block=_three(block),
        shared_dynamic=shared,
        parameters=packed,
        memory={**module_image.initial(cubin), **memory},
        cluster=_three(attributes.cluster) if any(attributes.cluster) else (1, 1, 1),
        buffers=tuple(_buffers(cubin, values)),
    )


def _buffers(cubin: Cubin, values: Sequence[ArgumentValue]) -> Iterator[Buffer]:
    """Yield the buffers among the arguments, and the module's global variables."""
    for number, (value, address) in enumerate(zip(values, _addresses(values), strict=True)):
        if value.buffer:
            yield Buffer(value.name or f"parameter {number}", address, value.size)
    start = GLOBALS
    for section in GLOBAL_SECTIONS:
        if cubin.size(section):
            yield Buffer("the module's global variables", start, cubin.size(section))
        start += APART + cubin.size(section)


def _value(argument: Argument, problem: Problem, rng: np.random.Generator | None) -> ArgumentValue:
    """Return an argument's value; a buffer's contents only if there is something to draw them with."""
    if argument.tensor_map:
        shape = fills.shape(argument, problem)
        tile = tensor_map.tiled(MATRIX, argument.dtype, shape, argument.box, argument.swizzle)
        return ArgumentValue(scalar=tile.encoded())
    if not argument.shape:
        return ArgumentValue(scalar=fills.scalar(argument, problem).tobytes())
    content = np.ascontiguousarray(fills.array(argument, problem, rng)).tobytes() if rng else None
    return ArgumentValue(
        size=fills.size(argument, problem), content=content, name=argument.name, passed=argument.passed
    )


def _packed(cubin: Cubin, symbol: str, values: Sequence[ArgumentValue]) -> tuple[bytes, dict[int, bytes]]:
    """Return the parameter buffer, and the memory with known contents by address."""
    sizes = [slot.size for slot in cubin.attributes(symbol).parameters]
    given = [POINTER if value.buffer else len(value.scalar) for value in values if value.passed]
    if sizes != given:
        raise UsageError(
            f"the arguments do not fit {symbol}: it takes parameters of {sizes} bytes but was given {given}",
            "pass every parameter in the kernel's order; a pointer has 8 bytes",
        )
    memory: dict[int, bytes] = {}
    arguments = []
    for value, address in zip(values, _addresses(values), strict=True):
        if value.passed:
            arguments.append(struct.pack("<Q", address) if value.buffer else value.scalar)
        if value.buffer and value.content is not None:
            memory[address] = value.content
    try:
        return parameters.pack(cubin, symbol, arguments).tobytes(), memory
    except ProgramFailed as error:
        raise UsageError(str(error), error.hint) from error


def _addresses(values: Sequence[ArgumentValue]) -> Iterator[int]:
    """Yield an address for each value; a scalar's is meaningless."""
    address = HEAP
    for value in values:
        yield address
        if value.buffer:
            address += -(-(value.size + APART) // ALIGNMENT) * ALIGNMENT


def _three(sizes: Sequence[int]) -> Dim3:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _refuse_invalid(attributes: Attributes, name: str, grid: Sequence[int], block: Sequence[int], shared: int) -> None:
    limits: tuple[tuple[str, Sequence[int], Sequence[int]], ...] = (
        ("grid", grid, launch_limits.MOST_GRID),
        ("block", block, launch_limits.MOST_BLOCK),
    )
    for what, sizes, most in limits:
        if not 1 <= len(sizes) <= 3 or any(not 1 <= size <= m for size, m in zip(sizes, most, strict=False)):
            raise UsageError(
                f"{what} {_by(sizes) or 'without sizes'} is not valid",
                f"--{what} {launch_limits.USUAL[what]}: one to three sizes, at most {_by(most)}",
            )
    if attributes.required_block and _three(block) != _three(attributes.required_block):
        raise UsageError(
            f"{name} was compiled for blocks of {_by(attributes.required_block)}",
            f"--block {','.join(map(str, attributes.required_block))}",
        )
    threads = attributes.max_threads or capacity.MOST_THREADS
    launch_limits.refuse_oversized(
        name, block, shared, launch_limits.Limits(threads, MOST_SHARED, attributes.static_shared)
    )


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def metrics(launch: Launch, attributes: Attributes) -> Mapping[str, tuple[int, str]]:
    """Return ncu's launch metrics, with its names and units, as far as they can be computed."""
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
