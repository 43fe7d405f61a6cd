"""Several kernels, each profiled with its companions into a folder of its own: one after the other, or by workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.choice import engine_for
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.files import slug
from ncu_swizzle.fleet import shipment
from ncu_swizzle.fleet.crew import crew
from ncu_swizzle.fleet.options import ALONE, GPUS, FleetOptions
from ncu_swizzle.fleet.tasks import FleetJob, FleetResult, FleetTask
from ncu_swizzle.jobs import profile_kernel
from ncu_swizzle.jobs.companions import Companions
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.engine import NCU
from ncu_swizzle.profiles.result import JobResult

Wanted = tuple[Catalog, Target]


@dataclass(frozen=True)
class KernelOutcome:
    """What became of one kernel: its result, or the error that it ended with."""

    name: str
    result: JobResult | None = None
    error: NcuSwizzleError | None = None


@dataclass(frozen=True)
class ProfilesWork:
    """What all kernels of the command share."""

    request: Request
    companions: Companions


def profile(
    wanted: Sequence[Wanted],
    request: Request,
    companions: Companions = Companions(),
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
    places = {target.name: _place(target, destination) for _, target in wanted}
    for place in places.values():
        run_folder.refuse_to_overwrite(place)
    measures = any(engine_for(target, request).name == NCU for _, target in wanted)
    files = tuple(dict.fromkeys(file for _, target in wanted for file in shipment.files_of(target.family)))
    job = FleetJob(profiled, ProfilesWork(request, companions), alike, measures, files)
    tasks = [FleetTask(target.name, (catalog, target)) for catalog, target in wanted]
    outcomes = {target.name: KernelOutcome(target.name) for _, target in wanted}

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


def profiled(work: ProfilesWork, given: Wanted, folder: Path, progress: Progress) -> JobResult:
    """Profile one kernel into the folder."""
    catalog, target = given
    return profile_kernel.profile(catalog, target, work.request, work.companions, Destination(folder), progress)


def alike(_work: ProfilesWork) -> None:
    """Say nothing: each result names the machine that it is from."""


def _place(target: Target, destination: Destination) -> Destination:
    export = destination.export
    return replace(destination, export=export / slug(target.name)) if export else destination
