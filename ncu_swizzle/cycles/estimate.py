"""How long a launch would take on an H100, and what removing its excessive wavefronts would save; or why unknown.

There is no estimate beyond what the simulation was validated on (docs/cycles.md): other GPUs, clusters, launches with
an unknown count, kinds of conflicts that too few programs had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, NotComparable
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cycles import intervals
from ncu_swizzle.cycles.simulated import InstructionWaits, Simulated, Span, with_interval
from ncu_swizzle.cycles.simulator import REASONS, Predicted, SimulatedSm, Simulator, machine, machine_for_launch
from ncu_swizzle.cycles.work import SMS, Row, Work, execution, work_of
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Counts, InstructionCounts, Launch

ARCH = 90
PART = 0.1  # of the excess: a kind of access with less does not make a launch unlike the validated ones
LEAST = 0.005  # of the time that warps spend, for an instruction to be listed
GUESSED = 0.05  # of the instructions: at most this many may follow branches that are not known to be taken
BOXES = "UTMALDG", "UTMASTG", "UBLKCP"  # copies by TMA: 12 of 20 launches with them were predicted more than 11 % off
UNMEASURED = "only an H100 is simulated, and this is code for sm_{}"
LIMIT_S = 60.0  # for what a block executes
# Warp instructions of a block, and of the busiest SM, up to which simulating is automatic: seconds of CPU.
SHORT_BLOCK, SHORT_SM = 100_000, 2_000_000


@dataclass(frozen=True, kw_only=True)
class EstimatedCase:
    """A launch that was emulated, with its machine code, how many blocks fit on an SM, and bytes of its buffers."""

    text: bytes
    launch: Launch
    counts: Counts
    sm: int  # the architecture
    resident: int
    buffers: tuple[float, float]  # inputs, outputs

    @property
    def blocks(self) -> int:
        return math.prod(self.launch.grid)

    @property
    def short(self) -> bool:
        """Whether simulating it takes little time."""
        issued = sum(row.executed or 0 for row in self.counts.rows) / self.blocks
        return issued <= SHORT_BLOCK and issued * math.ceil(self.blocks / SMS) <= SHORT_SM

    @property
    def excess(self) -> dict[str, int]:
        """The excessive wavefronts by kind of access."""
        by_kind: dict[str, int] = {}
        for row in self.counts.rows:
            if row.access and row.wavefronts is not None and row.ideal is not None:
                by_kind[row.access] = by_kind.get(row.access, 0) + row.wavefronts - row.ideal
        return by_kind

    @property
    def unlike(self) -> str:
        """Why the launch is unlike the validated ones; empty if it is not."""
        if self.sm != ARCH:
            return UNMEASURED.format(self.sm)
        if math.prod(self.launch.cluster) > 1:
            return "blocks of a cluster were not judged"
        if any(row.opcode.startswith(BOXES) for row in self.counts.rows):
            return "copies by TMA were judged for few programs, and take up to twice as long as simulated"
        if self.counts.unknown:
            return "wavefronts of some accesses are unknown"
        return ""


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
        saved=with_interval(1 - left.cycles / prediction.cycles, intervals.SAVED) if has_known_kinds(case) else None,
        coverage=intervals.COVERAGE, unit=unit, used=prediction.used[unit], waits=waits(case, prediction),
        lacking="" if has_known_kinds(case) else "savings were judged for too few programs with such conflicts",
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


def has_known_kinds(case: EstimatedCase) -> bool:
    """Return whether the kinds of access with much of the excess are among the validated ones."""
    excess = case.excess
    return {kind for kind, count in excess.items() if count > PART * sum(excess.values())} <= set(intervals.KINDS)


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
