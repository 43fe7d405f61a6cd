"""What each warp of a block executes, from the emulator: for bench/cycles.py.

Every iteration of every loop runs, of the block in the middle of the grid (of a cluster, of all its blocks). The
instructions of its warps are written down as they are issued, and with each a detail: the sectors of global memory that
it asks for, or the phase of a barrier that it completes or waits for.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncu_swizzle.emulate import blocks, copies, schedule, syncs, tensor_map, traffic, waits
from ncu_swizzle.emulate.accesses import WINDOW, access_width
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import setting_of

SECTOR, PER_LINE = 32, 4
NEW_PAIR, LINES, SECTORS = 1 << 7, 8, 16  # in a detail: a flag, and the first bits of two numbers
STORES = frozenset({"STG", "ST", "RED"})

Step = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A block's warps: the numbers of their instructions in order, (n,) each, and the details of these.

    A detail of an access to global memory is how many sectors the block had not loaded before (of a store, all), plus
    NEW_PAIR if one of them is in a pair of sectors that it had not, its lines from bit LINES on, and all its sectors
    from bit SECTORS on. Of an arrival, a wait, and a copy that a barrier counts: the number of the phase plus one.
    """

    numbers: tuple[np.ndarray, ...]
    details: tuple[np.ndarray, ...]
    parts: np.ndarray  # (phases,): arrivals and copies that complete each
    boxes: dict[int, tuple[float, float]]  # bytes and rows of the copies of an instruction, on average


