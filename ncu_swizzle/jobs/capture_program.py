"""Run a program once and write what it launches to a launches file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ncu_swizzle.build.commit import commit_of
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.capture import dry, gpus, running
from ncu_swizzle.capture.recorded import Recording
from ncu_swizzle.capture.running import CaptureLimits
from ncu_swizzle.jobs.profile_program import UserProgram
from ncu_swizzle.launches import container
from ncu_swizzle.launches.model import DRY, GPU, CapturedLaunch, CapturedProgram, Manifest
from ncu_swizzle.unfinished.folders import scratch


@dataclass(frozen=True)
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
    like, limits = gpus.GPUS[gpu], settings.limits
    with scratch() as folder:
        recording = dry.record(program.argv, program.folder, limits, folder, like, toolchain, settings.cached)
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
    container.write(settings.out, manifest, recording.cubins, recording.memory)
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
    number = container.summary(manifest)
    memory = f", {number['memory_bytes']:,} bytes of memory" if number["memory"] else ""
    held = f"{number['launches']} launches of {number['kernels']} kernels, {number['cubins']} cubins{memory}"
    return [f"{out}: {held}", *(f"note: {note}" for note in manifest.notes)]
