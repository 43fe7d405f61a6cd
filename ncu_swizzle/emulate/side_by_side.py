"""Run two versions of a kernel on the same blocks, until every block of the grid behaves like one that ran in both."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.blocks import Batch, Setting, run_batch
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.coverage import Unclaimed
from ncu_swizzle.emulate.faults import ManyKinds, Unsupported
from ncu_swizzle.emulate.limits import Clock
from ncu_swizzle.emulate.opcodes import may_be_counted
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.run import in_words, setting_of
from ncu_swizzle.emulate.tracing import MOST_ACCESSES, LaneAccesses, LaneSyncs, Recorder
from ncu_swizzle.smem.banks import Ints

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
