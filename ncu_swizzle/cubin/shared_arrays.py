"""Where a kernel's shared arrays lie.

A cubin has no symbols for them, but the PTX that nvcc -lineinfo keeps in it declares them, and ptxas lays them out in
the order of the declarations, each at its alignment; dynamic shared memory follows. The sum is checked against the size
of the kernel's section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.cubin import ptx_entry
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.smem.capacity import RESERVED_BYTES

_DECLARED = re.compile(
    r"^\s*(?:\.(?:extern|weak|visible|common)\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+([\w$.]+)\s*(?:\[(\d*)\])?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class SharedArray:
    """One shared variable: its name in the source and in PTX, and its bytes, as the emulator counts addresses."""

    name: str
    symbol: str
    start: int
    size: int
    align: int
    dynamic: bool = False

    @property
    def span(self) -> range:
        return range(self.start, self.start + self.size)


def shared_arrays(cubin: Cubin, kernel: str, dynamic_bytes: int = 0) -> tuple[SharedArray, ...]:
    """Return the arrays of the kernel with this symbol, static ones first.

    Empty if the cubin keeps no PTX, or if that does not account for all of the kernel's shared memory.
    """
    ptx = ptx_entry.embedded(cubin)
    body = ptx_entry.body(ptx, kernel)
    if not body:
        return ()
    used = [match for match in _DECLARED.finditer(ptx) if _uses(ptx, body, match[3])]
    base = RESERVED_BYTES if cubin.sm >= 90 else 0
    static, end = [], base
    for match in used:
        if match[4] != "":
            static.append(_placed(match, end, _size(match)))
            end = static[-1].start + static[-1].size
    dynamic = [_placed(match, end, dynamic_bytes, dynamic=True) for match in used if match[4] == ""]
    aligned = max((array.start for array in dynamic), default=end)  # the section ends where dynamic memory begins
    return (*static, *dynamic) if aligned - base == cubin.attributes(kernel).static_shared else ()


def _uses(ptx: str, body: str, symbol: str) -> bool:
    """Say whether an entry uses an array: it, or a function that is not inlined, names it."""
    called = "".join(_functions(ptx)) if re.search(r"\bcall\b", body) else ""
    return re.search(rf"(?<![\w$.]){re.escape(symbol)}(?![\w$.])", body + called) is not None


def _functions(ptx: str) -> Iterator[str]:
    """Yield the bodies of a module's functions, its entries left out."""
    for match in re.finditer(r"^(?:\.\w+\s+)*\.func\b.*?^\}", ptx, re.MULTILINE | re.DOTALL):
        yield match[0]


def _size(match: re.Match[str]) -> int:
    return int(match[2]) // 8 * int(match[4] or 1)


def _placed(match: re.Match[str], end: int, size: int, dynamic: bool = False) -> SharedArray:
    align = int(match[1] or int(match[2]) // 8)
    return SharedArray(_source_name(match[3]), match[3], -(-end // align) * align, size, align, dynamic)


def _source_name(symbol: str) -> str:
    """Return a variable's name in the source: the last one in a mangled name."""
    name = symbol
    for match in re.finditer(r"(\d+)", symbol if symbol.startswith("_Z") else ""):
        for digits in (match[1][at:] for at in range(len(match[1]))):
            word = symbol[match.end() : match.end() + int(digits)]
            rest = symbol[match.end() + int(digits) :]
            if len(word) == int(digits) and word and re.fullmatch(r"E?(_\d+|__\d+_)?(I.*)?", rest):
                name = word
    return name
