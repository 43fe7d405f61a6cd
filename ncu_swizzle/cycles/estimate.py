"""How long a launch would take on an H100, and what removing its excessive wavefronts would save; or why unknown.

There is no estimate beyond what the simulation was validated on (docs/cycles.md): other GPUs, clusters, launches with
an unknown count, kinds of conflicts that too few programs had.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, NotComparable
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cycles import intervals
from ncu_swizzle.cycles.case import EstimatedCase
from ncu_swizzle.cycles.simulated import InstructionWaits, Simulated, Span, with_interval
from ncu_swizzle.cycles.simulator import REASONS, Predicted, SimulatedSm, Simulator, machine, machine_for_launch
from ncu_swizzle.cycles.work import Row, Work, execution, work_of
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import InstructionCounts

LEAST = 0.005  # of the time that warps spend, for an instruction to be listed
GUESSED = 0.05  # of the instructions: at most this many may follow branches that are not known to be taken
LIMIT_S = 60.0  # for what a block executes


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
