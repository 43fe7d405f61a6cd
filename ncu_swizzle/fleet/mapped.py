"""The same work for many things: what each gave, in their order, wherever it was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.engines.context import Progress, silent
from ncu_swizzle.fleet.crew import crew
from ncu_swizzle.fleet.options import ALONE, FleetOptions
from ncu_swizzle.fleet.tasks import FleetJob, FleetResult, FleetTask
from ncu_swizzle.unfinished.folders import scratch


def mapped(
    job: FleetJob, tasks: Sequence[FleetTask], options: FleetOptions = ALONE, progress: Progress = silent,
    on_notes: Callable[[Sequence[str]], None] = lambda notes: None,
) -> list[Any]:  # fmt: skip
    """Return what the tasks returned, in their order; raises the first error that one ends with.

    `on_notes` gets what is to be known about the workers, at the end.
    """
    values: dict[int, Any] = {}

    def take(number: int, result: FleetResult, _folder: Path) -> None:
        if result.error:
            raise result.error
        values[number] = result.value

    with crew(job, options, progress) as workers:
        workers.run(tasks, lambda _task: scratch(), take)
        on_notes(workers.notes)
    return [values[number] for number in range(len(tasks))]
