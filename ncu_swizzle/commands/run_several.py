"""Profile several kernels, each into its own folder, in turn or by workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.base.files import slug
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.run_kernel import Lineup
from ncu_swizzle.engines.profiles import engine_for
from ncu_swizzle.engines.settings import ALONE, GPUS, FleetOptions, Progress, Request, silent
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.comparison import JobResult
from ncu_swizzle.reports.options import NCU, Destination
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.crew import crew
from ncu_swizzle.sweep.worker import FleetJob, FleetResult, FleetTask


@dataclass(frozen=True)
class KernelOutcome:
    """What became of one kernel: its result, or the error that it ended with."""

    name: str
    result: JobResult | None = None
    error: NcuSwizzleError | None = None


def profile(
    lineups: Sequence[Lineup],
    request: Request,
    destination: Destination = Destination(),
    progress: Progress = silent,
    fleet: FleetOptions = ALONE,
) -> tuple[list[KernelOutcome], Sequence[str]]:
    """Return what became of each kernel, in order, and notes on the workers. A failing one does not stop the others.

    With a folder to export to, each kernel has its own in it. Before anything runs, raises what `refuse_to_overwrite`
    raises.
    """
    if fleet.given and request.engine == "auto" and (fleet.workers == GPUS or fleet.gpu):
        request = replace(request, engine=NCU)
    targets = [lineup.target for lineup in lineups]
    places = {target.name: _place(target, destination) for target in targets}
    for place in places.values():
        run_folder.refuse_to_overwrite(place)
    measures = any(engine_for(target, request).name == NCU for target in targets)
    files = tuple(dict.fromkeys(file for target in targets for file in worker.files_of(target.family)))
    job = FleetJob(work=profiled, common=request, examine=alike, measures=measures, files=files)
    tasks = [FleetTask(lineup.target.name, lineup) for lineup in lineups]
    outcomes = {target.name: KernelOutcome(target.name) for target in targets}

    @contextmanager
    def staged(task: FleetTask) -> Iterator[Path]:
        place = places[task.name].export or run_folder.DEFAULT / slug(task.name)
        with run_folder.staging(place) as folder:
            yield folder

    def take(number: int, result: FleetResult, folder: Path) -> None:
        name = tasks[number].name
        if result.error:
            outcomes[name] = KernelOutcome(name, error=result.error)
            return
        published = run_folder.publish(folder, slug(name), places[name])
        outcomes[name] = KernelOutcome(name, replace(result.value, folder=published))

    with crew(job, fleet, progress) as workers:
        workers.run(tasks, staged, take)
        notes = workers.notes
    return list(outcomes.values()), notes


def conclude(outcomes: Sequence[KernelOutcome]) -> None:
    """Raise ProgramFailed if a kernel failed."""
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed:
        first = failed[0]
        assert first.error is not None
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise ProgramFailed(
            f"{len(failed)} of {len(outcomes)} kernels failed; {first.name}: {first.error}{more}", first.error.hint
        )


def profiled(request: Request, lineup: Lineup, folder: Path, progress: Progress) -> JobResult:
    """Profile one kernel into the folder."""
    return run_kernel.profile(lineup, request, Destination(folder), progress)


def alike(_request: Request) -> None:
    """Say nothing: each result names the machine that it is from."""


def _place(target: Target, destination: Destination) -> Destination:
    export = destination.export
    return replace(destination, export=export / slug(target.name)) if export else destination
