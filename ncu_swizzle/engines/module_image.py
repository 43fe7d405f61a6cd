"""A module's variables as the loader leaves them, or as a capture found them before a launch.

Of a fresh module unknown are variables of constant memory without an initial value, which the host fills
(cudaMemcpyToSymbol), and the addresses of functions in tables. Of a captured one the host and earlier kernels may have
written any variable, so what the cubin initializes them with is not believed. What was captured is, except for
addresses in it: they are those of another process's module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ncu_swizzle.base.errors import DamagedFile
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import EXTERNALS, Span
from ncu_swizzle.smem import access

GLOBALS = 0x8004_0000_0000  # address of the module's global variables, which no allocation of a process has
APART = 2 << 20  # least bytes between two buffers, so that an out-of-bounds access does not hit the next one
GLOBAL_SECTIONS = (".nv.global.init", ".nv.global")
CONSTANT = 3  # the bank of __constant__ variables
# R_CUDA_64 and R_CUDA_G64, a generic address, which a global variable's is; R_CUDA_32; and halves.
ABSOLUTE_64, LOW_32, HIGH_32 = frozenset({2, 4}), frozenset({1, 56}), frozenset({57})
POINTER = 8  # bytes
DYNAMIC_ALIGN = 16  # bytes, of dynamic shared memory
CALL_STEP = 16  # bytes between the addresses of two external functions


def addresses(cubin: Cubin) -> dict[str, int]:
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
    known = addresses(cubin)
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
    known = addresses(cubin)
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
