"""A kernel's code as an ncu report has it: SASS by address, to be emulated without a disassembler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.engines import emulated_launch, module_image
from ncu_swizzle.smem.access import RESERVED_BYTES

JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "BSSY", "CALL", "RET", "WARPSYNC", "BREAK", "PREBREAK"})
_REFERENCE = re.compile(r"`\(([^()]+)\)")
_ABSOLUTE = re.compile(r"\b0x([0-9a-f]{8,16})\b(?!.*0x)")


def recorded_code(cubin: Cubin, kernel: str, rows: Iterable[tuple[int, str]]) -> Code:
    """Return a kernel's code from its cubin and its rows of SASS by address."""
    attributes = cubin.attributes(kernel)
    return from_report(
        kernel,
        rows,
        constants=module_image.constants(cubin, kernel),
        shared_bytes=emulated_launch.static_shared(cubin, attributes),
        parameter_bytes=attributes.parameter_bytes,
    )


def from_report(
    name: str,
    rows: Iterable[tuple[int, str]],
    *,
    constants: Mapping[int, bytes] | None = None,
    shared_bytes: int = RESERVED_BYTES,
    parameter_bytes: int = 0,
) -> Code:
    """Return the code from an ncu report's rows, each an address and SASS with absolute addresses as targets."""
    ordered = sorted(rows)
    base = ordered[0][0] if ordered else 0
    instructions = tuple(Sass(address - base, _relative(text, base)) for address, text in ordered)
    return Code(
        name=name,
        instructions=instructions,
        constants=dict(constants or {}),
        shared_bytes=shared_bytes,
        parameter_bytes=parameter_bytes,
    )


def _relative(text: str, base: int) -> str:
    text = _REFERENCE.sub("", text).rstrip(" ;")
    words = text.split()
    opcode = words[1] if words and words[0].startswith("@") and len(words) > 1 else words[0] if words else ""
    if opcode.split(".")[0] not in JUMPS:
        return text
    return _ABSOLUTE.sub(lambda match: f"{int(match[1], 16) - base:#x}", text)
