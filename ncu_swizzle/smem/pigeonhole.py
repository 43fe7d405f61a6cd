"""Why some accesses cannot be freed of conflicts by any mapping: more lanes than banks that they could go to."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, LINE

WORD = 4


def crowded(access: Access, plain: Mapping, granule: int) -> str | None:
    """Return why no mapping that moves `granule` elements as one can free this access; None where one might.

    A word keeps its place within its granule, and a lap of 128 bytes has only so many granules: words at the same
    place of more granules than that, wanted in one phase, have to share banks.
    """
    size = plain.element_bytes
    unit = max(access.operation.width_bytes, WORD, size) // size
    if granule <= unit or access.operation.kind == ATOMIC:
        return None
    slots = LINE // (granule * size)
    offsets = plain.elements(access.rows, access.columns)
    active = np.ones(offsets.shape, bool) if access.active is None else access.active
    most = 0
    for phase in access.operation.phases:
        lanes, on = offsets[:, phase.start : phase.stop], active[:, phase.start : phase.stop]
        for position in range(granule // unit):
            block = np.where(on & (lanes % granule // unit == position), lanes // granule, -1)
            block.sort(axis=1)
            distinct = (np.diff(block, axis=1, prepend=-1) != 0) & (block >= 0)
            most = max(most, int(distinct.sum(axis=1).max()))
    if most <= slots:
        return None
    return (
        f"{access.name}: {most} lanes of a phase want words at the same place of different {granule * size}-byte "
        f"units, and 128 bytes have {slots} such units: nothing that keeps them whole can separate these lanes."
    )
