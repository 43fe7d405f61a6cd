"""How long a launch would take on an H100, and what removing its excess would save: an SM, simulated by sm.c.

The launch's busiest share of blocks runs. Its warps execute what the emulator executed (`execution`); how long each
instruction takes comes from microbenchmarks (`units`) and from the control bits of SASS. Caches start empty, as under
ncu: a block's first requests come from L2, and from DRAM in proportion to the size of the buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ncu_swizzle.base import bounds, child, codes, native, paths
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, NotComparable, ProgramFailed
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cycles import intervals
from ncu_swizzle.cycles.case import SMS, EstimatedCase
from ncu_swizzle.cycles.simulated import InstructionWaits, Simulated, Span, with_interval
from ncu_swizzle.cycles.units import MEASURED, PIPES, measured
from ncu_swizzle.cycles.work import Row, Work, execution, work_of
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import InstructionCounts

SOURCE = "sm.c"
REASONS = (  # of stalls, as in sm.c, by ncu's names; waiting for a phase of an mbarrier is a long scoreboard there, too
    "selected", "wait", "short_scoreboard", "long_scoreboard", "math_pipe_throttle", "not_selected", "mio_throttle",
    "no_instructions", "barrier",
)  # fmt: skip
UNITS = 16  # of which sm.c counts busy cycles
SUB_CORES = 4
DRAM_PER_CYCLE = 12.8  # bytes per SM at the peak that ncu relates to: 3.35 TB/s at 1.98 GHz
WIDTHS = (32, 256, 1024)  # threads per block of the launches that do nothing
NARROW = "UTMALDG.2D, 4 KB, rows of 16 bytes"
STORED, STORED_BYTES = "rows of 128 bytes, 128 apart", 16
BURSTS = (1, 2, 4, 16, 32, 64, 256)  # lines, as in sm.c
AROUND, PER_LINE = 32, 8  # instructions around those of bench/recording/bursts.cu's code, and of a line
LOOP_STALLS = 19, 22  # stall counts before its loop of 32 turns, and of one of them
JUMPING = 10  # lines that its jumps execute
LIMIT_S = 60.0  # of a simulation, and for what a block executes


@dataclass(frozen=True, kw_only=True)
class SimulatedSm:
    """The numbers of sm.c's Machine, in its order; a launch sets its own shares and barrier."""

    core_wave: float
    queue: float = 5  # of a sub-core's memory instructions (MICRO 2025)
    to_pipe: float = 6  # with store_read: 12 until a source register may be written (MICRO 2025)
    store_read: float = 6
    l1: float
    l2: float
    dram: float
    l2_bytes: float = 0
    l2_written: float = 0
    dram_bytes: float = 0
    store_bytes: float
    store_line: float
    dram_read: float = 0
    apart_written: float = 0
    line_written: float = 0
    tail: tuple[float, ...]
    of_dram: float = 0
    cold: float = 0
    written: float = 0
    barrier: float
    barrier_warp: float
    block_start: float = 0
    fetch: float
    fetch_interval: float = 0
    fetch_ahead: float = 96  # lines: as many as are on their way at a time
    jump: float
    far_jump: float
    branch: float
    box: float
    box_row: float
    removed: float = 0  # the share of the excessive wavefronts that accesses to shared memory do without

    @property
    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def array(self) -> np.ndarray:
        return np.hstack([np.asarray(value, np.float64) for value in self.fields.values()])


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Cycles, the share of them that each unit is busy, and cycles that warps stall, (n, REASONS)."""

    cycles: float
    used: Mapping[str, float]
    stalled: np.ndarray


def launched(kernel: str, blocks: int, threads: int, what: str) -> float:
    """Return ncu's median of a small launch of bench/recording/latencies.cu."""
    shape = f"({blocks}, 1, 1)", f"({threads}, 1, 1)"
    launch = next(
        launch
        for launch in MEASURED["launches"]
        if (launch["kernel"], launch["grid"], launch["block"]) == (kernel, *shape)
    )
    return float(launch[what])


