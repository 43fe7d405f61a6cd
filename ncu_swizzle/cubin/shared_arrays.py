"""What the PTX that nvcc -lineinfo keeps in a cubin tells about a kernel: its parameters and shared arrays.

A cubin has no symbols for the arrays, but the PTX declares them, and ptxas lays them out in
the order of the declarations, each at its alignment; dynamic shared memory follows. The sum is checked against the size
of the kernel's section.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import LONGEST
from ncu_swizzle.smem.access import RESERVED_BYTES

SECTION = ".nv_debug_ptx_txt"  # the lines of the PTX
AXES = "xyz"

_ENTRY = re.compile(r"\.entry\s++([\w$.]++)\s*+(?:\(([^)]*+)\)?)?")
_BODY_END = re.compile(r"^[^\S\n]*+\}[^\S\n]*+$", re.MULTILINE)
_LOADED = re.compile(r"ld\.param\.\w+\s+(%\w+),\s*\[([\w$]+)\]")
_CONVERTED = re.compile(r"cvta\.to\.global\.\w+\s+%\w+,\s*(%\w+)")
_THREAD, _BLOCK = re.compile(r"%n?tid\.([xyz])\b"), re.compile(r"%n?ctaid\.([xyz])\b")
_LAST = re.compile(r"E?(_\d+|__\d+_)?(I.*)?")  # what follows a mangled name's last one
_SYMBOL = re.compile(r"[\w$.]++")
_EXTERN_SHARED = re.compile(r"\.extern\s+\.shared\b[^;\n]{0,200}?([\w$.]+)\s*\[\s*\]\s*;")
_PARAMETER = re.compile(
    r"\.param\s++(?:\.align\s++\d++\s++)?\.(?P<kind>[a-z])(?P<bits>\d++)\s++"
    r"(?P<marks>(?:\.(?!param\b)\w++\s++(?:\d++\s++)?)*+)(?P<name>[\w$]++)\s*+(?P<array>\[)?"
)


@dataclass(frozen=True, kw_only=True)
class PtxEntry:
    """An entry: each parameter's kind ("pointer", "f", "u", "s", "b" or "struct"), and what its code uses.

    `threads` and `blocks` are how many axes of the block and of the grid it reads; nothing more is known about a
    64-bit integer that is not marked as a pointer: its kind is "".
    """

    kinds: tuple[str, ...]
    threads: int
    blocks: int
    dynamic_shared: bool


def embedded(cubin: Cubin) -> str:
    """Return the PTX that a cubin was made from; empty if it was not kept."""
    return cubin.section(SECTION).replace(b"\0", b"\n").decode("utf-8", "replace")


def entry_in(ptx: str, symbol: str) -> PtxEntry | None:
    """Return the entry of the kernel with this symbol; None if the PTX has none."""
    head = _head(ptx, symbol)
    if head is None:
        return None
    code = ptx_body(ptx, symbol)
    dynamic = not _symbols(code).isdisjoint(_EXTERN_SHARED.findall(ptx))
    kinds = tuple(_kinds(head[2] or "", code))
    return PtxEntry(
        kinds=kinds,
        threads=axes_of(_THREAD, code),
        blocks=axes_of(_BLOCK, code),
        dynamic_shared=dynamic,
    )


def ptx_body(ptx: str, symbol: str) -> str:
    """Return the code of the kernel with this symbol; empty if the PTX has none."""
    head = _head(ptx, symbol)
    end = _BODY_END.search(ptx, head.end()) if head else None
    return ptx[head.end() : end.start() if end else len(ptx)] if head else ""


def _head(ptx: str, symbol: str) -> re.Match[str] | None:
    return next((match for match in _ENTRY.finditer(ptx) if match[1] == symbol), None)


def axes_of(pattern: re.Pattern[str], text: str) -> int:
    """Return how many axes a text mentions, at least 1: 2 if it has y but not z; the pattern's group is the axis."""
    return max((AXES.index(axis) + 1 for axis in pattern.findall(text)), default=1)


def _kinds(parameters: str, body: str) -> Iterator[str]:
    loaded: dict[str, set[str]] = defaultdict(set)
    for register, name in _LOADED.findall(body):
        loaded[name].add(register)
    converted = set(_CONVERTED.findall(body))
    for match in _PARAMETER.finditer(parameters):
        if match["array"]:
            yield "struct"
        elif ".ptr" in match["marks"]:
            yield "pointer"
        elif match["bits"] == "64" and match["kind"] != "f":
            # A value converted to a global address is a pointer.
            yield "" if loaded[match["name"]].isdisjoint(converted) else "pointer"
        else:
            yield match["kind"]


_FUNCTION = re.compile(r"^(?:\.(?!func\b)\w++[^\S\n]++)*+\.func\b.*?(?:^\}|\Z)", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(
    r"^[^\S\n]*+(?:\.(?:extern|weak|visible|common)\s++)?\.shared\s++(?:\.align\s++(\d++)\s++)?"
    r"\.[a-z](\d++)\s++([\w$.]++)\s*+(?:\[(\d*+)\])?",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
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
    ptx = embedded(cubin)
    body = ptx_body(ptx, kernel)
    if not body:
        return ()
    # Functions that are not inlined use arrays too.
    code = body + "".join(match[0] for match in _FUNCTION.finditer(ptx)) if re.search(r"\bcall\b", body) else body
    named = _symbols(code)
    used = [match for match in _DECLARED.finditer(ptx) if match[3] in named]
    base = RESERVED_BYTES if cubin.sm >= 90 else 0
    static, end = [], base
    for match in used:
        if match[4] != "":
            static.append(_placed(match, end, int(match[2]) // 8 * int(match[4] or 1)))
            end = static[-1].start + static[-1].size
    dynamic = [_placed(match, end, dynamic_bytes, dynamic=True) for match in used if match[4] == ""]
    aligned = max((array.start for array in dynamic), default=end)  # the section ends where dynamic memory begins
    return (*static, *dynamic) if aligned - base == cubin.attributes(kernel).static_shared else ()


def _symbols(code: str) -> set[str]:
    """Return the symbols that PTX mentions, and its other words."""
    return set(_SYMBOL.findall(code))


def _placed(match: re.Match[str], end: int, size: int, dynamic: bool = False) -> SharedArray:
    align = int(match[1] or int(match[2]) // 8)
    return SharedArray(
        name=source_name(match[3]),
        symbol=match[3],
        start=-(-end // align) * align,
        size=size,
        align=align,
        dynamic=dynamic,
    )


def source_name(symbol: str) -> str:
    """Return a variable's name in the source: the last one in a mangled name."""
    name = symbol
    for match in re.finditer(r"\d+", symbol if symbol.startswith("_Z") and len(symbol) <= LONGEST else ""):
        # A name before may end in digits, so the length of this one may begin anywhere in a run of them.
        for digits in (match[0][-count:] for count in range(min(len(match[0]), len(str(LONGEST))), 0, -1)):
            end = match.end() + int(digits)
            word = symbol[match.end() : end]
            if word and len(word) == int(digits) and _LAST.fullmatch(symbol, end):
                name = word
    return name
