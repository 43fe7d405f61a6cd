"""What an iteration of a loop does to registers: some change by fixed steps, all others must be as they were."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.boxes import Repeat
from ncu_swizzle.emulate.code import PRED
from ncu_swizzle.emulate.dependence import WORD, Tag, iteration, total
from ncu_swizzle.emulate.effects import BASES, REGISTERS
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.emulate.waits import Waits
from ncu_swizzle.smem.operations import Bools, Ints

# The state of a run when an iteration of a loop begins: to go back to it, and to see what the iteration changed.


_OF_MACHINE = (
    *("live", "local", "local_lost", "voted", "shared_written", "shared_origin", "shared_tag", "unordered"),
    *("mbarriers", "overwritten", "asked", "shared_tags"),
)
_CONTENTS = ("shared", "shared_known")
_OF_SCHEDULE = ("arrivals", "collective", "arrived", "synced", "wanted", "waits_at")
_QUEUES = ("ready", "resting", "waiting")
_OF_WAITS = ("arrived", "given_up")
_QUEUES_OF_WAITS = ("released", "held", "at_cluster")
_DECIDES_NOTHING = frozenset(("version", "completed"))  # of mbarriers


class Running(Protocol):
    """The schedule whose state is kept."""

    program: PreparedCode
    machine: Machine
    clock: Clock
    unknown: dict[int, Unknown]
    reconvergence: list[int]
    waits: Waits
    issued: Ints


class Checkpoint:
    """Everything that decides how a run goes on, and what it has counted, but for the requests of active loops."""

    def __init__(self, schedule: Running) -> None:
        m = schedule.machine
        self.registers = list(m.registers)
        self.tokens = m.tokens.copy()
        self.states = [(thing, _copied(thing, names)) for thing, names in _parts(schedule)]
        self.queues = [
            (thing, {name: list(getattr(thing, name)) for name in names}) for thing, names in _queues(schedule)
        ]
        self.boxes = copy.deepcopy(m.boxes)
        self.unknown, self.missed = dict(schedule.unknown), dict(m.log.unknown)
        self.wgmma = {number: (warps.copy(), waves) for number, (warps, waves) in m.log.wgmma.items()}
        self.issued, self.clock = schedule.issued.copy(), schedule.clock.issued
        self.repeats = [(repeat, repeat.copied()) for repeat in m.repeats.active]

    def restore(self, schedule: Running, failed: Repeat) -> None:
        """Go back to this state, and take back the requests that were counted since."""
        m = schedule.machine
        for made in failed.requests:
            made.seen.count -= made.times
        m.registers = self.registers
        m.tokens = self.tokens
        for thing, state in (*self.states, *self.queues):
            for name, value in state.items():
                setattr(thing, name, value)
        if not m.shared_written:
            m.shared[:], m.shared_known[:] = 0, False
        m.boxes = self.boxes
        schedule.unknown.clear()
        schedule.unknown.update(self.unknown)
        m.log.unknown, m.log.wgmma = self.missed, self.wgmma
        schedule.issued[:] = self.issued
        for repeat, earlier in self.repeats:
            repeat.restore(earlier)
        m.repeats.active = [repeat for repeat, _ in self.repeats]

    def returned(self, schedule: Running) -> bool:
        """Say whether the state is this one again, except for registers and what was counted."""
        m = schedule.machine
        if "claims" in vars(m) or m.repeats.active[-1].failed:
            return False
        for thing, queues in self.queues:
            if not all(_same_queue(queue, getattr(thing, name)) for name, queue in queues.items()):
                return False
        compared = ((thing, state, name) for thing, state in self.states for name in state if name != "shared")
        if not all(_same(state[name], getattr(thing, name)) for thing, state, name in compared):
            return False
        contents = next((state["shared"] for thing, state in self.states if thing is m and "shared" in state), None)
        if contents is not None and ((contents != m.shared) & m.shared_known).any():  # the same bytes are known
            return False
        return bool((self.tokens == m.tokens).all()) or self._named_alike(schedule)

    def _named_alike(self, schedule: Running) -> bool:
        """Say whether threads are at the same convergence barriers, which have new names in every iteration."""
        before, after = self.tokens.ravel(), schedule.machine.tokens.ravel()
        pairs = np.unique(np.stack([before, after]), axis=1)
        if any(len(np.unique(names)) != pairs.shape[1] for names in pairs):
            return False
        targets = schedule.reconvergence
        return all(
            old == new or (min(old, new) > 0 and max(old, new) < len(targets) and targets[old] == targets[new])
            for old, new in pairs.T.tolist()
        )


def _parts(schedule: Running) -> list[tuple[Any, Sequence[str]]]:
    m = schedule.machine
    of_machine = (*_OF_MACHINE, *_CONTENTS) if m.shared_written else _OF_MACHINE
    return [(m, of_machine), (schedule, _OF_SCHEDULE), (schedule.waits, _OF_WAITS)]


def _queues(schedule: Running) -> list[tuple[Any, Sequence[str]]]:
    return [(schedule, _QUEUES), (schedule.waits, _QUEUES_OF_WAITS)]


def _copied(thing: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: copy.deepcopy(getattr(thing, name)) for name in names}


def _same_queue(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Say whether the same threads wait for the same; they may have gone on in between."""
    return len(before) == len(after) and all(
        a is b or _same(a, b) for a, b in zip(_in_order(before), _in_order(after), strict=True)
    )


