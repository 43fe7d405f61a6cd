"""What each warp of a block executes, from the emulator.

Every iteration of every loop runs, of the block in the middle of the grid (of a cluster, of all its blocks). The
instructions of its warps are written down as they are issued, and with each a detail: the sectors of global memory that
it asks for, or the phase of a barrier that it completes or waits for.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base.traffic import SECTOR
from ncu_swizzle.emulate import blocks, traffic
from ncu_swizzle.emulate.accesses import WINDOW, access_width
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.values import Value

PER_LINE = 4  # sectors
NEW_PAIR, LINES, SECTORS = 1 << 7, 8, 16  # in a detail: a flag, and the first bits of two numbers
STORES = frozenset({"STG", "ST", "RED"})


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
    program = prepare(code, arrays=bool(launch.memory), counts_traffic=True)
    log = Log(warps=warps, instructions=program.instructions)
    setting = setting_of(code, launch, program, Clock(timeout_s=timeout_s), shortcuts=False)
    blocks.run_batch(replace(setting, watcher=log), np.array([middle]))
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
    instructions: Sequence[SassInstruction]
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

    # ------------------------------------------------------------------------------------------ as a `Watcher`

    def issues(self, warps: np.ndarray, first: int, last: int) -> None:
        for _, warp in self.mine(warps):
            self.numbers[warp].extend(range(first, last + 1))
            self.details[warp].extend([0] * (last + 1 - first))

    def meets(self, warps: np.ndarray, number: int, barrier: int) -> None:
        for _, warp in self.mine(warps):
            self.join(warp, number, ("block", barrier, self.opened[barrier]), part=True)

    def opens(self, barrier: int, blocks: np.ndarray) -> None:
        self.opened[barrier] += bool(blocks[0])

    def passes(self, m: Machine, warps: np.ndarray, number: int, offsets: np.ndarray, parities: np.ndarray) -> None:
        for position, warp in self.mine(warps):
            offset, parity = int(offsets[position]), int(parities[position])
            done = _phase(m, offset)
            if done and (done - 1) % 2 == parity % 2:  # else it is new, and lets the first wait pass
                self.join(warp, number, ("mbarrier", offset, done - 1), part=False)

    def arrives(self, m: Machine, selected: np.ndarray, address: np.ndarray) -> None:
        for position, warp in self.mine(m.view.warps):
            if selected[position].any():
                offset = int(address[position, int(selected[position].argmax())] & WINDOW)
                self.join(warp, m.now, ("mbarrier", offset, _phase(m, offset)), part=True)

    def copies(
        self, m: Machine, rows: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, boxes: Sequence[int]
    ) -> None:
        for position, warp in self.mine(m.view.warps[rows]):
            offset = int(offsets[position])
            self.join(warp, m.now, ("mbarrier", offset, _phase(m, offset)), part=True)
            self.boxes[m.now].append((max(0, int(sizes[position])), boxes[position]))

    def accesses(self, m: Machine, number: int, space: str, address: Value, selected: np.ndarray) -> None:
        instruction = self.instructions[number]
        stores, width = instruction.opcode in STORES, access_width(instruction)
        bits = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
        for position, warp in self.mine(m.view.warps) if space in (traffic.GLOBAL, traffic.COPY) else ():
            at = bits[position][selected[position]]
            asked = set(np.unique(np.concatenate([at // SECTOR, (at + width - 1) // SECTOR])).tolist())
            new = asked if stores else asked - self.loaded
            pairs = {sector // 2 for sector in new}
            detail = len(new) + NEW_PAIR * bool(pairs - self.pairs)
            detail += (len({sector // PER_LINE for sector in asked}) << LINES) + (len(asked) << SECTORS)
            self.mark(warp, number, detail)
            if not stores:
                self.loaded |= asked
                self.pairs |= pairs


def _phase(m: Machine, offset: int) -> int:
    """Return how many phases of the first block's mbarrier are over."""
    barrier = m.mbarriers.at.get(offset)
    return 0 if barrier is None else int(barrier.completed[0])
