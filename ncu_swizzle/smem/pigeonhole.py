"""Why no mapping can make some accesses conflict-free: more lanes than banks that they could use."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, LINE

WORD = 4


def crowded(access: Access, plain: Mapping, granule: int) -> str | None:
    """Return why no mapping that keeps `granule` elements together makes this access conflict-free; None if one might.

    A word keeps its position within its granule, and a 128-byte bank row holds a fixed number of granules. If one phase
    accesses words at the same position of more granules than that, they must share banks.
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
        f"{access.name}: {most} lanes of a phase need words at the same position in different {granule * size}-byte "
        f"units, but a bank row of 128 bytes holds only {slots}: no mapping that keeps units whole can separate them."
    )
