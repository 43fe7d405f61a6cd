"""An SM's work in a launch: the cost of its instructions, what each warp of a block executes, how many blocks fit.

Every iteration of every loop runs, for the block in the middle of the grid (for all blocks of its cluster). The
instructions of its warps are recorded as they are issued, each with a detail: the sectors of global memory that
it requests, or the phase of a barrier that it completes or waits for.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base.traffic import SECTOR
from ncu_swizzle.cycles.case import SMS
from ncu_swizzle.cycles.units import KINDS, entry
from ncu_swizzle.emulate import blocks, traffic
from ncu_swizzle.emulate.accesses import WINDOW, access_width, operation_name
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock, WarpRequests, count_each
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.opcodes import Copy
from ncu_swizzle.smem.operations import Bools, Ints

PER_LINE = 4  # sectors
L1_KB, CARVEOUTS_KB = 256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)  # of an SM: L1 with shared memory, and of it
MOST_THREADS, MOST_BLOCKS = 2048, 32  # of an SM
# In a detail of an access to global memory: a flag, and the first bits of three numbers; of one to shared memory.
NEW_PAIR, LINES, SECTORS, COPIED = 1 << 7, 8, 16, 24
IDEAL = 16
BYTE, MOST_COPIED = 0xFF, 0x7F


@dataclass(frozen=True, kw_only=True)
class BlockExecution:
    """A block's warps: the numbers of their instructions in order, (n,) each, and the details of these.

    A detail of an access to global memory is how many sectors L1 does not have (of a store, all), plus NEW_PAIR if one
    of them is in a pair of sectors that the block had not loaded, its lines from bit LINES on, all its sectors from bit
    SECTORS on, and of a copy its wavefronts from bit COPIED on. Of one to shared memory: its wavefronts plus one, and
    those that it would ideally take from bit IDEAL on; 0 if they are not known. Of an arrival, a wait, and a copy that
    a barrier counts: the number of the phase plus one.
    """

    numbers: tuple[np.ndarray, ...]
    details: tuple[np.ndarray, ...]
    parts: np.ndarray  # (phases,): arrivals and copies that complete each
    boxes: dict[int, tuple[float, float]]  # bytes and rows of the copies of an instruction, on average
    partly: tuple[float, float] = (0.0, 0.0)  # shares of the sectors loaded, and stored, in lines that are not whole


def execution(code: Code, launch: Launch, timeout_s: float) -> BlockExecution:
    """Return what the warps of a block execute. Raises what the emulator raises."""
    middle = [size // 2 // along * along for size, along in zip(launch.grid, launch.cluster, strict=True)]
    warps = -(-math.prod(launch.block) // 32)
    program = prepare(code, Demand(arrays=bool(launch.memory), traffic=True))
    setting = setting_of(code, launch, program, Clock(timeout_s=timeout_s), shortcuts=False)
    cached = cached_lines(code.shared_bytes + launch.shared_dynamic, 32 * warps, math.prod(launch.grid))
    log = Log(warps=warps, instructions=program.instructions, cached=cached)
    blocks.run_batch(replace(setting, watcher=log), np.array([middle]))
    offsets = np.array([instruction.offset // 16 for instruction in program.instructions], np.int32)
    return BlockExecution(
        numbers=tuple(offsets[np.array(log.numbers[warp], np.int64)] for warp in range(warps)),
        details=tuple(np.array(log.details[warp], np.int32) for warp in range(warps)),
        parts=np.array([log.parts[number] for number in range(len(log.phases))] or [0], np.int32),
        boxes={int(offsets[number]): tuple(np.mean(found, axis=0)) for number, found in log.boxes.items()},
        partly=(_partly(log.loaded), _partly(log.stored)),
    )


def cached_lines(shared: int, threads: int, grid: int) -> int:
    """Return how many lines of L1 a block has, given what shared memory leaves: `shared` bytes per block.

    The driver gives shared memory the needs of as many blocks as fit on an SM, whether or not the grid has that many.
    """
    fit = max(1, min(MOST_THREADS // threads, MOST_BLOCKS, CARVEOUTS_KB[-1] * 1024 // shared))
    carved = next((size for size in CARVEOUTS_KB if size * 1024 >= fit * shared), CARVEOUTS_KB[-1])
    return (L1_KB - carved) * 1024 // (SECTOR * PER_LINE) // min(fit, -(-grid // SMS))


def _partly(lines: Mapping[int, int]) -> float:
    """Return the share of the sectors, given as bits of their lines, that are in incomplete lines."""
    sectors = [mask.bit_count() for mask in lines.values()]
    return sum(count for count in sectors if count < PER_LINE) / max(1, sum(sectors))


# ---------------------------------------------------------------------------------------------- written down


@dataclass(kw_only=True)
class Log:
    """Records what the warps of the first block do, in the emulator's order."""

    warps: int
    instructions: Sequence[SassInstruction]
    numbers: dict[int, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    details: dict[int, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    phases: dict[tuple[str, int, int], int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    opened: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by number of the block's barrier
    cached: int  # lines that L1 keeps for a block
    l1: OrderedDict[int, int] = field(default_factory=OrderedDict)  # of lines: bits of the sectors
    loaded: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # the same of all that was loaded, stored
    stored: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pairs: set[int] = field(default_factory=set)
    boxes: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    counted: dict[int, tuple[Ints, Ints, Bools]] = field(default_factory=dict)  # by the requests' identity

    def mine(self, warps: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yield the position and the number of each warp of the block."""
        return ((position, warp) for position, warp in enumerate(warps.tolist()) if warp < self.warps)

    def mark(self, warp: int, number: int, detail: int, *, also: bool = False) -> None:
        """Set the detail of an instruction in the warp's current basic block, or further bits of it."""
        numbers = self.numbers[warp]
        index = len(numbers) - 1 - (numbers[-1] - number)
        if index >= 0 and numbers[index] == number:
            self.details[warp][index] = detail | (self.details[warp][index] if also else 0)

    def join(self, warp: int, number: int, phase: tuple[str, int, int], *, part: bool) -> None:
        """Record the barrier phase that an instruction belongs to, and whether it is a part of it."""
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

    def requests(self, m: Machine, number: int, seen: WarpRequests) -> None:
        instruction = self.instructions[number]
        op = operation_name(instruction)
        if op is None:
            return
        if seen.count == 1:  # new, or another one's place in memory is theirs now
            self.counted[id(seen)] = count_each(op, seen)
        actual, ideal, known = self.counted[id(seen)]
        for position, warp in self.mine(m.view.warps):
            row = position % len(actual)
            if instruction.row.copy is Copy.ASYNC:
                self.mark(warp, number, min(int(actual[row]), MOST_COPIED) << COPIED, also=True)
            elif known[row]:
                self.mark(warp, number, int(actual[row]) + 1 + (int(ideal[row]) << IDEAL))

    def accesses(self, m: Machine, number: int, space: str, address: Value, selected: np.ndarray) -> None:
        instruction = self.instructions[number]
        stores, width = not instruction.row.results, access_width(instruction)
        bits = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
        for position, warp in self.mine(m.view.warps) if space in (traffic.GLOBAL, traffic.COPY) else ():
            at = bits[position][selected[position]]
            asked = set(np.unique(np.concatenate([at // SECTOR, (at + width - 1) // SECTOR])).tolist())
            new = asked if stores else {sector for sector in asked if not self._holds(sector)}
            pairs = {sector // 2 for sector in new}
            detail = len(new) + NEW_PAIR * bool(pairs - self.pairs)
            detail += (len({sector // PER_LINE for sector in asked}) << LINES) + (len(asked) << SECTORS)
            self.mark(warp, number, detail, also=space == traffic.COPY)
            for sector in asked:
                (self.stored if stores else self.loaded)[sector // PER_LINE] |= 1 << sector % PER_LINE
            if not stores:
                self.pairs |= pairs
            if not stores and not instruction.has("BYPASS", "GPU", "SYS"):
                self._keep(asked)

    def _holds(self, sector: int) -> bool:
        """Return whether L1 has a sector."""
        return bool(self.l1.get(sector // PER_LINE, 0) >> sector % PER_LINE & 1)

    def _keep(self, sectors: set[int]) -> None:
        """Put sectors into L1, replacing the least recently used lines."""
        for sector in sectors:
            line = sector // PER_LINE
            self.l1[line] = self.l1.get(line, 0) | 1 << sector % PER_LINE
            self.l1.move_to_end(line)
        while len(self.l1) > self.cached:
            self.l1.popitem(last=False)


def _phase(m: Machine, offset: int) -> int:
    """Return how many phases of the first block's mbarrier are over."""
    barrier = m.mbarriers.at.get(offset)
    return 0 if barrier is None else int(barrier.completed[0])


L2_DIRTY = 25 << 20  # bytes of written data that L2 keeps: it has 50 MB, in two halves that may both hold a line


@dataclass(frozen=True, kw_only=True)
class Work:
    """An SM's work in a launch; its instructions' costs are (n,) of `units.INSTRUCTION`."""

    code: np.ndarray
    execution: BlockExecution
    warps: int  # per block
    grid: int  # blocks
    resident: int  # on an SM
    asked: tuple[float, float]  # bytes that the grid loads through L2, and stores
    buffers: tuple[float, float]  # bytes of its inputs, and of its outputs

    @property
    def blocks(self) -> int:
        """The number of blocks on the busiest SM."""
        return math.ceil(self.grid / SMS)

    @property
    def of_dram(self) -> tuple[float, float]:
        """The bytes of DRAM that are read and written, from the buffers: caches start empty."""
        loaded, stored = self.asked
        return min(loaded, self.buffers[0]), max(0.0, min(stored, self.buffers[1]) - L2_DIRTY)

    @property
    def wavefronts(self) -> tuple[float, float]:
        """A block's wavefronts in shared memory, actual and ideal, for known accesses; copies excluded."""
        numbers, details = np.concatenate(self.execution.numbers), np.concatenate(self.execution.details)
        shared = details[(self.code["kind"][numbers] == KINDS["SHARED"]) & (details > 0)]
        return float(((shared & (1 << IDEAL) - 1) - 1).sum()), float((shared >> IDEAL).sum())

    @property
    def issued(self) -> int:
        """The instructions that the busiest SM issues."""
        return self.blocks * sum(map(len, self.execution.numbers))


@dataclass(frozen=True, kw_only=True)
class Row:
    """An instruction: its number in the kernel, its text, and its wavefronts per execution."""

    number: int
    opcode: str
    sass: str
    wavefronts: float


def work_of(
    rows: Sequence[Row],
    text: bytes,
    executed: BlockExecution,
    *,
    grid: int,
    resident: int,
    buffers: tuple[float, float],
) -> Work:
    """Return an SM's work in a launch; `text` is the kernel's machine code."""
    code = _code(rows, text, executed)
    _spread_stores(code, executed, buffers[1] / grid)
    loaded, stored = _asked(code, executed)
    return Work(
        code=code, execution=executed, warps=len(executed.numbers), grid=grid,
        resident=max(1, min(math.ceil(grid / SMS), resident)), asked=(loaded * grid, stored * grid), buffers=buffers,
    )  # fmt: skip


def _code(given: Sequence[Row], text: bytes, executed: BlockExecution) -> np.ndarray:
    """Return the cost of each instruction, with its control bits."""
    rows = []
    for instruction in given:
        row = entry(
            instruction.opcode,
            instruction.sass,
            instruction.wavefronts,
            executed.boxes.get(instruction.number, (0.0, 0.0)),
        )
        # Stall count [105, 109), write barrier [110, 113), read barrier [113, 116), wait mask [116, 122) of 128 bits.
        bits = struct.unpack_from("<Q", text, 16 * instruction.number + 8)[0] >> 41
        row["stall"], row["waits"] = max(1, bits & 15), bits >> 11 & 63
        row["sets"], row["frees"] = (board if board < 6 else -1 for board in (bits >> 5 & 7, bits >> 8 & 7))
        if row["sets"] >= 0 and row["kind"] == KINDS["FIXED"]:
            row["kind"] = KINDS["VARIABLE"]
        rows.append(row)
    return np.array(rows)


def _spread_stores(code: np.ndarray, executed: BlockExecution, written: float) -> None:
    """Distribute a block's written bytes over the boxes that it stores: the emulator does not tell their sizes."""
    stores = code["kind"] == KINDS["BOX_STORE"]
    count = sum(int(stores[numbers].sum()) for numbers in executed.numbers)
    if count:
        code["bytes"][stores] = written / count


def _asked(code: np.ndarray, executed: BlockExecution) -> tuple[float, float]:
    """Return the bytes that a block loads through L2, and stores."""
    numbers, details = np.concatenate(executed.numbers), np.concatenate(executed.details)
    kind, past_l1 = code["kind"][numbers], code["past_l1"][numbers] > 0
    sectors, new = details >> SECTORS & BYTE, details & NEW_PAIR - 1
    loads = np.isin(kind, [KINDS["LOAD"], KINDS["COPY"]])
    loaded = SECTOR * np.where(past_l1, sectors, new)[loads].sum() + code["bytes"][numbers][kind == KINDS["BOX"]].sum()
    boxes = code["bytes"][numbers][kind == KINDS["BOX_STORE"]].sum()
    return float(loaded), float(SECTOR * sectors[kind == KINDS["STORE"]].sum() + boxes)
