"""Run two versions of a kernel on the same blocks, until every block of the grid behaves like one that ran in both."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, memory_operands, operation_name
from ncu_swizzle.emulate.blocks import Batch, Setting, Unclaimed, run_batch
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.faults import ManyKinds, TooLarge, Unsupported
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import SHARED_WINDOW, Machine
from ncu_swizzle.emulate.opcodes import Copy, Shared
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
UNSEEN = (Shared.WGMMA, Shared.UNCOUNTED, Shared.UNKNOWN)  # they access shared memory at addresses that no lane gives


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


class LaneCounts:
    """How often something happened to each lane of the blocks that run, (W, 32)."""

    def __init__(self) -> None:
        self._counts: Ints | None = None

    def of(self, m: Machine) -> Ints:
        if self._counts is None:
            self._counts = np.zeros((m.warps, 32), np.int64)
        return self._counts

    def add(self, m: Machine, selected: Bools) -> None:
        """Count once for each of these lanes of the view, (G, 32)."""
        self.of(m)[m.view.warps] += selected

    def restart(self) -> None:
        """Let other blocks run from now on."""
        self._counts = None


class Recorder:
    """Makes the steps, and holds what they record until it is taken."""

    def __init__(self) -> None:
        self.opaque: dict[int, str] = {}  # why accesses cannot be seen, by index of the instruction
        self._accesses: list[Ints] = []  # (5, lanes), as in `LaneAccesses`
        self._syncs: list[Ints] = []  # (5, lanes), as in `LaneSyncs`
        self._count = 0
        self._epochs, self._copies = LaneCounts(), LaneCounts()

    def step(self, instruction: SassInstruction) -> Step | None:
        """Return the step that records an instruction; None if it neither accesses shared memory nor is a barrier."""
        if instruction.never:
            return None
        if instruction.opcode in SYNCHRONISING:
            return self._sync(instruction) if synchronises(instruction) else None
        if instruction.row.addressed:
            return self._access(instruction)
        if instruction.row.shared in UNSEEN:
            why = f"where {instruction.text} accesses shared memory is not followed"
            return lambda m: self.opaque.update({m.now: why})
        return None

    def take(self) -> tuple[LaneAccesses, LaneSyncs]:
        """Return what was recorded since the last time, and start to count anew."""
        nothing = np.zeros((5, 0), np.int64)
        taken = [np.concatenate([nothing, *recorded], axis=1) for recorded in (self._accesses, self._syncs)]
        self._accesses, self._syncs, self._count = [], [], 0
        self._epochs.restart()
        self._copies.restart()
        return LaneAccesses(*taken[0]), LaneSyncs(*taken[1])

    def _access(self, instruction: SassInstruction) -> Step:
        """Return the step of an instruction whose lanes give addresses of shared memory, or generic ones."""
        guard = operands.guard_operands(instruction.guard)
        memory = instruction.operands[memory_operands(instruction)[0]]
        generic, copies = instruction.row.shared is Shared.GENERIC, instruction.row.copy is Copy.ASYNC
        read_address = operands.wide_address(memory) if generic else operands.address(memory)
        operation = operation_name(instruction) or ""
        matrix = operation.startswith((LDMATRIX, STMATRIX))  # of which some lanes give no address
        addressed = np.arange(32) < (operations.find(operation).addressed if matrix else 32)

        def step(m: Machine) -> None:
            selected, doubtful = m.certain_mask(guard(m) if guard else None)
            address = read_address(m)
            if doubtful.any() or not known_in(address, selected):
                text = instruction.text
                self.opaque[m.now] = f"whether {text} accesses shared memory, or where, depends on data"
                return
            m.decide(address.tag)
            bits = np.broadcast_to(address.bits, selected.shape)
            if generic:
                selected = selected & (bits >> np.uint64(32) == SHARED_WINDOW)
            selected = selected & addressed
            if not selected.any():
                return
            if copies:
                self._copies.add(m, selected)
            at = (bits & type(bits.flat[0])(WINDOW)).astype(np.int64)
            self._accesses.append(_columns(m, selected, at, self._epochs.of(m)[m.view.warps]))
            self._count += int(selected.sum())
            if self._count > MOST_ACCESSES:
                raise TooLarge(f"more than {MOST_ACCESSES:,} accesses to shared memory in blocks that run together")

        return step

    def _sync(self, instruction: SassInstruction) -> Step:
        """Return the step of a barrier of the block, or of what else orders accesses."""
        guard = operands.guard_operands(instruction.guard)

        def step(m: Machine) -> None:
            selected, _ = m.selection(guard(m) if guard else None)
            counts = (counted.of(m)[m.view.warps] for counted in (self._epochs, self._copies))
            self._syncs.append(_columns(m, selected, *counts))
            if instruction.opcode == "BAR":
                self._epochs.add(m, selected)

        return step


def _columns(m: Machine, selected: Bools, *more: Ints) -> Ints:
    """Return instruction, block and thread of the L selected lanes, and what N tables, (G, 32), have for them.

    The result is (3 + N, L).
    """
    rows, lanes = np.nonzero(selected)
    warps, tables = m.view.warps[rows], (table[rows, lanes] for table in more)
    return np.stack([np.full(len(lanes), m.now), m.block_of[warps], m.thread[warps, lanes], *tables]).astype(np.int64)


def synchronises(instruction: SassInstruction) -> bool:
    """Return whether an instruction orders accesses as its source asks, not just the compiler's own loads."""
    if instruction.opcode not in SYNCHRONISING:
        return False
    return instruction.opcode != "DEPBAR" or COPY_GROUPS in instruction.text


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
        program = prepare(code, Demand(arrays=bool(launch.memory)), self.recorder.step)
        self.setting: Setting = setting_of(code, launch, program, clock, shortcuts=False)

    @property
    def instructions(self) -> tuple[SassInstruction, ...]:
        return tuple(self.setting.program.instructions)

    def run(self, blocks: Ints) -> tuple[Batch, Trace]:
        """Run some blocks, (B, 3)."""
        batch = run_batch(self.setting, blocks)
        return batch, Trace(*self.recorder.take(), self._unknown(batch))

    def _unknown(self, batch: Batch) -> dict[int, str]:
        reasons: dict[int, Unknown] = {
            number: why for number, why in batch.machine.missed.items() if not why.reason.startswith(_COUNTING)
        }
        for number, why in batch.machine.unknown.items():
            if self.instructions[number].row.may_be_counted or self.instructions[number].opcode == "BAR":
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
        boxes, theirs = copy.copy(one.machine.boxes), other.machine.boxes  # the blocks that are in both boxes
        boxes.low, boxes.high = np.maximum(boxes.low, theirs.low), np.minimum(boxes.high, theirs.high)
        boxes.step = np.lcm(boxes.step, theirs.step)
        for number in range(len(blocks)):
            unclaimed.claim(boxes, number)
        yield Pair(blocks, before, after)
        pinned |= boxes.pinned | theirs.pinned
        if size == 1:
            of_block = max(len(before.accesses.pc), len(after.accesses.pc), 1)
            size = max(1, min(MOST_ACCESSES // ROOM // of_block, MOST_BLOCKS))
        if clock.expired and unclaimed.blocks:
            raise ManyKinds(math.prod(grid) - unclaimed.blocks, math.prod(grid), clock.timeout_s)
