"""Recognize threads that run in circles: the whole state of the emulation is one that was there before.

Everything that decides what comes next is compared, for all warps, so a state that returns returns for ever. Brent, "An
improved Monte Carlo factorization algorithm" (1980): one earlier state is kept, and replaced after 2^k steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.emulate.waits import Group, Waits

FIRST = 256  # basic blocks before the first state is kept
# What decides nothing: what was counted, what is derived from the rest, and names, which `_barriers` compares.
_OF_SCHEDULE = frozenset(
    (
        *("program", "machine", "clock", "handlers", "unknown", "circles", "reconvergence", "waits"),
        *("shortcuts", "loops", "issued", "apart"),
    )
)
_OF_MACHINE = frozenset(
    ("now", "view", "log", "boxes", "stores", "registers", "tokens", "clusters", "contended", "repeats", "world")
)


class Running(Protocol):
    """The schedule whose threads are watched."""

    machine: Machine
    ready: list[Group]
    resting: list[Group]
    reconvergence: list[int]
    waits: Waits

    def wake(self) -> None: ...

    def forget_counts(self, leaders: list[int]) -> None: ...


class _Opaque(Exception):
    """An object whose state cannot be seen."""


class Circles:
    """Watches the states of one run."""

    def __init__(self) -> None:
        self.steps = 0
        self._next = FIRST
        self._pc = -1
        self._registers: list[Value | None] = []
        self._digest = b""
        self._differed = 0  # the register that differed last
        self._rested: set[bytes] = set()
        self._visited: set[int] = set()  # basic blocks since the state that is kept

    def closed(self, schedule: Running, group: Group) -> bool:
        """Say whether the state before this group's basic block is the one that was kept."""
        self.steps += 1
        self._visited.add(group.pc)
        if group.pc == self._pc and self._same_registers(schedule.machine.registers):
            return bool(self._digest) and _digest(schedule, group) == self._digest
        if self.steps >= self._next:
            self._next *= 2
            self._pc, self._registers = group.pc, list(schedule.machine.registers)
            self._digest = _digest(schedule, group)
            self._visited = {group.pc}
        return False

    def rests(self, schedule: Running, group: Group) -> bool:
        """Let the others run instead of threads that wait in a loop; say whether one of them may end it.

        How often the loop runs depends on their time, so it is unknown.
        """
        state = _digest(schedule, group) + _digest_of(schedule.machine.registers)
        if state in self._rested:
            return False
        self._rested.add(state)
        schedule.wake()
        if not schedule.ready:
            return False
        schedule.resting.append(group)
        schedule.forget_counts(sorted(self._visited))
        self.forget()
        return True

    def forget(self) -> None:
        """Keep another state: the run goes back to one that it has left, see `loops`."""
        self._pc = -1

    def _same_registers(self, registers: list[Value | None]) -> bool:
        count = len(registers)
        for number in (*range(self._differed, count), *range(self._differed)):
            if not _same(registers[number], self._registers[number]):
                self._differed = number
                return False
        return True


def _same(a: Value | None, b: Value | None) -> bool:
    if a is b:
        return True
    if a is None or b is None:
        return False
    return np.array_equal(a.bits, b.bits) and np.array_equal(np.asarray(a.known), np.asarray(b.known))


def _digest(schedule: Running, group: Group) -> bytes:
    """Return a digest of everything but the registers; empty if something cannot be compared."""
    digest = hashlib.sha256()
    try:
        for thing in (
            group,
            *_state(schedule, _OF_SCHEDULE),
            *_state(schedule.machine, _OF_MACHINE),
            _barriers(schedule),
            *schedule.waits.state,
            schedule.machine.world.events if schedule.machine.world is not None else 0,
        ):
            _feed(digest, thing)
    except _Opaque:
        return b""
    return digest.digest()


def _digest_of(thing: object) -> bytes:
    digest = hashlib.sha256()
    _feed(digest, thing)
    return digest.digest()


def _state(thing: object, without: frozenset[str]) -> Iterable[object]:
    return (pair for pair in vars(thing).items() if pair[0] not in without)


def _barriers(schedule: Running) -> tuple[Any, ...]:
    """Return the convergence barriers; executions of BSSY have ever new tokens, so these are numbered again."""
    used, which = np.unique(schedule.machine.tokens, return_inverse=True)
    targets = [schedule.reconvergence[token] if token < len(schedule.reconvergence) else -token for token in used]
    return which, targets


def _feed(digest: Any, thing: Any) -> None:
    if isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype}{thing.shape}".encode())
        digest.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, str | int | float | bytes | np.generic | None):
        digest.update(repr(thing).encode())
    elif isinstance(thing, Value):
        _feed(digest, (thing.bits, np.asarray(thing.known)))
    elif isinstance(thing, dict):
        _feed(digest, [*thing.items()])
    elif isinstance(thing, tuple | list):
        digest.update(f"{len(thing)}:".encode())
        for part in thing:
            _feed(digest, part)
    elif is_dataclass(thing):
        _feed(digest, [getattr(thing, field.name) for field in fields(thing)])
    else:
        raise _Opaque
