"""Expressions as a person would write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ncu_swizzle.patch.row_xor import RowXor
from ncu_swizzle.smem.swizzle import Padding

_ATOM = re.compile(r"(\(\w+\))?[\w.:]+|\w+\([\w., ]*\)|\w+(\[[\w ]*\])+")
EFFECTS = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")


def atom(text: str) -> str:
    """Return an expression, in parentheses unless it is a single operand."""
    text = text.strip()
    return text if _ATOM.fullmatch(text) or _closed(text) else f"({text})"


def _closed(text: str) -> bool:
    """Say whether one pair of parentheses holds all of a text."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return position == len(text) - 1
    return False


def bits_of_row(xor: RowXor, row: str) -> str:
    """Return what a row's columns are XORed with: ``(y & 31)``, ``((y & 7) << 3)``."""
    text = atom(row)
    if xor.drop and xor.drop == xor.base:
        return f"({text} & {xor.mask << xor.base})"
    if xor.drop:
        text = f"({text} >> {xor.drop})"
    if not 0 < xor.rows <= 1 << (xor.drop + xor.bits):
        text = f"({text} & {xor.mask})"
    return f"({text} << {xor.base})" if xor.base else text


def swizzled_column(xor: RowXor, row: str, column: str) -> str:
    return f"{atom(column)} ^ {bits_of_row(xor, row)}"


def moved_index(transform: RowXor | Padding, index: str) -> str:
    """Return the element of a flat array that an index becomes."""
    if isinstance(transform, Padding):
        by = f" * {transform.by}" if transform.by > 1 else ""
        return f"{index} + {index} / {transform.every}{by}"
    swizzle = transform.swizzle
    if swizzle is None:
        return transform.cuda(index)
    mask = swizzle.target
    return f"{index} ^ (({index} >> {swizzle.shift}) & {mask if mask < 64 else hex(mask)})"


def sum_of(parts: Sequence[tuple[bool, str]]) -> str:
    """Return a sum of parts, each subtracted or added."""
    text = ""
    for negative, part in parts:
        text += f" {'-' if negative else '+'} {part}" if text else f"-{part}" if negative else part
    return text or "0"
