"""What a launch gives an SM to do: what its instructions cost, what a block executes, how many blocks fit."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.base.traffic import SECTOR
from ncu_swizzle.cycles.execution import BYTE, IDEAL, NEW_PAIR, SECTORS, SMS, Execution
from ncu_swizzle.cycles.units import KINDS, entry

L2_DIRTY = 25 << 20  # bytes that L2 keeps of what is written: it has 50 MB, in two halves that may both hold a line


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a launch gives an SM to do; its instructions' costs are (n,) of `units.INSTRUCTION`."""

    code: np.ndarray
    execution: Execution
    warps: int  # per block
    grid: int  # blocks
    resident: int  # on an SM
    asked: tuple[float, float]  # bytes that the grid loads through L2, and stores
    buffers: tuple[float, float]  # bytes of its inputs, and of its outputs

    @property
    def blocks(self) -> int:
        """How many the busiest SM runs."""
        return math.ceil(self.grid / SMS)

    @property
    def of_dram(self) -> tuple[float, float]:
        """The bytes of DRAM that are read and written, from the buffers: caches start empty."""
        loaded, stored = self.asked
        return min(loaded, self.buffers[0]), max(0.0, min(stored, self.buffers[1]) - L2_DIRTY)

    @property
    def wavefronts(self) -> tuple[float, float]:
        """A block's wavefronts in shared memory, actual and ideal, of accesses that are known; copies aside."""
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
    rows: Sequence[Row], text: bytes, executed: Execution, *, grid: int, resident: int, buffers: tuple[float, float]
) -> Work:
    """Return what a launch gives to do; `text` is the kernel's machine code."""
    code = _code(rows, text, executed)
    _spread_stores(code, executed, buffers[1] / grid)
    loaded, stored = _asked(code, executed)
    return Work(
        code=code, execution=executed, warps=len(executed.numbers), grid=grid,
        resident=max(1, min(math.ceil(grid / SMS), resident)), asked=(loaded * grid, stored * grid), buffers=buffers,
    )  # fmt: skip


def _code(given: Sequence[Row], text: bytes, executed: Execution) -> np.ndarray:
    """Return what each instruction costs, with its control bits."""
    rows = []
    for each in given:
        row = entry(each.opcode, each.sass, each.wavefronts, executed.boxes.get(each.number, (0.0, 0.0)))
        # Stall count [105, 109), write barrier [110, 113), read barrier [113, 116), wait mask [116, 122) of 128 bits.
        bits = struct.unpack_from("<Q", text, 16 * each.number + 8)[0] >> 41
        row["stall"], row["waits"] = max(1, bits & 15), bits >> 11 & 63
        row["sets"], row["frees"] = (board if board < 6 else -1 for board in (bits >> 5 & 7, bits >> 8 & 7))
        if row["sets"] >= 0 and row["kind"] == KINDS["FIXED"]:
            row["kind"] = KINDS["VARIABLE"]
        rows.append(row)
    return np.array(rows)


def _spread_stores(code: np.ndarray, executed: Execution, written: float) -> None:
    """Let the boxes that a block stores have what it writes: the emulator does not say how large they are."""
    stores = code["kind"] == KINDS["BOX_STORE"]
    count = sum(int(stores[numbers].sum()) for numbers in executed.numbers)
    if count:
        code["bytes"][stores] = written / count


def _asked(code: np.ndarray, executed: Execution) -> tuple[float, float]:
    """Return the bytes that a block loads through L2, and stores."""
    numbers, details = np.concatenate(executed.numbers), np.concatenate(executed.details)
    kind, past_l1 = code["kind"][numbers], code["past_l1"][numbers] > 0
    sectors, new = details >> SECTORS & BYTE, details & NEW_PAIR - 1
    loads = np.isin(kind, [KINDS["LOAD"], KINDS["COPY"]])
    loaded = SECTOR * np.where(past_l1, sectors, new)[loads].sum() + code["bytes"][numbers][kind == KINDS["BOX"]].sum()
    boxes = code["bytes"][numbers][kind == KINDS["BOX_STORE"]].sum()
    return float(loaded), float(SECTOR * sectors[kind == KINDS["STORE"]].sum() + boxes)
