"""A module as the loader leaves it: its global variables, and the constant banks with addresses in them.

Unknown are variables of constant memory without an initial value, which the host fills (cudaMemcpyToSymbol), and the
addresses of functions in tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ncu_swizzle.cubin.elf import Cubin, Relocation
from ncu_swizzle.emulate.code import Span
from ncu_swizzle.emulate.externals import EXTERNALS
from ncu_swizzle.errors import DamagedFile

GLOBALS = 0x8004_0000_0000  # address of the module's global variables, which no allocation of a process has
APART = 2 << 20  # least bytes between two buffers, so that an out-of-bounds access does not hit the next one
GLOBAL_SECTIONS = (".nv.global.init", ".nv.global")
CONSTANT = 3  # the bank of __constant__ variables
# R_CUDA_64 and R_CUDA_G64, a generic address, which a global variable's is; R_CUDA_32; and halves.
ABSOLUTE_64, LOW_32, HIGH_32 = frozenset({2, 4}), frozenset({1, 56}), frozenset({57})
POINTER = 8  # bytes
CALL_STEP = 16  # bytes between the addresses of two external functions


def addresses(cubin: Cubin) -> dict[str, int]:
    """Return the address of each global variable in the module, and of each function outside of it."""
    outside = {name: address for address, name in externals(cubin).items()}
    return {**outside, **{name: address for name, (address, _) in variables(cubin).items()}}


def externals(cubin: Cubin) -> dict[int, str]:
    """Return the functions that the module calls and the driver supplies, such as vprintf, by address."""
    names = [symbol.name for symbol in cubin.symbols if symbol.name and not symbol.section and not symbol.size]
    return {EXTERNALS + CALL_STEP * number: name for number, name in enumerate(sorted(set(names)))}


def variables(cubin: Cubin) -> dict[str, tuple[int, int]]:
    """Return the address and size of each global variable in the module."""
    variables, start = {}, GLOBALS
    for section in GLOBAL_SECTIONS:
        for symbol in cubin.symbols:
            if symbol.section == section and symbol.name:
                variables[symbol.name] = (start + symbol.offset, symbol.size)
        start += APART + cubin.size(section)
    return variables


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
        spans = [span for section in _sections(bank, kernel) for span in unresolved(cubin, section)]
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
    pieces, start = {}, 0
    for first, end in (*sorted(unresolved(cubin, section)), (len(content), len(content))):
        if start < first:
            pieces[GLOBALS + start] = bytes(content[start:first])
        start = max(start, end)
    return pieces


def _sections(bank: int, kernel: str) -> tuple[str, str]:
    return f".nv.constant{bank}", f".nv.constant{bank}.{kernel}"


def _relocate(cubin: Cubin, section: str, content: bytearray) -> None:
    """Write the addresses of variables and external functions into a section."""
    known = addresses(cubin)
    for relocation in cubin.relocations(section):
        if relocation.symbol in known:
            _write(content, relocation, known[relocation.symbol] + relocation.addend)


def unresolved(cubin: Cubin, section: str) -> Iterator[Span]:
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


def _write(data: bytearray, relocation: Relocation, address: int) -> None:
    offset, kind = relocation.offset, relocation.kind
    if kind in ABSOLUTE_64:
        data[offset : offset + 8] = struct.pack("<Q", address % (1 << 64))
    elif kind in LOW_32 or kind in HIGH_32:
        word = (address >> 32 if kind in HIGH_32 else address) & 0xFFFFFFFF
        data[offset : offset + 4] = struct.pack("<I", word)
    else:
        raise DamagedFile(f"unknown relocation type {kind}", "compile the kernel with nvcc 12 or 13")
