"""An SM of an H100, simulated: sm.c, as a program in a process of its own, and the numbers of the machine.

The launch's busiest share of blocks runs. Its warps execute what the emulator executed (`execution`); how long each
instruction takes comes from microbenchmarks (`units`) and from the control bits of SASS. Caches start empty, as under
ncu: what a block asks for the first time comes from L2, and from DRAM as far as the buffers are large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.base import bounds, child, native, paths
from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.cycles.units import MEASURED, PIPES, measured
from ncu_swizzle.cycles.work import SMS, Work

SOURCE = "sm.c"
REASONS = ("issued", "stall count", "latency", "pipe", "full queue", "fetch", "phase")  # of stalls, as in sm.c
UNITS = 16  # of which sm.c counts busy cycles
SUB_CORES = 4
DRAM_PER_CYCLE = 12.8  # bytes per SM at the peak that ncu relates to: 3.35 TB/s at 1.98 GHz
WIDTHS = (32, 256, 1024)  # threads per block of the launches that do nothing
NARROW = "UTMALDG.2D, 4 KB, rows of 16 bytes"
BARRIER_WARPS = (1, 4, 8, 16, 32)
LIMIT_S = 60.0  # of a simulation


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The numbers of sm.c's Machine, in its order; a launch sets its own shares and barrier."""

    core_wave: float
    queue: float = 5  # of a sub-core's memory instructions (MICRO 2025)
    to_pipe: float = 6  # with store_read: 12 until a source register may be written (MICRO 2025)
    store_read: float = 6
    l1: float
    l2: float
    dram: float
    l2_bytes: float = 0
    dram_bytes: float = 0
    of_dram: float = 0
    cold: float = 0
    written: float = 0
    barrier: float = 0
    block_start: float = 0
    fetch: float
    fetch_interval: float
    fetch_ahead: float = 96  # lines: as many as are on their way at a time
    box: float
    box_row: float

    @property
    def fields(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def array(self) -> np.ndarray:
        return np.array(list(self.fields.values()), np.float64)


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Cycles, the share of them that each unit is busy, and cycles that warps stall, (n, REASONS)."""

    cycles: float
    used: Mapping[str, float]
    stalled: np.ndarray


def launched(kernel: str, blocks: int, threads: int, what: str) -> float:
    """Return ncu's median of a small launch of bench/latencies.cu."""
    shape = f"({blocks}, 1, 1)", f"({threads}, 1, 1)"
    found = next(
        each for each in MEASURED["launches"] if (each["kernel"], each["grid"], each["block"]) == (kernel, *shape)
    )
    return float(found[what])


def machine() -> Machine:
    """Return the machine as measured."""
    core_wave = (measured("LDS.32, 32 wavefronts") - measured("LDS.32")) / 31
    to_pipe = Machine.to_pipe
    lines = {kb: kb * 8 + 5 for kb in (4, 64)}  # of 128 bytes; the code around is about five
    active = {kb: launched(f"straight, {kb} KB", SMS, 128, "active") for kb in lines}
    interval = (active[64] - active[4]) / (lines[64] - lines[4])
    return Machine(
        core_wave=core_wave,
        l1=measured("LDG.64 that hits L1, lanes 16 bytes apart") - to_pipe - (4 * core_wave - 1),
        l2=measured("L2 hit, 4096 KB") - to_pipe - 1,
        dram=measured("DRAM, 32 MB") - to_pipe - 1,
        fetch=active[4] - lines[4] * interval,
        fetch_interval=interval,
        box=measured("UTMALDG.2D, 128 bytes, round trip") - measured("mbarrier: arrive and wait, 1 warps"),
        box_row=(measured(f"{NARROW}, four, round trip") - measured(f"{NARROW}, round trip")) / (3 * 256),
    )


def of_launch(base: Machine, work: Work, of_dram: tuple[float, float] | None = None) -> Machine:
    """Return the machine with what the launch's size says; `of_dram` are DRAM's bytes, if they were counted."""
    read, written = work.of_dram if of_dram is None else of_dram
    loaded, stored = work.asked
    active, threads = min(SMS, work.grid), 32 * work.warps
    from_dram = min(1.0, read / loaded) if loaded else 0.0
    one, shared = measured("L2 read, 18 MB, one SM"), loaded > 2 * work.buffers[0]
    barriers = [measured(f"BAR.SYNC, {count} warps") for count in BARRIER_WARPS]
    starts = [(launched("nothing", 135168, width, "elapsed") - launched("nothing", SMS, width, "elapsed")) / 1023
              for width in WIDTHS]  # fmt: skip
    own: dict[str, Any] = {
        # One SM alone gets as much as it can take; all share what L2 and DRAM have. What several SMs ask for at a time
        # L2 reads once: how much that makes of its bandwidth was not measured.
        "l2_bytes": one if shared else min(one, measured("L2 read, 18 MB, all SMs, 2 blocks each") * SMS / active),
        "dram_bytes": min(
            measured("DRAM read, 1 GB, one SM"),
            measured(f"DRAM {'copy' if written else 'read'}, 1 GB, all SMs") * SMS / active,
        ),
        "of_dram": from_dram,
        # Blocks that run side by side ask for what they share at the same time: all wait for DRAM, which reads it once.
        "cold": min(1.0, from_dram * min(work.grid, SMS * work.resident)),
        "written": min(1.0, written / stored) if stored else 0.0,
        "barrier": np.interp(work.warps, BARRIER_WARPS, barriers),
        "block_start": np.interp(threads, WIDTHS, starts),
    }
    return Machine(**{**base.fields, **{name: float(value) for name, value in own.items()}})


class Simulator:
    """sm.c as a program in a folder that only this user enters. Raises EnvironmentLacking without a C compiler."""

    def __init__(self, folder: Path, limit_s: float = LIMIT_S) -> None:
        self._folder, self._limit_s = folder, limit_s
        self._program = native.build(paths.package() / "cycles" / SOURCE, folder / "sm", (), ("-lm",))

    @cached_property
    def _start(self) -> float:
        """The cycles before and after those in which SMs are active."""
        return launched("nothing", SMS, 256, "elapsed") - launched("nothing", SMS, 256, "active")

    def predicted(self, work: Work, sm: Machine, code: np.ndarray | None = None) -> Predicted:
        """Return what the launch takes; with other `code`, if instructions cost other than they do.

        Raises TimeLimit, and ProgramFailed if what was executed is not all that its barriers wait for.
        """
        code = np.ascontiguousarray(work.code if code is None else code)
        executed, numbers = work.execution, sm.array()
        sizes = (
            code.dtype.itemsize, numbers.nbytes, len(code), sum(map(len, executed.numbers)), len(executed.parts),
            work.warps, work.blocks, work.resident,
        )  # fmt: skip
        integers = (*executed.numbers, *executed.details, np.cumsum([0, *map(len, executed.numbers)]), executed.parts)
        given, found = self._folder / "given", self._folder / "found"
        with given.open("wb") as file:
            for part in (np.array(sizes, np.int32), code, numbers, *(each.astype(np.int32) for each in integers)):
                file.write(part.tobytes())
        outcome = child.run([str(self._program), str(given), str(found)], self._limit_s, self._folder)
        if outcome.status:
            raise ProgramFailed(f"the simulation ended with status {outcome.status}: {bounds.last_lines(outcome.log)}")
        taken, *busy = (values := np.fromfile(found))[: 1 + UNITS].tolist()
        if taken < 0:
            raise ProgramFailed("warps wait for a phase of a barrier that nobody completes")
        cycles = taken + self._start
        # As ncu defines them: of what is elapsed on all SMs, or of the cycles in which SMs are active.
        elapsed, pipes = cycles * SMS * work.blocks / work.grid, 5 + len(PIPES)
        used = {
            "shared": busy[pipes] / elapsed,
            "l2": busy[2] / elapsed,
            "dram": busy[3] / elapsed * sm.dram_bytes / DRAM_PER_CYCLE,
            "tensor": busy[5 + PIPES["tensor"]] / SUB_CORES / taken,
            "issue": busy[0] / SUB_CORES / taken,
        }
        return Predicted(cycles=cycles, used=used, stalled=values[1 + UNITS :].reshape(len(code), len(REASONS)))