def execution(code: Code, launch: Launch, timeout_s: float) -> Execution:
    """Return what the warps of a block execute. Raises what the emulator raises."""
    middle = [size // 2 // along * along for size, along in zip(launch.grid, launch.cluster, strict=True)]
    warps = -(-math.prod(launch.block) // 32)
    log = Log(warps=warps)
    with _logging(log):
        program = prepare(code, arrays=bool(launch.memory), counts_traffic=True)
        setting = setting_of(code, launch, program, Clock(timeout_s=timeout_s), shortcuts=False)
        blocks.run_batch(setting, np.array([middle]))
    offsets = np.array([instruction.offset // 16 for instruction in program.instructions], np.int32)
    return Execution(
        numbers=tuple(offsets[np.array(log.numbers[warp], np.int64)] for warp in range(warps)),
        details=tuple(np.array(log.details[warp], np.int32) for warp in range(warps)),
        parts=np.array([log.parts[number] for number in range(len(log.phases))] or [0], np.int32),
        boxes={int(offsets[number]): tuple(np.mean(found, axis=0)) for number, found in log.boxes.items()},
    )


# ---------------------------------------------------------------------------------------------- written down


@dataclass(kw_only=True)
class Log:
    """What the emulator does, in its order, of the warps of the first block."""

    warps: int
    numbers: dict[int, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    details: dict[int, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    phases: dict[tuple[str, int, int], int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    opened: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by number of the block's barrier
    loaded: set[int] = field(default_factory=set)  # sectors
    pairs: set[int] = field(default_factory=set)
    boxes: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def mine(self, warps: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yield the position and the number of each warp of the block."""
        return ((position, warp) for position, warp in enumerate(warps.tolist()) if warp < self.warps)

    def mark(self, warp: int, number: int, detail: int) -> None:
        """Give an instruction of the basic block that the warp executes now its detail."""
        numbers = self.numbers[warp]
        place = len(numbers) - 1 - (numbers[-1] - number)
        if place >= 0 and numbers[place] == number:
            self.details[warp][place] = detail

    def join(self, warp: int, number: int, phase: tuple[str, int, int], *, part: bool) -> None:
        """Write down to which phase of a barrier an instruction belongs, and whether it is a part of it."""
        which = self.phases.setdefault(phase, len(self.phases))
        self.parts[which] += part
        self.mark(warp, number, which + 1)


@contextmanager
def _logging(log: Log) -> Iterator[None]:
    """Write down what the emulator does while this lasts."""
    hooks: list[tuple[Any, str, Callable[[Log, Step], Step]]] = [
        (schedule.Schedule, "_count", _issue),
        (waits.Waits, "_answer", _pass),
        (waits.Waits, "judge_meeting", _meet),
        (waits.Waits, "_open", _open),
        (syncs._Arrive, "apply", _arrive),
        (copies.ToShared, "step", _copy),
        (traffic.TrafficLog, "record", _access),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in hooks]
    try:
        for owner, name, hook in hooks:
            setattr(owner, name, hook(log, getattr(owner, name)))
        yield
    finally:
        for owner, name, step in before:
            setattr(owner, name, step)


def _issue(log: Log, step: Step) -> Step:
    def issue(self: Any, group: Any, last: int) -> None:
        for _, warp in log.mine(group.warps):
            log.numbers[warp].extend(range(group.pc, last + 1))
            log.details[warp].extend([0] * (last + 1 - group.pc))
        step(self, group, last)

    return issue


def _pass(log: Log, step: Step) -> Step:
    """A wait for a phase of an mbarrier that is over."""

    def answer(self: Any, checks: Any, complete: bool) -> None:
        for position, warp in log.mine(checks.group.warps):
            offset, parity = int(checks.offset[position]), int(checks.parity[position])
            done = _phase(self.machine, offset)
            if done and (done - 1) % 2 == parity % 2:  # else it is new, and lets the first wait pass
                log.join(warp, checks.group.pc, ("mbarrier", offset, done - 1), part=False)
        step(self, checks, complete)

    return answer


def _meet(log: Log, step: Step) -> Step:
    """An arrival at a barrier of the block (BAR)."""

    def meet(self: Any, group: Any, barrier: int, count: int) -> None:
        for _, warp in log.mine(group.warps):
            log.join(warp, group.pc, ("block", barrier, log.opened[barrier]), part=True)
        step(self, group, barrier, count)

    return meet


def _open(log: Log, step: Step) -> Step:
    def opened(self: Any, barrier: int, chosen: np.ndarray) -> None:
        log.opened[barrier] += bool(chosen[0])
        step(self, barrier, chosen)

    return opened


def _arrive(log: Log, step: Step) -> Step:
    def apply(self: Any, m: Machine, selected: np.ndarray, address: np.ndarray) -> None:
        for position, warp in log.mine(m.view.warps):
            if selected[position].any():
                offset = int(address[position, int(selected[position].argmax())] & WINDOW)
                log.join(warp, m.now, ("mbarrier", offset, _phase(m, offset)), part=True)
        step(self, m, selected, address)

    return apply


def _copy(log: Log, step: Step) -> Step:
    """A copy by TMA, which an mbarrier counts."""

    def copy(self: Any, m: Machine) -> None:
        selected, _ = m.selection(self.guard(m) if self.guard else None)
        rows = np.flatnonzero(selected.any(axis=1))
        barrier = copies.of_rows(first_lane(self.barrier(m), m.view.mask), rows)
        sizes = self._bytes(m, rows, first_lane(self.extra(m), m.view.mask) if self.extra else None)
        for place, row in enumerate(rows.tolist()):
            for _, warp in log.mine(m.view.warps[row : row + 1]):
                offset = int(barrier[place] & WINDOW)
                log.join(warp, m.now, ("mbarrier", offset, _phase(m, offset)), part=True)
                log.boxes[m.now].append((max(0, int(sizes[place])), _box_rows(self, m, rows[place : place + 1])))
        step(self, m)

    return copy


def _box_rows(copy: Any, m: Machine, row: np.ndarray) -> int:
    """Return how many rows the box of one warp's copy has; 1 if it is a plain copy."""
    if not copy.tensor:
        return 1
    low, high = (int(copies.of_rows(first_lane(read(m), m.view.mask), row)[0]) for read in copy.source)
    content = copies.map_at(m, high << 32 | low)
    tiled = None if content is None else tensor_map.decoded(content)
    return math.prod(tiled.box[1:]) if tiled else 1


def _phase(m: Machine, offset: int) -> int:
    """Return how many phases of the first block's mbarrier are over."""
    barrier = m.mbarriers.at.get(offset)
    return 0 if barrier is None else int(barrier.completed[0])


def _access(log: Log, step: Step) -> Step:
    def record(self: Any, number: int, space: str, address: Any, selected: np.ndarray, target: Any = None) -> None:
        view = self.machine.view
        stores, width = self.instructions[number].opcode in STORES, access_width(self.instructions[number])
        bits = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
        for position, warp in log.mine(view.warps) if space in (traffic.GLOBAL, traffic.COPY) else ():
            at = bits[position][selected[position]]
            asked = set(np.unique(np.concatenate([at // SECTOR, (at + width - 1) // SECTOR])).tolist())
            new = asked if stores else asked - log.loaded
            pairs = {sector // 2 for sector in new}
            detail = len(new) + NEW_PAIR * bool(pairs - log.pairs)
            detail += (len({sector // PER_LINE for sector in asked}) << LINES) + (len(asked) << SECTORS)
            log.mark(warp, number, detail)
            if not stores:
                log.loaded |= asked
                log.pairs |= pairs
        step(self, number, space, address, selected, target)

    return record
