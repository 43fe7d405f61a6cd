"""The same work for many things: what each gave, in their order, wherever it was done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ncu_swizzle.base.errors import NcuSwizzleError, NotWritable
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import ALONE, FleetOptions, Progress, silent
from ncu_swizzle.sweep.worker import CrewMember, FleetJob, FleetResult, FleetTask, OnResult, Place, Whereabouts

# Who does the work: this process, or workers. Both take tasks one by one and hand every result over as it comes.


class Crew(Protocol):
    """Workers that know the job; `notes` are about workers, such as why some are not used."""

    @property
    def members(self) -> Sequence[CrewMember]: ...

    @property
    def notes(self) -> Sequence[str]: ...

    def run(self, tasks: Sequence[FleetTask], place: Place, on_result: OnResult) -> None:
        """Do all tasks. Raises what would stop each of them, such as a full disk, and whatever `on_result` raises."""


class OneProcess:
    """This process, which does one task after the other."""

    notes = ()

    def __init__(self, job: FleetJob, progress: Progress) -> None:
        self.members = (CrewMember(job.examine(job.common)),)
        self._job, self._progress = job, progress

    def run(self, tasks: Sequence[FleetTask], place: Place, on_result: OnResult) -> None:
        for number, task in enumerate(tasks):
            started = time.monotonic()
            try:
                with place(task) as folder:
                    value = self._job.work(self._job.common, task.given, folder, self._progress)
                    where = Whereabouts(seconds=time.monotonic() - started)
                    on_result(number, FleetResult(value, where=where), folder)
            except NotWritable:
                raise
            except NcuSwizzleError as error:
                with place(task) as folder:
                    on_result(number, FleetResult(error=error), folder)


@contextmanager
def crew(job: FleetJob, options: FleetOptions = ALONE, progress: Progress = silent) -> Iterator[Crew]:
    """Yield who does the job. Raises UsageError for nonsense, and EnvironmentLacking if there is no fit worker."""
    options.refuse_nonsense()
    if not options.given:
        yield OneProcess(job, progress)
        return
    from ncu_swizzle.sweep.dispatch import workers  # Dask, which nothing else needs

    with workers(job, options, progress) as many:
        yield many


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
