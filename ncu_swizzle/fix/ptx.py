"""What an asm statement does with an address that it is given, read from its PTX.

An access names its address in brackets, alone: ``[%1]``. Whatever else becomes of it, ``[%1+4]``, ``add.u32 a, %1, 4``,
``mov.u32 %0, %1``, is an address that is computed where no index shows it.
"""

from __future__ import annotations

import re

from ncu_swizzle.fix.cuda import Node

WIDEST = 16  # bytes that one instruction accesses
# What is in bulk is none: a register says of how many bytes.
_ACCESS = re.compile(r"(?:@!?[%\w]+\s+)?(?:(?:ld|st|atom|red|ldmatrix|stmatrix)\.(?!bulk)|cp\.async\.c[ag]\.)")
_COPY = re.compile(r"cp\.async(?:(?!cp\.async)[^];])*+\],\s*+\[[^][;]*+\],\s*+(\d++)")
_PLAIN = re.compile(r"(?<![\w.:])(?:ld|st|atom|red)\.[\w.:]*?(?:\.v(\d))?\.[busf](\d+)\b")


def accesses(operand: Node) -> bool:
    """Return whether all that an asm statement does with an input operand is to access what it is the address of."""
    statement = operand.above("gnu_asm_expression")
    listed = [n for part in ("output_operands", "input_operands") for n in statement.part(part).every("operand")]
    name = rf"%{listed.index(operand)}(?!\d)"
    code = statement.part("assembly_code")
    named = "%[" in code.text or any(literal.type != "string_literal" for literal in _literals(code))
    if named or operand.part("constraint").text not in ('"r"', '"l"'):  # text of a macro; "0" is an output, too
        return False
    using = (instruction for instruction in _instructions(code) if re.search(name, instruction))
    return all(
        _ACCESS.match(instruction) and not re.search(name, re.sub(rf"\[\s*{name}\s*\]", "", instruction))
        for instruction in using
    )


def width(operand: Node) -> int:
    """Return how many bytes an asm statement accesses at once, the most that it may where that is not seen."""
    code = operand.above("gnu_asm_expression").part("assembly_code")
    return max((_bytes(one) for one in _instructions(code) if "[" in one), default=WIDEST)


def _bytes(instruction: str) -> int:
    if found := _COPY.search(instruction):
        return int(found[1])
    if found := _PLAIN.search(instruction):
        return int(found[1] or 1) * int(found[2]) // 8
    return WIDEST


def _literals(code: Node) -> list[Node]:
    children = code.named_children if code.type == "concatenated_string" else [code]
    return [child for child in children if child.type != "comment"]


def _instructions(code: Node) -> list[str]:
    """Return the instructions, without line ends and the braces of a block."""
    text = re.sub(r"\\[nt]", " ", "".join(literal.text[1:-1] for literal in _literals(code)))
    return [instruction.strip(" {}") for instruction in text.split(";")]
