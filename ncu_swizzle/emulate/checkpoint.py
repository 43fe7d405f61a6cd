"""The state of a run when an iteration of a loop begins: to go back to it, and to see what the iteration changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.dependence import Tag
from ncu_swizzle.emulate.limits import Clock
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.repeats import Repeat
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.emulate.waits import Waits
from ncu_swizzle.smem.banks import Ints

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
        contents = self.states[0][1].get("shared")
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
