"""How the threads of a warp lie in global memory: what they are apart, and whether anything is between them.

It explains the sectors that were counted; it decides none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base.traffic import Pattern
from ncu_swizzle.emulate.counts import Dim3
from ncu_swizzle.smem.operations import WARP, Bools, Ints

MANY = 2  # strides along an axis from which on they are not one


class Neighbours:
    """The lanes of a warp whose threads are neighbours along threadIdx.x, .y and .z, as pairs (i, j)."""

    def __init__(self, block: Dim3) -> None:
        x, y, z = block
        number = np.arange(x * y * z)
        coordinates = np.stack([number % x, number // x % y, number // (x * y)])  # (3, threads)
        full = coordinates[:, : len(number) // WARP * WARP].reshape(3, -1, WARP)
        warp = full if full.size else coordinates[:, None, :]
        apart = warp - warp[:, :, :1]
        self.pairs: list[tuple[Ints, Ints]] = []
        for axis in np.eye(3, dtype=np.int64):
            steps = warp[:, 0, None, :] - warp[:, 0, :, None]  # (3, i, j)
            first, second = np.nonzero((steps == axis[:, None, None]).all(axis=0))
            # Of no use where other warps of the block are laid out in another way.
            alike = (apart == apart[:, :1]).all()
            self.pairs.append((first, second) if alike else (first[:0], second[:0]))


@dataclass(kw_only=True)
class LanePattern:
    """What is alike in all requests of an instruction so far."""

    width: int
    strides: tuple[set[int], set[int], set[int]] = field(default_factory=lambda: (set(), set(), set()))
    unaligned: bool = False  # a request without gaps takes more sectors than are ideal
    gaps: bool = False  # and so does one that leaves bytes out

    def see(self, lanes: Ints, selected: Bools, excessive: Bools, neighbours: Neighbours) -> None:
        """Add N requests: byte addresses, (N, 32), of the lanes that are selected; `excessive`, (N,)."""
        for seen, (first, second) in zip(self.strides, neighbours.pairs, strict=True):
            if len(seen) < MANY:
                both = selected[:, first] & selected[:, second]
                seen.update(np.unique((lanes[:, second] - lanes[:, first])[both])[:MANY].tolist())
        if excessive.any():
            lanes, selected = lanes[excessive], selected[excessive]
            ordered = np.sort(
                np.where(selected, lanes, np.where(selected, lanes, 0).max(axis=1, keepdims=True)), axis=1
            )
            dense = (np.diff(ordered, axis=1) <= self.width).all(axis=1)
            self.unaligned |= bool(dense.any())
            self.gaps |= not dense.all()

    def plus(self, other: LanePattern) -> LanePattern:
        """Return what is alike in both."""
        x, y, z = (one | another for one, another in zip(self.strides, other.strides, strict=True))
        return LanePattern(
            width=self.width, strides=(x, y, z), unaligned=self.unaligned or other.unaligned,
            gaps=self.gaps or other.gaps,
        )  # fmt: skip

    @property
    def alike(self) -> Pattern:
        """The pattern as profiles have it."""
        x, y, z = (next(iter(seen)) if len(seen) == 1 else None for seen in self.strides)
        return Pattern(width=self.width, x=x, y=y, z=z, unaligned=self.unaligned, gaps=self.gaps)
