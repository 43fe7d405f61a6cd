"""The tags of a register whose lanes were written by different instructions.

A warp that branches writes registers in parts, and a compiler reuses them for something else. A decision by some of the
lanes depends on the block only as these lanes do.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ncu_swizzle.emulate.dependence import Tag, bitwise
from ncu_swizzle.emulate.values import Patches, Value
from ncu_swizzle.smem.banks import Bools, Ints

MOST = 4  # parts of a register; what is left of more is one part


def merged(tags: Iterable[Tag | None], uniform: bool) -> Tag | None:
    """Return the tag of a value that has these in its lanes; `uniform` if it is uniform in each warp."""
    different = set(tags)
    if len(different) == 1:
        return different.pop()
    return bitwise(tuple(tag for tag in different if tag), uniform)


def tag_of(patches: Patches, warps: Ints, mask: Bools) -> Tag | None:
    """Return the tag of these lanes of a register; lanes without a patch were never written."""
    here = [(lanes, tag) for lanes, tag in patches if (lanes[warps] & mask).any()]
    return merged((tag for _, tag in here), bool(here) and here[0][0].shape[1] == 1)


def overwritten(old: Value | None, value: Value, warps: Ints, selected: Bools, alive: Bools) -> Patches:
    """Return the patches of a register after a write to the selected lanes of some warps; `alive` has its shape."""
    new = np.zeros(alive.shape, bool)
    new[warps] = selected
    before: Patches = () if old is None else ((alive, old.tag),) if old.patches is None else old.patches
    kept: list[tuple[Bools, Tag | None]] = []
    for lanes, tag in before:
        rest = lanes & ~new & alive
        if tag == value.tag:
            new = new | rest
        elif rest.any():
            kept.append((rest, tag))
    if len(kept) >= MOST:
        everything = np.logical_or.reduce([lanes for lanes, _ in kept])
        kept = [(everything, merged((tag for _, tag in kept), alive.shape[1] == 1))]
    return (*kept, (new, value.tag))
