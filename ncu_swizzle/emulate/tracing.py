"""Run two versions of a kernel on the same blocks, until every block of the grid behaves like one that ran in both."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, memory_operands, operation_name
from ncu_swizzle.emulate.blocks import Batch, Setting, Unclaimed, run_batch
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.effects import COUNTED, GENERIC, MODELLED, UNCOUNTED, WGMMA, may_be_counted
from ncu_swizzle.emulate.faults import ManyKinds, TooLarge, Unsupported
from ncu_swizzle.emulate.machine import SHARED_WINDOW, Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import in_words, setting_of
from ncu_swizzle.emulate.state import Unknown
from ncu_swizzle.emulate.values import known_in
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import LDMATRIX, STMATRIX, Bools, Ints

# Record every access to shared memory: who, where, and after how many barriers; and what synchronises.
#
# The steps run before the instructions themselves (`program.prepare`), and only in a program of its own: counting costs
# nothing more. A block stands only for those that access the very same addresses.


MOST_ACCESSES = 1 << 24  # of single lanes, recorded together
# What orders accesses. The emulator lets copies arrive at once and threads see every write: nothing else would show
# that one of these is missing. A NOP is what is left of a __syncwarp() where the warp has converged anyway.
SYNCHRONISING = frozenset(("BAR", "LDGDEPBAR", "DEPBAR", "MEMBAR", "FENCE", "ARRIVES"))
COPY_GROUPS = "SB0"  # the scoreboard of cp.async; the compiler waits for others as it likes
UNSEEN = WGMMA | UNCOUNTED  # they access shared memory at addresses that no lane gives


@dataclass(frozen=True, eq=False)
class LaneAccesses:
    """Accesses of single lanes in the order of execution, one row each; `block` counts the blocks that ran."""

    pc: Ints  # the index of the instruction
    block: Ints
    thread: Ints
    address: Ints
    epoch: Ints  # barriers of the block that the thread has passed


@dataclass(frozen=True, eq=False)
class LaneSyncs:
    """What synchronises, lane by lane in the order of execution."""

    pc: Ints
    block: Ints
    thread: Ints
    epoch: Ints
    copies: Ints  # of cp.async that the thread has issued before


@dataclass(kw_only=True)
class Recorder:
    """Makes the steps, and holds what they record until it is taken."""

    opaque: dict[int, str] = field(default_factory=dict)  # why accesses cannot be seen, by index of the instruction
    _rows: list[Ints] = field(default_factory=list)
    _count: int = 0
    _epoch: Ints | None = None
    _copies: Ints | None = None
    _syncs: list[Ints] = field(default_factory=list)

    def step(self, instruction: SassInstruction) -> Step | None:
        """Return the step that records an instruction; None if it neither accesses shared memory nor is a barrier."""
        if instruction.never:
            return None
        if instruction.opcode in SYNCHRONISING:
            return _Sync(self, instruction).step if synchronises(instruction) else None
        if instruction.opcode in COUNTED | GENERIC:
            return _TracedAccess(self, instruction).step
        if instruction.opcode in UNSEEN or instruction.opcode not in MODELLED:
            return self._unseen(instruction)
        return None

    def take(self) -> LaneAccesses:
        """Return what was recorded since the last time."""
        columns = np.concatenate(self._rows, axis=1) if self._rows else np.zeros((5, 0), np.int64)
        self._rows.clear()
        self._count = 0
        return LaneAccesses(*columns)

    def take_syncs(self) -> LaneSyncs:
        """Return what has synchronised since the last time, and start to count anew."""
        columns = np.concatenate(self._syncs, axis=1) if self._syncs else np.zeros((5, 0), np.int64)
        self._syncs.clear()
        self._epoch = self._copies = None
        return LaneSyncs(*columns)

    def epochs(self, m: Machine) -> Ints:
        """Return how many barriers each lane has passed, (W, 32)."""
        if self._epoch is None:
            self._epoch = np.zeros((m.warps, 32), np.int64)
        return self._epoch

    def copies(self, m: Machine) -> Ints:
        """Return how many copies each lane has issued, (W, 32)."""
        if self._copies is None:
            self._copies = np.zeros((m.warps, 32), np.int64)
        return self._copies

    def add_sync(self, m: Machine, selected: Bools) -> None:
        """Record that these lanes synchronise."""
        where = _Selected(m, selected)
        self._syncs.append(where.columns(where.of(self.epochs(m)), where.of(self.copies(m))))

    def add(self, m: Machine, address: Ints, selected: Bools) -> None:
        """Record the accesses of these lanes. Raises TooLarge."""
        where = _Selected(m, selected)
        self._rows.append(where.columns(address[where.rows, where.lanes], where.of(self.epochs(m))))
        self._count += len(where.lanes)
        if self._count > MOST_ACCESSES:
            raise TooLarge(f"more than {MOST_ACCESSES:,} accesses to shared memory in blocks that run together")

    def _unseen(self, instruction: SassInstruction) -> Step:
        def step(m: Machine) -> None:
            self.opaque[m.now] = f"where {instruction.text} accesses shared memory is not followed"

        return step


class _Selected:
    """Lanes of the view that execute an instruction, row by row."""

    def __init__(self, m: Machine, selected: Bools) -> None:
        self.machine = m
        self.rows, self.lanes = np.nonzero(selected)
        self.warps = m.view.warps[self.rows]

    def of(self, table: Ints) -> Ints:
        """Return what a table of all warps, (W, 32), has for these lanes."""
        return table[self.warps, self.lanes]

    def columns(self, *more: Ints) -> Ints:
        """Return instruction, block and thread of each lane, and what else is told of it, a row each."""
        m = self.machine
        every = (np.full(len(self.lanes), m.now), m.block_of[self.warps], self.of(m.thread), *more)
        return np.stack(every).astype(np.int64)


class _TracedAccess:
    """An instruction whose lanes give addresses of shared memory, or generic ones."""

    def __init__(self, recorder: Recorder, instruction: SassInstruction) -> None:
        self.recorder, self.instruction = recorder, instruction
        self.guard = operands.guard_operands(instruction.guard)
        memory = instruction.operands[memory_operands(instruction)[0]]
        self.generic = instruction.opcode in GENERIC
        self.address = operands.wide_address(memory) if self.generic else operands.address(memory)
        named = operation_name(instruction)
        self.addressed = np.arange(32) < (operations.find(named).addressed if named and _matrix(named) else 32)

    def step(self, m: Machine) -> None:
        selected, doubtful = m.certain_mask(self.guard(m) if self.guard else None)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            text = self.instruction.text
            self.recorder.opaque[m.now] = f"whether {text} accesses shared memory, or where, depends on data"
            return
        m.decide(address.tag)
        bits = np.broadcast_to(address.bits, selected.shape)
        if self.generic:
            selected = selected & (bits >> np.uint64(32) == SHARED_WINDOW)
        lanes = selected & self.addressed
        if lanes.any():
            if self.instruction.opcode == "LDGSTS":
                rows, columns = np.nonzero(lanes)
                self.recorder.copies(m)[m.view.warps[rows], columns] += 1
            self.recorder.add(m, (bits & type(bits.flat[0])(WINDOW)).astype(np.int64), lanes)


class _Sync:
    """A barrier of the block, or what else orders accesses."""

    def __init__(self, recorder: Recorder, instruction: SassInstruction) -> None:
        self.recorder, self.guard = recorder, operands.guard_operands(instruction.guard)
        self.barrier = instruction.opcode == "BAR"

    def step(self, m: Machine) -> None:
        selected, _ = m.selection(self.guard(m) if self.guard else None)
        self.recorder.add_sync(m, selected)
        if self.barrier:
            rows, lanes = np.nonzero(selected)
            self.recorder.epochs(m)[m.view.warps[rows], lanes] += 1


def synchronises(instruction: SassInstruction) -> bool:
    """Say whether an instruction orders accesses as its source asks, not just the compiler's own loads."""
    if instruction.opcode not in SYNCHRONISING:
        return False
    return instruction.opcode != "DEPBAR" or COPY_GROUPS in instruction.text


