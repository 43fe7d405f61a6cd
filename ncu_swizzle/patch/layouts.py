"""A tensor's layout composed with a swizzle."""

from __future__ import annotations

from ncu_swizzle.patch.draft import Draft
from ncu_swizzle.patch.row_xor import RowXor
from ncu_swizzle.source.edits import Edit
from ncu_swizzle.source.reach import Reach


def composed(draft: Draft, reach: Reach, xor: RowXor) -> list[Edit]:
    """Return the edits that compose the layout; raise Unfit if no Swizzle of CuTe's does what the mapping does."""
    layout, swizzle = reach.layout, xor.swizzle
    if layout is None or swizzle is None or draft.moving(reach):
        raise draft.unfit(reach.node, f"{draft.quoted(reach.node)}: no Swizzle does that")
    prefix = "cute::" if b"using namespace cute" not in draft.file.text else ""
    return [
        Edit(layout.start_byte, layout.start_byte, f"{prefix}composition({prefix}{swizzle}{{}}, "),
        Edit(layout.end_byte, layout.end_byte, ")"),
    ]
