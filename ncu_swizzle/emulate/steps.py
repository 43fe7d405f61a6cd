"""What an iteration of a loop does: the steps by which registers change, and the requests of further iterations.

Mostly the threads of one loop change registers by the same steps, as one lane shows. Producers and consumers of
a pipeline run their own loops and hold each other at mbarriers: while one iterates, the others do too. The changes of
their registers in such a period are compared lane by lane, where they matter to a thread.

W warps run, of 32 lanes each; changes are signed, modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.emulate.accesses import WINDOW, RequestLog, from_first_line
from ncu_swizzle.emulate.code import PRED
from ncu_swizzle.emulate.dependence import WORD, Tag, iteration, sum_tag
from ncu_swizzle.emulate.effects import BASES, REGISTERS, numbers_in
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.requests import SHIFTED_BYTES, LoopRequests, WarpRequests, joined
from ncu_swizzle.emulate.state import Group
from ncu_swizzle.emulate.values import Bits, Patches, Value, merged_tag
from ncu_swizzle.smem.operations import Bools, Ints

UNKNOWN = -1  # in a sample: a register that is not known, or was never written


def sample(m: Machine, numbers: Sequence[int], warp: int, lane: int) -> Ints:
    """Return what these registers hold in one lane, (len(numbers),)."""
    held = np.full(len(numbers), UNKNOWN, np.int64)
    for position, number in enumerate(numbers):
        value = m.registers[number]
        if value is not None and value.known is not False:
            rows, lanes = value.bits.shape
            held[position] = value.bits[warp if rows > 1 else 0, lane if lanes > 1 else 0]
    return held


def _with(value: Value, bits: Bits, tag: Tag | None, patches: Patches | None) -> Value:
    """Return a value known in the same lanes, with other bits or tags."""
    return Value(bits, value.known, value.origin, tag, value.sure, patches=patches)


def _signed(difference: Ints) -> Ints:
    """Return differences modulo 2^32 as numbers between -2^31 and 2^31."""
    return (difference + WORD // 2) % WORD - WORD // 2


# ---------------------------------------------------------------------------------------------- registers


def strip(m: Machine, axis: int) -> None:
    """Remove an axis from the tags of all registers."""
    for number, value in enumerate(m.registers):
        if value is None:
            continue
        tags = [value.tag, *(tag for _, tag in value.patches or ())]
        if any(tag is not None and tag.loops >> axis & 1 for tag in tags):
            if value.patches is None:
                m.registers[number] = _with(value, value.bits, value.tag and value.tag.outside(axis), None)
            else:
                parts = ((lanes, tag and tag.outside(axis)) for lanes, tag in value.patches)
                m.registers[number] = _in_parts(value, parts)


def _in_parts(value: Value, parts: Iterable[tuple[Bools, Tag | None]]) -> Value:
    """Return a value with the tags of its parts, merging those with the same tag."""
    lanes_of: dict[Tag | None, Bools] = {}
    for lanes, tag in parts:
        lanes_of[tag] = lanes | lanes_of[tag] if tag in lanes_of else lanes
    narrow = all(lanes.shape[1] == 1 for lanes in lanes_of.values())
    patches = tuple((lanes, tag) for tag, lanes in lanes_of.items())
    return _with(value, value.bits, merged_tag(lanes_of, narrow) if patches else None, patches if patches[1:] else None)


def _lanes_like(where: Bools, wide: int) -> Bools:
    """Return lanes, (W, 32), reduced to one per warp, (W, 1), if values are."""
    return np.asarray(where.any(axis=1, keepdims=True)) if wide == 1 else where


def _same_bits_known(old: Value, new: Value, where: Bools, changes: bool) -> bool:
    """Return whether the same bits of values that are not wholly known are known, and hold the same.

    Where a register changes, no bits may be known.
    """
    if old.sure is None and new.sure is None:
        return True
    partly = where & ~np.broadcast_to(np.asarray(old.known), where.shape)
    none = np.zeros((1, 1), np.uint32)
    sure, still = (np.broadcast_to(none if value.sure is None else value.sure, where.shape) for value in (old, new))
    if changes:
        return not bool((sure | still)[partly].any())
    differ = np.broadcast_to(old.bits ^ new.bits, where.shape)
    return not bool(((sure ^ still) | (differ & sure))[partly].any())


# ---------------------------------------------------------------------------------------------- threads


def _whereabouts(program: PreparedCode, m: Machine, group: Group) -> list[tuple[int, Group]]:
    """Return where groups of threads continue; those of `group` run next."""
    after = program.flow.following
    waiting = [*(each.group for each in m.at_barrier), *(each.group for each in m.at_phase), *m.at_cluster]
    return [*((each.pc, each) for each in (group, *m.ready, *m.resting)), *((after(each.pc), each) for each in waiting)]


def positions(program: PreparedCode, m: Machine, group: Group) -> int:
    """Return a number for where all threads are, and for the state of the mbarriers that hold them."""
    here = {(pc, each.warps.tobytes(), each.mask.tobytes()) for pc, each in _whereabouts(program, m, group)}
    barriers = (
        (at, each.phase.tobytes(), each.pending.tobytes(), each.transactions.tobytes())
        for at, each in m.mbarriers.at.items()
    )
    return hash((frozenset(here), frozenset(barriers)))


def what_matters(program: PreparedCode, m: Machine, group: Group) -> dict[int, Bools]:
    """Return the lanes, (W, 32), in which each register matters, given where their threads are."""
    lanes: dict[int, Bools] = {}
    unseen = m.live.copy()
    for pc, group_here in _whereabouts(program, m, group):
        unseen[group_here.warps] &= ~group_here.mask
        for number in numbers_in(program.live.get(pc, (1 << REGISTERS) - 1)):
            lanes.setdefault(number, np.zeros(m.live.shape, bool))[group_here.warps] |= group_here.mask
    if unseen.any():  # at convergence barriers, whose targets are not looked up
        for number in range(REGISTERS):
            if m.registers[number] is not None:
                lanes[number] = lanes[number] | unseen if number in lanes else unseen
    return lanes


@dataclass(frozen=True, kw_only=True)
class Movement:
    """By how much registers change: (W, 32), or (W, 1) if the register is uniform in each warp."""

    lanes: Mapping[int, Bools]  # by register: where it matters
    changes: Mapping[int, Ints]
    threads: Bools | None = None  # (W, 32): those of the loop; None if a period of all threads is followed
    exact: frozenset[int] = (
        frozenset()
    )  # registers whose changes were seen lane by lane, although `threads` are followed

    @classmethod
    def between(
        cls, lanes: Mapping[int, Bools], before: Sequence[Value | None], after: Sequence[Value | None]
    ) -> Movement | None:
        """Return the movement between two states; None if a predicate changes, or which values are known."""
        changes: dict[int, Ints] = {}
        for number, where in lanes.items():
            old, new = before[number], after[number]
            if old is new:
                continue
            change = None if old is None or new is None else _change(old, new, where, number)
            if change is None:
                return None
            if change.any():
                changes[number] = change
        return cls(lanes=lanes, changes=changes)

    @classmethod
    def from_samples(
        cls, m: Machine, numbers: Sequence[int], before: Ints, after: Ints, threads: Bools
    ) -> Movement | None:
        """Return the movement between two samples; None if a predicate changes, or which values are known."""
        changes: dict[int, Ints] = {}
        for position in np.flatnonzero(before != after).tolist():
            number, value = numbers[position], m.registers[numbers[position]]
            if number >= BASES[PRED] or UNKNOWN in (before[position], after[position]) or value is None:
                return None
            step = _signed(after[position] - before[position])
            changes[number] = np.where(_lanes_like(threads, 1 if _is_narrow(value) else 32), step, 0)
        return cls(lanes=dict.fromkeys(numbers, m.live), changes=changes, threads=threads)

    def begin(self, m: Machine, axis: int) -> list[Value | None]:
        """Tag the registers that change; return all of them as they then are."""
        for number, change in self.changes.items():
            value = m.registers[number]
            if value is not None and number in self.lanes:
                m.registers[number] = _moving(value, self.lanes[number], change, axis)
        return list(m.registers)

    def happened(self, m: Machine, before: Sequence[Value | None]) -> bool:
        """Return whether the registers that matter changed by these steps, and no others did."""
        return all(self._changed(before[number], m.registers[number], number) for number in self.lanes)

    def _changed(self, old: Value | None, new: Value | None, number: int) -> bool:
        expected, where = self.changes.get(number), self.lanes[number]
        if old is new:
            return expected is None or old is None or not _masked(expected, where).any()
        if old is None or new is None:
            return False
        change = _change(old, new, where, number)
        if change is None or not _same_tags(old, new, where):
            return False
        sure = np.broadcast_to(np.asarray(old.known), where.shape)[where].all()
        if not sure and old.origin != new.origin:
            return False
        wanted = np.zeros((1, 1), np.int64) if expected is None else _masked(expected, where)
        wanted = np.where(np.asarray(old.known), wanted, 0)
        return bool((np.broadcast_to(wanted, where.shape) == change)[where].all())

    def corrected(self, m: Machine, before: Sequence[Value | None]) -> Movement | None:
        """Return the actual movement, if registers changed lane by lane; None if that is not why."""
        if self.threads is None:
            return None
        apart: dict[int, Ints] = {}
        for number in self.lanes:
            old, new = before[number], m.registers[number]
            if not self._changed(old, new, number):
                change = None if old is None or new is None else _change(old, new, self.threads & m.live, number)
                if change is None or not change.any() or number in self.exact:
                    return None
                apart[number] = change
        exact = self.exact.union(apart)
        return replace(self, changes={**self.changes, **apart}, exact=exact) if exact else None

    def apply(self, m: Machine, times: int) -> None:
        """Apply the changes `times` more times."""
        for number, change in self.changes.items():
            value = m.registers[number]
            if value is not None and number in self.lanes:
                by = (_masked(change, self.lanes[number]) * (times % WORD) % WORD).astype(np.uint32)
                m.registers[number] = _with(value, value.bits + by, value.tag, value.patches)


def _moving(value: Value, where: Bools, change: Ints, axis: int) -> Value:
    """Return a value tagged by how much it changes in each iteration, (W, 32) or (W, 1), in some lanes."""
    where = _lanes_like(where, change.shape[1])
    return _in_parts(
        value,
        (
            (moved, sum_tag(tag, iteration(axis, int(step))))
            for lanes, tag in _tagged_lanes(value, where)
            for step in np.unique(change[lanes & where])
            if (moved := lanes & where & (change == step)).any()
        ),
    )


def _masked(change: Ints, where: Bools) -> Ints:
    masked: Ints = np.where(_lanes_like(where, change.shape[1]), change, 0)
    return masked


def _is_narrow(value: Value) -> bool:
    """Return whether a value is the same in all lanes of each warp, and as known."""
    return value.bits.shape[1] == 1 and (isinstance(value.known, bool) or value.known.shape[1] == 1)


def _change(old: Value, new: Value, where: Bools, number: int) -> Ints | None:
    """Return by how much a register changed, (W, 32) or (W, 1); None if not a number."""
    where = _lanes_like(where, 1) if _is_narrow(old) and _is_narrow(new) else where
    known, still = (np.broadcast_to(np.asarray(value.known), where.shape) for value in (old, new))
    if bool((known != still)[where].any()):
        return None
    before, after = (np.broadcast_to(value.bits, where.shape).astype(np.int64) for value in (old, new))
    change = _signed(np.where(where & known, after - before, 0))
    moves = bool(change.any())
    if (moves and number >= BASES[PRED]) or not _same_bits_known(old, new, where, moves):
        return None
    return change


def _tagged_lanes(value: Value, where: Bools) -> Iterator[tuple[Bools, Tag | None]]:
    """Yield lanes, shaped as `where`, and the tag that a value has there."""
    if value.patches is None:
        yield where, value.tag
        return
    for lanes, tag in value.patches:
        yield _lanes_like(lanes, where.shape[1]), tag


def _same_tags(old: Value, new: Value, where: Bools) -> bool:
    """Return whether values depend alike on blocks and iterations, lane by lane."""
    return all(
        tag == other or not bool((lanes & others & where).any())
        for lanes, tag in _tagged_lanes(old, where)
        for others, other in _tagged_lanes(new, where)
    )


# ---------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True)
class Shifts:
    """The requests of one iteration, some of which move with it."""

    still: Sequence[LoopRequests]
    moving: Sequence[tuple[LoopRequests, int, int]]  # by how much their addresses and sources change in an iteration

    @classmethod
    def of(cls, requests: Sequence[LoopRequests], axis: int) -> Shifts:
        """Return the requests of an iteration that had tags on this axis."""
        moves = [(request, *request.moves(axis)) for request in joined(requests)]
        return cls(
            [request for request, addresses, sources in moves if not addresses and not sources],
            [(request, addresses, sources) for request, addresses, sources in moves if addresses or sources],
        )

    @property
    def most(self) -> int:
        """How many iterations can be added at once, given the memory that their requests take."""
        size = sum(request.seen.nbytes for request, _, _ in self.moving)
        return max(1, SHIFTED_BYTES // size) if size else 1 << 62

    def following(self, log: RequestLog, axis: int, times: int) -> list[LoopRequests] | None:
        """Return the requests of `count` further iterations; None if some are invalid."""
        if not times:
            return []
        requests = [request.made(axis, request.seen, request.times * times) for request in self.still]
        for request, addresses, sources in self.moving:  # or there may be billions of iterations
            further = np.arange(1, times + 1)
            shifted = _shifted_requests(request.seen, addresses * further, sources * further)
            if not log.all_valid(request.number, shifted):
                return None
            requests.append(request.made(axis, shifted, request.times))
        return requests


def _shifted_requests(seen: WarpRequests, addresses: Ints, sources: Ints) -> WarpRequests:
    """Return the requests shifted by each of these T numbers of bytes, as if T times as many warps made them.

    Of N requests, (N, 32), these are (T * N, 32): all of the first iteration first.
    """
    times, requests = len(addresses), len(seen.selected)
    selected = np.tile(seen.selected, (times, 1))
    by = np.repeat(addresses.astype(np.int64), requests)[:, None].astype(np.uint32)
    lanes = np.where(selected, np.tile(np.broadcast_to(seen.addresses, seen.selected.shape), (times, 1)) + by, 0)
    source = None
    if seen.source is not None:
        source = np.tile(seen.source, (times, 1))
        source = from_first_line(source + np.repeat(sources, requests)[:, None], selected, source >= 0)
    blocks = np.broadcast_to(seen.blocks.reshape(-1, 1, requests), (seen.repeats, times, requests)).ravel()
    return WarpRequests(
        addresses=lanes.astype(np.uint32) & WINDOW,
        selected=selected,
        source=source,
        blocks=blocks,
        certain=seen.certain,
    )
