"""The tiles of a source with the requests that the emulator saw of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.proof.excess import of_launch
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.operations import LDMATRIX, STMATRIX
from ncu_swizzle.source.webs import Root, SourceTile


@dataclass(frozen=True, eq=False)
class RootSeen:
    """A root's bytes in shared memory, and the array of the binary that they are in."""

    root: Root
    array: SharedArray
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class TileSeen:
    """A tile, where its roots are, its requests by instruction relative to their root, and their excess."""

    tile: SourceTile
    roots: tuple[RootSeen, ...]
    requests: tuple[tuple[int, AccessRequests], ...]
    excess: int  # in the blocks that ran
    of_launch: int | None  # in all blocks; None if unknown

    @property
    def total(self) -> int:
        """The excess of the launch, or of the blocks that ran if that is all that is known."""
        return self.excess if self.of_launch is None else self.of_launch

    def in_launch(self, excess: int) -> int:
        """Return what an excess in the blocks that ran comes to in the launch."""
        return -(-excess * self.total // self.excess) if self.excess else excess

    @property
    def name(self) -> str:
        return ", ".join(dict.fromkeys(root.root.place.name for root in self.roots))

    @property
    def widest(self) -> int:
        return max(operations.find(made.op).width_bytes for _, made in self.requests)

    @property
    def narrowest(self) -> int:
        return min(operations.find(made.op).width_bytes for _, made in self.requests)


def tiles_seen(
    tiles: Sequence[SourceTile], placed: Mapping[int, SharedArray], emulated: Emulated
) -> Iterator[TileSeen]:
    """Yield the tiles that are accessed, the worst first; `placed` are the arrays by their declared identifier."""
    starts = sorted(
        placed[root.array.declared.id].start + root.offset
        for tile in tiles for root in tile.roots if root.array.declared.id in placed
    )  # fmt: skip
    made = [seen for tile in tiles if (seen := _seen(tile, placed, starts, emulated))]
    yield from sorted(made, key=lambda seen: -seen.excess)


def _seen(
    tile: SourceTile, placed: Mapping[int, SharedArray], starts: Sequence[int], emulated: Emulated
) -> TileSeen | None:
    roots = tuple(
        _root(root, placed[root.array.declared.id], starts) for root in tile.roots if root.array.declared.id in placed
    )
    requests = [
        (offset, part)
        for offset, every in sorted(emulated.counts.requests.items())
        for root in roots
        if (part := _within(every, root.start, root.end)) is not None
    ]
    if not requests:
        return None
    spans = {str(root.start): range(root.start, root.end) for root in roots}
    totals = list(of_launch(emulated, spans).moved.values())
    known = None if None in totals else sum(total or 0 for total in totals)
    return TileSeen(tile, roots, tuple(requests), sum(_excess(part) for _, part in requests), known)


def _root(root: Root, array: SharedArray, starts: Sequence[int]) -> RootSeen:
    start, end = array.start + root.offset, array.start + array.size
    later = [at for at in starts if start < at < end]
    return RootSeen(root, array, start, start + root.size if root.size else min(later, default=end))


def _within(made: AccessRequests, start: int, end: int) -> AccessRequests | None:
    """Return the requests that lie within these bytes."""
    operation = operations.find(made.op)
    used = made.active & (np.arange(operations.WARP) < operation.addressed)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    inside = (made.addresses >= start) & (made.addresses + operation.width_bytes <= end)
    whole = used[:, : operation.addressed].all(axis=1) if matrix else used.any(axis=1)
    rows = np.flatnonzero((inside | ~used).all(axis=1) & whole)
    return made.chosen(rows) if len(rows) else None


def _excess(made: AccessRequests) -> int:
    matrix = operations.find(made.op).kind in (LDMATRIX, STMATRIX)
    counted = wavefronts(made.op, made.addresses, None if matrix else made.active, made.source)
    return int((np.where(counted.known, counted.actual - counted.ideal, 0) * made.times).sum())
