"""A module's variables as a capture found them before a launch.

The host and earlier kernels may have written any of them, so what the cubin initializes them with is not believed. What
was captured is, except for addresses in it: they are those of another process's module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Span
from ncu_swizzle.engines import module_image
from ncu_swizzle.engines.module_image import CONSTANT, GLOBAL_SECTIONS, POINTER


@dataclass(frozen=True)
class ModuleImage:
    """Contents of global variables by address, the bank of __constant__ variables, and its unknown bytes."""

    memory: Mapping[int, bytes]
    constants: Mapping[int, bytes]
    unknown_constants: Mapping[int, tuple[Span, ...]]


def image(cubin: Cubin, kernel: str, contents: Mapping[str, bytes]) -> ModuleImage:
    """Return the image, given the contents of some variables by name."""
    bank = module_image.constants(cubin, kernel).get(CONSTANT)
    if bank is None:
        return ModuleImage(dict(_memory(cubin, contents)), {}, {})
    filled, unknown = _filled(cubin, bank, contents)
    return ModuleImage(dict(_memory(cubin, contents)), {CONSTANT: filled}, {CONSTANT: unknown} if unknown else {})


def _memory(cubin: Cubin, contents: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield address and content of the global variables, in pieces between what the loader relocates."""
    places = module_image.variables(cubin)
    for section in GLOBAL_SECTIONS:
        relocated = list(_relocated(cubin, section))
        for symbol in cubin.symbols:
            content = contents.get(symbol.name)
            if symbol.section == section and content is not None and len(content) == symbol.size:
                address = places[symbol.name][0]
                for first, end in _between(relocated, symbol.offset, symbol.size):
                    yield address + first - symbol.offset, content[first - symbol.offset : end - symbol.offset]


def _filled(cubin: Cubin, bank: bytes, contents: Mapping[str, bytes]) -> tuple[bytes, tuple[Span, ...]]:
    """Return the bank with what was captured, and the spans of it that are unknown."""
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
    return bytes(filled[: len(bank)]), tuple(sorted(unknown))


def _relocated(cubin: Cubin, section: str) -> Iterator[Span]:
    for relocation in cubin.relocations(section):
        yield relocation.offset, relocation.offset + POINTER


def _between(relocated: Iterable[Span], start: int, size: int) -> Iterator[Span]:
    """Yield the spans of a variable that no relocation touches."""
    at, stop = start, start + size
    for first, end in sorted(relocated):
        if at < min(first, stop):
            yield at, min(first, stop)
        at = max(at, end)
    if at < stop:
        yield at, stop
