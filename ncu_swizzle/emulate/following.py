"""The requests of further iterations of a loop: those of one iteration, shifted by what each iteration adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.emulate.accesses import WINDOW, Made, RequestLog
from ncu_swizzle.emulate.dependence import Tag
from ncu_swizzle.emulate.limits import SHIFTED_BYTES
from ncu_swizzle.emulate.requests import Seen
from ncu_swizzle.smem.banks import Bools, Ints
from ncu_swizzle.smem.operations import LINE


@dataclass(frozen=True)
class Shifts:
    """The requests that one iteration made, of which some follow the iteration."""

    still: Sequence[Made]
    moving: Sequence[tuple[Made, int, int]]  # by how much their addresses and sources change in an iteration

    @classmethod
    def of(cls, requests: Sequence[Made], axis: int) -> Shifts:
        """Return the requests of an iteration that had tags on this axis."""
        together: dict[tuple[int, Tag | None, Tag | None], Made] = {}
        for made in requests:
            key = (id(made.seen), made.tag, made.source_tag)
            earlier = together.get(key)
            together[key] = replace(made, times=made.times + earlier.times) if earlier else made
        changes = [(made, _change(made.tag, axis), _change(made.source_tag, axis)) for made in together.values()]
        return cls(
            [made for made, addresses, sources in changes if not addresses and not sources],
            [(made, addresses, sources) for made, addresses, sources in changes if addresses or sources],
        )

    @property
    def most(self) -> int:
        """How many iterations can be added at once, given the memory that their requests take."""
        size = sum(made.seen.nbytes for made, _, _ in self.moving)
        return max(1, SHIFTED_BYTES // size) if size else 1 << 62

    def following(self, log: RequestLog, axis: int, times: int) -> list[Made] | None:
        """Return the requests of so many further iterations; None if some are invalid."""
        if not times:
            return []
        made = [_outside(replace(made, times=made.times * times), axis) for made in self.still]
        for one, addresses, sources in self.moving:
            further = np.arange(1, times + 1)
            seen = _shifted(one.seen, addresses * further, sources * further)
            if not log.valid(one.number, seen):
                return None
            made.append(_outside(replace(one, seen=seen), axis))
        return made


def _change(tag: Tag | None, axis: int) -> int:
    change = 0 if tag is None else tag.per_iteration(axis)
    assert change is not None  # or the iteration would have failed
    return change


def _outside(made: Made, axis: int) -> Made:
    """Return the requests with the tags that their addresses have outside of the loop."""
    tag, source_tag = (None if tag is None else tag.outside(axis) for tag in (made.tag, made.source_tag))
    return replace(made, tag=tag, source_tag=source_tag)


def _shifted(seen: Seen, addresses: Ints, sources: Ints) -> Seen:
    """Return the requests shifted by each of these numbers of bytes, as if that many times the warps made them."""
    count, each = len(addresses), len(seen.selected)
    selected = np.tile(seen.selected, (count, 1))
    by = np.repeat(addresses.astype(np.int64), each)[:, None].astype(np.uint32)
    lanes = np.where(selected, np.tile(np.broadcast_to(seen.addresses, seen.selected.shape), (count, 1)) + by, 0)
    source = None
    if seen.source is not None:
        source = np.tile(seen.source, (count, 1))
        source = _from_first_line(source + np.repeat(sources, each)[:, None], selected, source >= 0)
    blocks = np.broadcast_to(seen.blocks.reshape(-1, 1, each), (seen.repeats, count, each)).ravel()
    return Seen(lanes.astype(np.uint32) & WINDOW, selected, source, blocks)


def _from_first_line(source: Ints, selected: Bools, reads: Bools) -> Ints:
    """Return sources relative to the line of each request's lowest one; -1 for what is not read."""
    first = np.where(selected & reads, source, 1 << 60).min(axis=1, keepdims=True) & -LINE
    relative: Ints = np.where(selected, np.where(reads, source - first, -1), 0)
    return relative