def _matrix(name: str) -> bool:
    return name.startswith((LDMATRIX, STMATRIX))


ROOM = 8  # of the accesses that may be recorded: what the first block makes times the blocks that run together
MOST_BLOCKS = 1 << 6  # that run together
# What counting may not know although the access itself is known.
_COUNTING = ("no rule is known", "what ncu counts", "not all warps of a warpgroup")


@dataclass(frozen=True, eq=False)
class Trace:
    """The accesses of one version in the blocks that ran, and what is not known of them, by instruction index."""

    accesses: LaneAccesses
    syncs: LaneSyncs
    unknown: dict[int, str]


@dataclass(frozen=True, eq=False)
class Pair:
    """Both versions' accesses in the same blocks, (B, 3)."""

    blocks: Ints
    first: Trace
    second: Trace


class Version:
    """One version of a kernel, prepared to be traced."""

    def __init__(self, code: Code, launch: Launch, clock: Clock) -> None:
        self.recorder = Recorder()
        program = prepare(code, arrays=bool(launch.memory), probe=self.recorder.step)
        self.setting: Setting = setting_of(code, launch, program, clock, shortcuts=False)

    @property
    def instructions(self) -> tuple[SassInstruction, ...]:
        return tuple(self.setting.program.instructions)

    def run(self, blocks: Ints) -> tuple[Batch, Trace]:
        """Run some blocks, (B, 3)."""
        batch = run_batch(self.setting, blocks)
        return batch, Trace(self.recorder.take(), self.recorder.take_syncs(), self._unknown(batch))

    def _unknown(self, batch: Batch) -> dict[int, str]:
        reasons: dict[int, Unknown] = {
            number: why for number, why in batch.missed.items() if not why.reason.startswith(_COUNTING)
        }
        for number, why in batch.unknown.items():
            if may_be_counted(self.instructions[number].opcode) or self.instructions[number].opcode == "BAR":
                reasons.setdefault(number, why)
        return self.recorder.opaque | {number: in_words(self.setting.program, why) for number, why in reasons.items()}