def machine() -> SimulatedSm:
    """Return the machine as measured."""
    core_wave = (measured("LDS.32, 32 wavefronts") - measured("LDS.32")) / 31
    barrier_warp = (measured("BAR.SYNC, 32 warps") - measured("BAR.SYNC, 1 warps")) / 31
    to_pipe = SimulatedSm.to_pipe
    store_line = STORED_BYTES / measured(f"stores of 16 bytes, rows of {STORED_BYTES} bytes, 128 apart, 1 SM, DRAM")
    return SimulatedSm(
        core_wave=core_wave,
        barrier=measured("BAR.SYNC, 1 warps") - barrier_warp,
        barrier_warp=barrier_warp,
        l1=measured("LDG.64 that hits L1, lanes 16 bytes apart") - to_pipe - (4 * core_wave - 1),
        l2=measured("L2 hit, 4096 KB") - to_pipe - 1,
        dram=measured("DRAM, 32 MB") - to_pipe - 1,
        store_bytes=measured("stores of 16 bytes, rows of 128 bytes, 128 apart, 1 SM, DRAM"),
        store_line=store_line,
        tail=tuple(np.maximum.accumulate([_lateness(lines) for lines in BURSTS])),
        fetch=_fetched(16, SMS) - _lines_of(16) * _fetch_interval(SMS),
        jump=(_jumped(256) + _jumped(512)) / 2,
        far_jump=_jumped(4096),
        branch=(32 * measured("loop of an IMAD") - LOOP_STALLS[0] - 32 * LOOP_STALLS[1]) / 31,
        box=measured("UTMALDG.2D, 128 bytes, round trip") - measured("mbarrier: arrive and wait, 1 warps"),
        box_row=(measured(f"{NARROW}, four, round trip") - measured(f"{NARROW}, round trip")) / (3 * 256),
    )


def _lateness(lines: int) -> float:
    """Return how much later the last of some lines arrives from DRAM than a single one, if few SMs load any."""
    late = []
    for who in ("1 SM", "8 SMs", "33 SMs"):
        some, one = (
            measured(f"burst of {count} lines, {who}, DRAM") - measured(f"burst of {count} lines, {who}, L2")
            for count in (lines, 1)
        )
        late.append(some - one)
    return float(np.median(late))


def _lines_of(count: int) -> float:
    """Return the lines of code of a kernel of bench/recording/bursts.cu with `count` instructions in a row."""
    return (count + AROUND) / PER_LINE


def _fetched(count: int, sms: int) -> float:
    """Return the cycles of a launch of `count` instructions in a row."""
    return launched(f"code<{count}>", sms, 128, "longest")


def _fetch_interval(sms: int) -> float:
    """Return the cycles between two lines of code, if `sms` SMs run the same."""
    return (_fetched(4096, sms) - _fetched(512, sms)) / (_lines_of(4096) - _lines_of(512))


def _jumped(count: int) -> float:
    """Return the cost of a jump over `count` instructions."""
    straight = _fetched(16, SMS) + (JUMPING - _lines_of(16)) * _fetch_interval(SMS)
    return launched(f"jump<{count}>", SMS, 128, "longest") - straight


def machine_for_launch(base: SimulatedSm, work: Work, of_dram: tuple[float, float] | None = None) -> SimulatedSm:
    """Return the machine adapted to the launch's size; `of_dram` are DRAM's bytes, if they were counted."""
    read, written = work.of_dram if of_dram is None else of_dram
    loaded, stored = work.asked
    active, threads = min(SMS, work.grid), 32 * work.warps
    from_dram = min(1.0, read / loaded) if loaded else 0.0
    starts = [(launched("nothing", 135168, width, "elapsed") - launched("nothing", SMS, width, "elapsed")) / 1023
              for width in WIDTHS]  # fmt: skip
    dram = measured(f"DRAM {'copy' if written else 'read'}, 1 GB, all SMs")
    few = SMS / active  # all SMs share the bandwidth of L2 and DRAM
    dram_bytes, apart = min(measured("DRAM read, 1 GB, one SM"), few * dram), work.execution.partly
    changes: dict[str, Any] = {
        "l2_bytes": min(measured("L2 read, 18 MB, one SM"), few * _shared_bytes(work)),
        "l2_written": min(base.store_bytes, few * measured(f"stores of 16 bytes, {STORED}, 132 SMs, L2")),
        "dram_bytes": dram_bytes,
        "dram_read": 1 / ((1 - apart[0]) / dram_bytes + apart[0] * _part_read() / few / 64),
        "apart_written": apart[1],
        "line_written": 32 / measured("stores of 16 bytes, rows of 32 bytes, 4224 apart, 132 SMs, DRAM") / few,
        "of_dram": from_dram,
        # Concurrent blocks load shared data at the same time: all wait for DRAM, which reads it once.
        "cold": min(1.0, from_dram * min(work.grid, SMS * work.resident)),
        "written": min(1.0, written / stored) if stored else 0.0,
        "block_start": np.interp(threads, WIDTHS, starts),
        "fetch_interval": np.interp(active, (1, SMS), (_fetch_interval(1), _fetch_interval(SMS))),
    }
    return SimulatedSm(**{**base.fields, **{name: float(value) for name, value in changes.items()}})


