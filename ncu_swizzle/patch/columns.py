"""A column's number with bits of its row's number XORed into it, as the edits of an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ncu_swizzle.patch.row_xor import RowXor
from ncu_swizzle.patch.spelling import atom, bits_of_row
from ncu_swizzle.source import cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.edits import Edit
from ncu_swizzle.source.sums import Term

if TYPE_CHECKING:
    from tree_sitter import Node


def xored(file: CudaFile, start: int, end: int, bits: str, always: bool = False) -> list[Edit]:
    """Return the edits that XOR what stands between two bytes; in parentheses as a whole with `always`."""
    column = file.text[start:end].decode("utf-8", "surrogateescape")
    opening, closing = ("(", ")") if atom(column) != column.strip() else ("", "")
    outer = ("(", ")") if always else ("", "")
    return [Edit(start, start, f"{outer[0]}{opening}"), Edit(end, end, f"{closing} ^ {bits}{outer[1]}")]


def factored(file: CudaFile, node: Node, terms: Sequence[Term], xor: RowXor, row: str) -> list[Edit] | None:
    """Return the edits that XOR the number of a granule instead: ``(y ^ (x & 7)) * 4 + k``.

    The compiler sees that the granule stays whole, and keeps its vectors. None if no factor counts granules, or
    something else than what lies within one is added.
    """
    counting = [term for term in terms if term.variable and term.constant % (1 << xor.base) == 0]
    if not xor.base or len(counting) != 1 or any(term.negative for term in terms):
        return None
    (term,) = counting
    steps = [one.constant for one in terms if not one.variable]
    if term.constant != 1 << xor.base or len(term.variable) != 1 or any(step >> xor.base for step in steps):
        return None
    factor = term.variable[0].node
    if not cuda.inside(factor, node):
        return None
    bits = bits_of_row(replace(xor, base=0, columns=xor.columns >> xor.base), row)
    return xored(file, factor.start_byte, factor.end_byte, bits, always=True)


def outer(node: Node, limit: Node) -> Node:
    """Return a term with the parentheses right around it."""
    while node.parent is not None and node.parent.type == "parenthesized_expression" and node.id != limit.id:
        node = node.parent
    return node