def _in_order(queue: Sequence[Any]) -> list[Any]:
    groups = [(getattr(each, "group", each), each) for each in queue]
    return [each for _, each in sorted(groups, key=lambda pair: (pair[0].pc, pair[0].warps.tolist()))]


def _same(a: Any, b: Any) -> bool:
    """Say whether two states decide the same."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, Value):
        names = ["tag", "known", "bits"]
    elif is_dataclass(a) and not isinstance(a, Tag):
        names = [field.name for field in fields(a) if field.name not in _DECIDES_NOTHING]
    else:
        return bool(a == b)
    return all(_same(getattr(a, name), getattr(b, name)) for name in names)


UNKNOWN = -1  # what a sample says of a register that is not known, or was never written


def numbers_in(live: int) -> list[int]:
    """Return the registers in a bit set."""
    return [number for number in range(REGISTERS) if live >> number & 1]


def sample(m: Machine, numbers: Sequence[int], warp: int, lane: int) -> Ints:
    """Return what registers hold in one lane."""
    held = np.full(len(numbers), UNKNOWN, np.int64)
    for position, number in enumerate(numbers):
        value = m.registers[number]
        if value is not None and value.known is not False:
            rows, lanes = value.bits.shape
            held[position] = value.bits[warp if rows > 1 else 0, lane if lanes > 1 else 0]
    return held


@dataclass
class Advance:
    """By how much registers change, and the lanes in which they do."""

    numbers: Sequence[int]  # the registers that matter
    changes: dict[int, int]  # by register
    lanes: Bools  # (W, 32)

    @classmethod
    def between(cls, numbers: Sequence[int], before: Ints, after: Ints, lanes: Bools) -> Advance | None:
        """Return what two samples say; None if a predicate changes, or whether something is known."""
        changes: dict[int, int] = {}
        for position in np.flatnonzero(before != after).tolist():
            number, old, new = numbers[position], int(before[position]), int(after[position])
            if number >= BASES[PRED] or UNKNOWN in (old, new):
                return None
            changes[number] = (new - old + WORD // 2) % WORD - WORD // 2
        return cls(numbers, changes, lanes)

    def begin(self, m: Machine, axis: int) -> list[Value | None]:
        """Tag the registers that change; return all of them as they then are."""
        for number, change in self.changes.items():
            value, step = m.registers[number], iteration(axis, change)
            assert value is not None
            patches = value.patches
            if patches is not None:
                patches = tuple((lanes, total(tag, step)) for lanes, tag in patches)
            m.registers[number] = Value(
                value.bits,
                value.known,
                origin=value.origin,
                tag=total(value.tag, step),
                sure=value.sure,
                patches=patches,
            )
        return list(m.registers)

    def happened(self, m: Machine, before: Sequence[Value | None]) -> bool:
        """Say whether the registers that matter changed so, and all others not."""
        return all(self._changed(m, before[number], m.registers[number], number) for number in self.numbers)

    def _changed(self, m: Machine, old: Value | None, new: Value | None, number: int) -> bool:
        change = self.changes.get(number, 0)
        if old is new:
            return not change
        if old is None or new is None or old.tag != new.tag or not _same_patches(old, new):
            return False
        where, lanes = m.live, self.lanes
        if old.bits.shape[1] == new.bits.shape[1] == 1:
            where, lanes = _of_warps(where), _of_warps(lanes)
        sure = _in_lanes(old.known, where)
        if not np.array_equal(sure, _in_lanes(new.known, where)) or not same_bits_known(old, new, where, change):
            return False
        if not sure.all() and old.origin != new.origin:
            return False
        expected = np.where(lanes, old.bits + np.uint32(change % WORD), old.bits) if change else old.bits
        wrong = (expected != new.bits) & where & np.asarray(old.known)
        return not bool(wrong.any())

    def apply(self, m: Machine, times: int) -> None:
        """Let the changes happen so many times more."""
        for number, change in self.changes.items():
            value = m.registers[number]
            assert value is not None
            by = np.uint32(change * times % WORD)
            whole = bool((self.lanes | ~m.live).all())
            lanes = _of_warps(self.lanes) if value.bits.shape[1] == 1 else self.lanes
            bits = value.bits + by if whole else np.where(lanes, value.bits + by, value.bits)
            m.registers[number] = Value(
                bits, value.known, origin=value.origin, tag=value.tag, sure=value.sure, patches=value.patches
            )


def strip(m: Machine, axis: int) -> None:
    """Remove an axis from the tags of all registers."""
    for number, value in enumerate(m.registers):
        if value is None:
            continue
        tags = [value.tag, *(tag for _, tag in value.patches or ())]
        if any(tag is not None and tag.loops >> axis & 1 for tag in tags):
            patches = value.patches
            if patches is not None:
                patches = tuple((lanes, _outside(tag, axis)) for lanes, tag in patches)
            tag = _outside(value.tag, axis)
            m.registers[number] = Value(
                value.bits, value.known, origin=value.origin, tag=tag, sure=value.sure, patches=patches
            )


def _of_warps(lanes: Bools) -> Bools:
    warps: Bools = np.asarray(lanes.any(axis=1, keepdims=True))
    return warps


def _outside(tag: Tag | None, axis: int) -> Tag | None:
    return None if tag is None else tag.outside(axis)


def _in_lanes(known: bool | Bools, where: Bools) -> Bools:
    return np.broadcast_to(np.asarray(known), where.shape)[where]


def same_bits_known(old: Value, new: Value, where: Bools, change: int) -> bool:
    """Say whether the same bits of values that are not wholly known are known, and hold the same."""
    if old.sure is None and new.sure is None:
        return True
    if change or old.sure is None or new.sure is None:
        return False
    sure = _spread(old.sure, where)
    differ = (sure ^ _spread(new.sure, where)) | (_spread(old.bits ^ new.bits, where) & sure)
    return not bool(differ[where].any())


def _spread(bits: Bits, where: Bools) -> Bits:
    spread: Bits = np.broadcast_to(bits, where.shape)
    return spread


def _same_patches(old: Value, new: Value) -> bool:
    if old.patches is None or new.patches is None:
        return old.patches is new.patches
    return len(old.patches) == len(new.patches) and all(
        tag == other and np.array_equal(lanes, others)
        for (lanes, tag), (others, other) in zip(old.patches, new.patches, strict=True)
    )
