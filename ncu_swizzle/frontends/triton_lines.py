"""The callers of inlined functions, which Triton leaves out of its cubins: only its PTX names them, in comments.

The PTX is assembled once more with the callers as ptxas takes them. If the machine code is the same, byte by byte, that
cubin stands for Triton's: then an access in ``tl.sum`` belongs to the line that calls it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from elftools.elf.elffile import ELFFile

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends.ptx_lines import Frame, PtxLines

LABEL = "$L__ncu_swizzle_inlined"
NAME = b"inlined\0"


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
    """Return the PTX with callers; None if no inlined code has known ones."""
    known = PtxLines.of_text(ptx)
    lines = [_nested(line, known.frames(line)) for line in ptx.split("\n")]
    if (text := "\n".join(lines)) == ptx or ".debug_str" in ptx:
        return None
    characters = "".join(f"\t.b8 {byte}\n" for byte in NAME)
    return f"{text}\n\t.section\t.debug_str\n\t{{\n{LABEL}:\n{characters}\t}}\n"


def _nested(line: str, frames: Sequence[Frame]) -> str:
    """Return a line of PTX; for the ``.loc`` of inlined code those of its frames, the caller before what it calls."""
    if len(frames) < 2:
        return line
    caller, lines = "", []
    for frame in reversed(frames):
        place = f"{frame.file} {frame.line} {frame.column}"
        lines.append(f"\t.loc\t{place}{f', function_name {LABEL}, inlined_at {caller}' if caller else ''}")
        caller = place
    return "\n".join(lines)


def _code(cubin: bytes, name: str) -> tuple[object, ...]:
    """Return the machine code and the constants of a cubin, and what the driver reads of the kernel."""
    sections = ELFFile(io.BytesIO(cubin)).iter_sections()
    code = [(each.name, each.data()) for each in sections if each.name.startswith((".text", ".nv.constant"))]
    return Cubin(cubin, name).attributes(name), *code