def _part_read() -> float:
    """Return the cycles of DRAM for a part of a line, all SMs asking: between bursts of 128 and 256 rows of 8 KB."""
    rows = {row: f"burst of 8 KB, rows of {row} bytes" for row in (32, 64)}
    late = [measured(f"{rows[row]}, 4 KB apart, 132 SMs, DRAM") - measured(f"{rows[row]}, of a tile, 132 SMs, L2")
            for row in rows]  # fmt: skip
    return (late[0] - late[1]) / 128


def _shared_bytes(work: Work) -> float:
    """Return L2's bytes per cycle for each SM, if groups of SMs load the same lines at a time."""
    loaded, read = work.asked[0], work.buffers[0]
    together = min(1.0, SMS / work.grid) * loaded / read if read else 1.0
    bytes_by_group = {1: measured("L2 read, 18 MB, all SMs, 2 blocks each")}
    for groups in (12, 4, 2, 1):
        many, some = (measured(f"burst of {lines} lines, {groups} groups of SMs, L2") for lines in (512, 64))
        bytes_by_group[SMS // groups] = (512 - 64) * 128 / (many - some)
    return float(np.interp(np.log(max(1.0, together)), np.log(list(bytes_by_group)), list(bytes_by_group.values())))


class Simulator:
    """sm.c as a program in a folder that only this user enters. Raises EnvironmentLacking without a C compiler."""

    def __init__(self, folder: Path, limit_s: float = LIMIT_S) -> None:
        self._folder, self._limit_s = folder, limit_s
        self._program = native.build(paths.package() / "cycles" / SOURCE, folder / "sm", (), ("-lm",))

    @cached_property
    def _start(self) -> float:
        """The cycles before and after those in which SMs are active."""
        return launched("nothing", SMS, 256, "elapsed") - launched("nothing", SMS, 256, "longest")

    def predicted(self, work: Work, sm: SimulatedSm, code: np.ndarray | None = None) -> Predicted:
        """Return the launch's predicted cycles; with other `code`, for modified instruction costs.

        Raises TimeLimit, and ProgramFailed if the executed instructions do not complete all barriers.
        """
        code = np.ascontiguousarray(work.code if code is None else code)
        executed, numbers = work.execution, sm.array()
        sizes = (
            code.dtype.itemsize, numbers.nbytes, len(code), sum(map(len, executed.numbers)), len(executed.parts),
            work.warps, work.blocks, work.resident,
        )  # fmt: skip
        integers = (*executed.numbers, *executed.details, np.cumsum([0, *map(len, executed.numbers)]), executed.parts)
        with TemporaryDirectory(dir=self._folder) as folder:  # so that several may run at a time
            given, found = Path(folder, "given"), Path(folder, "found")
            with given.open("wb") as file:
                for part in (np.array(sizes, np.int32), code, numbers, *(array.astype(np.int32) for array in integers)):
                    file.write(part.tobytes())
            outcome = child.run([str(self._program), str(given), str(found)], self._limit_s, self._folder)
            if outcome.status:
                log = bounds.last_lines(outcome.log)
                raise ProgramFailed(f"the simulation ended with status {outcome.status}: {log}")
            values = np.fromfile(found)
        taken, *busy = values[: 1 + UNITS].tolist()
        if taken < 0:
            raise ProgramFailed("warps wait for a phase of a barrier that nobody completes")
        cycles = taken + self._start
        # As ncu defines them: of the elapsed cycles of all SMs, or of the cycles in which SMs are active.
        elapsed, pipes = cycles * SMS * work.blocks / work.grid, 5 + len(PIPES)
        used = {
            "shared": busy[pipes] / elapsed,
            "l2": busy[2] / elapsed,
            "dram": busy[3] / elapsed * sm.dram_bytes / DRAM_PER_CYCLE,
            "tensor": busy[5 + PIPES["tensor"]] / SUB_CORES / taken,
            "issue": busy[0] / SUB_CORES / taken,
        }
        return Predicted(cycles=cycles, used=used, stalled=values[1 + UNITS :].reshape(len(code), len(REASONS)))


# What a launch would take, or why that is unknown: no estimate goes beyond what the simulation was validated on
# (docs/cycles.md), so there is none for other GPUs, clusters, unknown counts, and conflicts that too few programs had.

LEAST = 0.005  # of the time that warps spend, for an instruction to be listed
GUESSED = 0.05  # of the instructions: at most this many may follow branches that are not known to be taken


def simulate(code: Code, case: EstimatedCase) -> Simulated:
    """Return the launch's estimated cycles, and what removing its excess would save. Raises none of our errors."""
    if case.unlike:
        return Simulated(lacking=case.unlike)
    try:
        with scratch() as folder:
            simulator = Simulator(folder)
            work, sm = work_and_machine(code, case)
            prediction = simulator.predicted(work, sm)
            left = simulator.predicted(work, replace(sm, removed=1.0)) if any(case.excess.values()) else prediction
    except EnvironmentLacking as error:
        return Simulated(lacking=str(error), remedy=str(error.hint))
    except NcuSwizzleError as error:
        return Simulated(lacking=str(error))
    unit = max(prediction.used, key=lambda name: prediction.used[name])
    return Simulated(
        cycles=Span(
            point=prediction.cycles, low=prediction.cycles / intervals.CYCLES, high=prediction.cycles * intervals.CYCLES
        ),
        saved=with_interval(1 - left.cycles / prediction.cycles, intervals.SAVED) if case.has_known_kinds else None,
        coverage=intervals.COVERAGE, unit=unit, used=prediction.used[unit], waits=waits(case, prediction),
        lacking="" if case.has_known_kinds else "savings were judged for too few programs with such conflicts",
    )  # fmt: skip


def work_and_machine(code: Code, case: EstimatedCase) -> tuple[Work, SimulatedSm]:
    """Return an SM's work, and the machine. Raises NotComparable, and what emulating one block raises."""
    executed = execution(code, case.launch, LIMIT_S)
    rows = [_row(row) for row in case.counts.rows]
    numbers = np.concatenate(executed.numbers)
    guessed = [row.offset // 16 for row in case.counts.rows if row.executed is None and row.code == codes.DATA]
    if np.isin(numbers, guessed).sum() > GUESSED * len(numbers):
        raise NotComparable("which way its branches go depends on data that is unknown", "describe its inputs")
    work = work_of(rows, case.text, executed, grid=case.blocks, resident=case.resident, buffers=case.buffers)
    return work, machine_for_launch(machine(), work)


def _row(row: InstructionCounts) -> Row:
    per_execution = (row.wavefronts or 0) / row.executed if row.executed else 0.0
    return Row(number=row.offset // 16, opcode=row.opcode, sass=row.sass, wavefronts=per_execution)


def waits(case: EstimatedCase, prediction: Predicted) -> tuple[InstructionWaits, ...]:
    """Return where warps spend their time, in code order, without negligible instructions."""
    least = LEAST * prediction.stalled.sum()
    return tuple(
        InstructionWaits(
            offset=row.offset,
            cycles={reason: round(float(count), 1) for reason, count in zip(REASONS, counts, strict=True) if count},
        )
        for row, counts in zip(case.counts.rows, prediction.stalled, strict=True)
        if counts.sum() > least
    )
