"""What a patch asks of launches other than the one that it was proved for, as a comment in the source."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.patch.draft import Draft
from ncu_swizzle.patch.row_xor import RowXor
from ncu_swizzle.source import cuda
from ncu_swizzle.source.edits import Edit, line_end


def condition(draft: Draft, xor: RowXor, lengths: Sequence[str]) -> list[Edit]:
    """Return the edit that says of which multiples rows must be long, above the tile; `lengths` as the source says."""
    named = " and ".join(dict.fromkeys(lengths))
    declared = draft.tile.roots[0].place.declared
    statement = cuda.above(declared, "declaration", "field_declaration")
    if not named:
        return []
    if statement is None:
        raise draft.unfit(declared, f"rows are as long as {named} says, and there is no place to say so")
    text, at = draft.file.text, draft.file.text.rfind(b"\n", 0, statement.start_byte) + 1
    indent = text[at : statement.start_byte].decode("utf-8", "surrogateescape")
    least = 1 << (xor.base + xor.bits)
    said = f"{indent}// Columns are XORed with their row's number: {named} must be a multiple of {least}."
    if said.encode() in text:
        return []
    if indent.strip():  # the declaration is not the first in its line
        raise draft.unfit(declared, f"rows are as long as {named} says, and there is no place to say so")
    return [Edit(at, at, f"{said}{line_end(text, at)}")]
