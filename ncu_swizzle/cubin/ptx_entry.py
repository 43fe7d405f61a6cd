"""A kernel's entry in PTX: what its parameters are, and which axes and shared memory it uses.

nvcc -lineinfo keeps the PTX in the cubin; ``nv_debug_ptx_txt`` has its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.cubin.elf import Cubin

SECTION = ".nv_debug_ptx_txt"
AXES = "xyz"

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?")
_BODY_END = re.compile(r"^\s*\}\s*$", re.MULTILINE)
_EXTERN_SHARED = re.compile(r"\.extern\s+\.shared\b[^;\n]{0,200}?([\w$.]+)\s*\[\s*\]\s*;")
_PARAMETER = re.compile(
    r"\.param\b[^,]*?\.(?P<kind>[a-z])(?P<bits>\d+)\s+(?P<marks>(?:\.\w+\s+(?:\d+\s+)?)*)(?P<name>[\w$]+)\s*(?P<array>\[)?"
)


@dataclass(frozen=True)
class PtxEntry:
    """An entry: each parameter's kind ("pointer", "f", "u", "s", "b" or "struct"), and what its code uses.

    `threads` and `blocks` are how many axes of the block and of the grid it asks for; nothing more is known of a
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
    code = body(ptx, symbol)
    dynamic = any(re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$.])", code) for name in _EXTERN_SHARED.findall(ptx))
    kinds = tuple(_kinds(head[2] or "", code))
    return PtxEntry(kinds, axes_of(code, r"%n?tid\.{}\b"), axes_of(code, r"%n?ctaid\.{}\b"), dynamic)


def body(ptx: str, symbol: str) -> str:
    """Return the code of the kernel with this symbol; empty if the PTX has none."""
    head = _head(ptx, symbol)
    end = _BODY_END.search(ptx, head.end()) if head else None
    return ptx[head.end() : end.start() if end else len(ptx)] if head else ""


def _head(ptx: str, symbol: str) -> re.Match[str] | None:
    return next((match for match in _ENTRY.finditer(ptx) if match[1] == symbol), None)


def axes_of(text: str, pattern: str) -> int:
    """Return how many axes a text mentions, at least 1: 2 if it has y but not z; `pattern` has {} for the axis."""
    return max((number for number, axis in enumerate(AXES, 1) if re.search(pattern.format(axis), text)), default=1)


def _kinds(parameters: str, body: str) -> Iterator[str]:
    for match in _PARAMETER.finditer(parameters):
        if match["array"]:
            yield "struct"
        elif ".ptr" in match["marks"]:
            yield "pointer"
        elif match["bits"] == "64" and match["kind"] != "f":
            yield "pointer" if _becomes_address(match["name"], body) else ""
        else:
            yield match["kind"]


def _becomes_address(parameter: str, body: str) -> bool:
    loads = re.findall(rf"ld\.param\.\w+\s+(%\w+),\s*\[{re.escape(parameter)}\]", body)
    return any(re.search(rf"cvta\.to\.global\.\w+\s+%\w+,\s*{re.escape(register)}\b", body) for register in loads)