def side_by_side(first: Version, second: Version) -> Iterator[Pair]:
    """Yield the accesses of both versions in the same blocks, until these stand for all blocks of the grid.

    Raises ManyKinds when the time is up, and one of `faults`.
    """
    grid, clock = first.setting.grid, first.setting.clock
    for setting in (first.setting, second.setting):
        if setting.cluster != (1, 1, 1):
            raise Unsupported(0, "a cluster", "is launched, whose blocks access each other's shared memory")
    unclaimed = Unclaimed(grid)
    pinned, size = 0, 1
    while unclaimed.blocks:
        blocks = unclaimed.some(pinned, size)
        (one, before), (other, after) = first.run(blocks), second.run(blocks)
        boxes = joint(one.machine.boxes, other.machine.boxes)
        for number in range(len(blocks)):
            unclaimed.claim(boxes, number)
        yield Pair(blocks, before, after)
        pinned |= one.machine.boxes.pinned | other.machine.boxes.pinned
        if size == 1:
            made = max(len(before.accesses.pc), len(after.accesses.pc), 1)
            size = max(1, min(MOST_ACCESSES // ROOM // made, MOST_BLOCKS))
        if clock.expired and unclaimed.blocks:
            raise ManyKinds(math.prod(grid) - unclaimed.blocks, math.prod(grid), clock.timeout_s)


def joint(one: Boxes, other: Boxes) -> Boxes:
    """Return boxes of the blocks that are in both boxes around each block."""
    both = copy.copy(one)
    both.low, both.high = np.maximum(one.low, other.low), np.minimum(one.high, other.high)
    both.step = np.lcm(one.step, other.step)
    return both
