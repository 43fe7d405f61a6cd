"""The callers of inlined functions, which Triton leaves out of its cubins: only its PTX names them, in comments.

The PTX is assembled once more with the callers as ptxas takes them. If the machine code is the same, byte by byte, that
cubin stands for Triton's: then an access in ``tl.sum`` belongs to the line that calls it.
"""

from __future__ import annotations

import io
import re
from typing import Any

from elftools.elf.elffile import ELFFile

from ncu_swizzle.cubin.elf import Cubin

LABEL = "$L__ncu_swizzle_inlined"
NAME = b"inlined\0"
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+(?:"[^"]*"\s+)?"(?P<path>[^"]*)"', re.MULTILINE)
_INLINED = re.compile(r"^\s*\.loc\s+\d+ \d+ \d+\s*// (?P<stack>\S+ @\[ .*)$", re.MULTILINE)
_FRAME = re.compile(r"(?P<file>[^\s\[\]@]+):(?P<line>\d+):(?P<column>\d+)")


def with_callers(kernel: Any, backend: Any, capability: int) -> bytes:
    """Return a compiled kernel's cubin with the callers of inlined functions; without them if that is impossible."""
    original: bytes = kernel.asm["cubin"]
    try:
        text = _named(kernel.asm["ptx"])
        if text is None:
            return original
        metadata = dict(kernel.metadata._asdict())
        again: bytes = backend.make_cubin(text, metadata, backend.parse_options(metadata), capability)
        return again if _code(again, metadata["name"]) == _code(original, metadata["name"]) else original
    except Exception:
        return original


def _named(ptx: str) -> str | None:
    """Return the PTX with callers; None if nothing is inlined, or two files have the same name."""
    numbers: dict[str, set[str]] = {}
    for match in _FILE.finditer(ptx):
        numbers.setdefault(match["path"].rpartition("/")[2], set()).add(match["number"])
    if not _INLINED.search(ptx) or any(len(same) > 1 for same in numbers.values()) or ".debug_str" in ptx:
        return None
    text = _INLINED.sub(lambda match: _nested(match["stack"], numbers), ptx)
    characters = "".join(f"\t.b8 {byte}\n" for byte in NAME)
    return f"{text}\n\t.section\t.debug_str\n\t{{\n{LABEL}:\n{characters}\t}}\n"


def _nested(stack: str, numbers: dict[str, set[str]]) -> str:
    """Return the lines of a stack, the caller before what it calls."""
    caller, lines = "", []
    for frame in reversed(list(_FRAME.finditer(stack))):
        (number,) = numbers[frame["file"]]
        place = f"{number} {frame['line']} {frame['column']}"
        lines.append(f"\t.loc\t{place}{f', function_name {LABEL}, inlined_at {caller}' if caller else ''}")
        caller = place
    return "\n".join(lines)


def _code(cubin: bytes, name: str) -> tuple[object, ...]:
    """Return the machine code and the constants of a cubin, and what the driver reads of the kernel."""
    sections = ELFFile(io.BytesIO(cubin)).iter_sections()
    code = [(each.name, each.data()) for each in sections if each.name.startswith((".text", ".nv.constant"))]
    return Cubin(cubin, name).attributes(name), *code
