"""Capture a program's launches; profile several kernels, each into its own folder, in turn or by workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.base.files import slug
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.capture import dry, running
from ncu_swizzle.capture.launches import DRY, GPU, CapturedLaunch, CapturedProgram, Manifest, summary, write
from ncu_swizzle.capture.recorded import Recording
from ncu_swizzle.capture.running import CaptureLimits
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.run_kernel import Lineup
from ncu_swizzle.commands.run_program import UserProgram
from ncu_swizzle.engines.profiles import engine_for
from ncu_swizzle.engines.settings import ALONE, GPUS, FleetOptions, Progress, Request, silent
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.git import commit_of
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.comparison import JobResult
from ncu_swizzle.reports.options import NCU, Destination
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.crew import crew
from ncu_swizzle.sweep.worker import FleetJob, FleetResult, FleetTask

# Run a program once and write what it launches to a launches file.


@dataclass(frozen=True, kw_only=True)
class CaptureSettings:
    """What is captured, where it is written, and what is left out."""

    out: Path
    limits: CaptureLimits = CaptureLimits()
    arguments: bool = True  # keep the program's command line
    cached: bool = True
    generator: str = "ncu-swizzle"


def capture(program: UserProgram, settings: CaptureSettings) -> Manifest:
    """Run the program on this machine's GPU, write the launches file and return its manifest.

    Raises UsageError, EnvironmentLacking, ProgramFailed with the program's last lines, NothingProfiled, NotWritable.
    """
    running.refuse_unusable(program.argv, program.folder)
    with scratch() as folder:
        recording = running.record(program.argv, program.folder, settings.limits, folder, settings.cached)
        return _written(program, settings, recording, GPU)


def capture_dry(program: UserProgram, settings: CaptureSettings, gpu: str, toolchain: Toolchain) -> Manifest:
    """Do the same without a GPU: the program runs against a stand-in for CUDA's runtime that answers as this GPU would.

    Raises UsageError also for a program that is not linked with the shared runtime.
    """
    running.refuse_unusable(program.argv, program.folder)
    like, limits = running.GPUS[gpu], settings.limits
    with scratch() as folder:
        recording = dry.record(
            program.argv, program.folder, limits, folder, gpu=like, toolchain=toolchain, cached=settings.cached
        )
        return _written(program, settings, recording, DRY)


def _written(program: UserProgram, settings: CaptureSettings, recording: Recording, origin: str) -> Manifest:
    launches = tuple(recording.launches)
    used = {launch.cubin for launch in launches}
    manifest = Manifest(
        origin=origin,
        generator=settings.generator,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=recording.machine,
        program=CapturedProgram(program.name, program.argv[1:] if settings.arguments else None),
        commit=commit_of(program.folder),
        launches=launches,
        cubins={sha256: file.stat().st_size for sha256, file in recording.cubins.items() if sha256 in used},
        memory={sha256: file.stat().st_size for sha256, file in recording.memory.items()},
        notes=(*recording.notes, *_limited(recording, settings.limits), *_unknown(launches)),
    )
    write(settings.out, manifest, recording.cubins, recording.memory)
    return manifest


def _limited(recording: Recording, limits: CaptureLimits) -> list[str]:
    if len(recording.launches) < limits.count or recording.seen <= len(recording.launches):
        return []
    return [
        f"Only the first {limits.count} launches were captured; the program launched more. -c N captures more, -k NAME "
        "selects others."
    ]


def _unknown(launches: tuple[CapturedLaunch, ...]) -> list[str]:
    """Say which contents were wanted and could not be kept."""
    reasons: dict[str, int] = {}
    for launch in launches:
        for why in {contents.why for contents in launch.contents if not contents.sha256}:
            reasons[why] = reasons.get(why, 0) + 1
    reasons.pop(running.WITHOUT, None)
    return [f"Contents of memory are unknown for {count} launches: {why}." for why, count in sorted(reasons.items())]


def lines(manifest: Manifest, out: Path) -> list[str]:
    """Return what a launches file holds, a line each, with the notes."""
    number = summary(manifest)
    memory = f", {number['memory_bytes']:,} bytes of memory" if number["memory"] else ""
    held = f"{number['launches']} launches of {number['kernels']} kernels, {number['cubins']} cubins{memory}"
    return [f"{out}: {held}", *(f"note: {note}" for note in manifest.notes)]


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
