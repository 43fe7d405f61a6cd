"""``ncu-swizzle capture``: keep what a program launches, to check it anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import on_terminal, option
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.commands.helping import after_dashes
from ncu_swizzle.engines.settings import MOST_LAUNCHES, Request
from ncu_swizzle.reports.options import kernel_names

if TYPE_CHECKING:
    from ncu_swizzle.capture.launches import CapturedLaunch, Manifest
    from ncu_swizzle.commands.run_program import UserProgram

MEMORY_MIB = 1024
OUTPUT = 1 << 20  # bytes of a buffer after a launch that are kept; of a larger one its SHA-256 remains


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which launches are captured, and what of them."""

    kernel_name: str = kernel_names()
    launch_count: int = option(
        MOST_LAUNCHES, "At most N launches.", "N", ("-c", "--launch-count"), minimum=1, common=True
    )
    memory: bool = option(
        False, "Also what the buffers and variables of each launch hold.", flags=("--memory",), common=True
    )
    outputs: bool = option(
        False, "With --memory, also what they hold after the launch.", flags=("--outputs",), common=True
    )
    memory_limit: int = option(MEMORY_MIB, "With --memory: at most this much in all.", "MIB", minimum=1)
    dry: bool = option(
        False, "Without a GPU: run against a stand-in for CUDA's runtime.", flags=("--dry",), common=True
    )
    execute: bool = option(
        False,
        "With --dry: execute the kernels, so that the program gets its results.",
        flags=("--execute",),
        common=True,
    )
    like: str = option("h100", "With --dry: the GPU that device queries are answered for.", choices=("h100", "b200"))
    no_arguments: bool = option(False, "Leave the program's arguments out of the file.", flags=("--no-arguments",))


@grouped
def capture(
    context: typer.Context,
    wanted: Wanted,
    request: Annotated[Request, Only("nvcc", "timeout_s", "no_cache")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")] = Path("app.launches"),
) -> None:
    """Keep a program's launches, to check them without GPU or counters.

    \b
    ncu-swizzle capture -o app.launches -- ./app --size 4096
    ncu-swizzle capture -k regex:softmax -c 3 --memory -- python train.py
    ncu-swizzle capture --outputs -- ./app      then profile --check compares them
    ncu-swizzle profile app.launches      on any machine, without a GPU
    ncu-swizzle lint app.launches

    Without a GPU, for a program that is linked with the shared runtime:
    ncu-swizzle capture --dry -- ./app
    \f
    The program runs without ncu, nearly at full speed. docs/launches.md describes the file, and what it does not hold.
    """
    from ncu_swizzle.capture.launches import summary
    from ncu_swizzle.commands.run_program import UserProgram

    manifest = captured(UserProgram(after_dashes(context), Path.cwd()), wanted, request, out)
    number = summary(manifest)
    memory = f", {number['memory_bytes']:,} bytes of memory" if number["memory"] else ""
    held = f"{number['launches']} launches of {number['kernels']} kernels, {number['cubins']} cubins{memory}"
    for line in (f"{out}: {held}", *(f"note: {note}" for note in manifest.notes)):
        typer.echo(on_terminal(line))


def captured(program: UserProgram, wanted: Wanted, request: Request, out: Path) -> Manifest:
    """Run the program once, on this machine's GPU or against a stand-in for CUDA's runtime; write its launches.

    Raises UsageError, of a dry run also for a program that is not linked with the shared runtime, EnvironmentLacking,
    ProgramFailed with the program's last lines, NothingProfiled, NotWritable.
    """
    from ncu_swizzle.capture import dry, running
    from ncu_swizzle.capture.launches import DRY, GPU, CapturedProgram, Manifest, write
    from ncu_swizzle.kernels.git import commit_of
    from ncu_swizzle.kernels.toolchain import Toolchain

    if (wanted.execute and not wanted.dry) or (wanted.outputs and wanted.dry):
        raise UsageError(
            "--execute is for --dry, and --outputs for a GPU", "ncu-swizzle capture --dry --execute -- ./app"
        )
    argv, folder, cached = program.argv, program.folder, not request.no_cache
    running.refuse_unusable(argv, folder)
    limits = running.CaptureLimits(
        kernel_name=wanted.kernel_name,
        count=wanted.launch_count,
        memory_bytes=wanted.memory_limit * running.MIB if wanted.memory or wanted.outputs or wanted.dry else 0,
        outputs=wanted.outputs,
        timeout_s=request.timeout_s,
    )
    with scratch() as temporary:
        if wanted.dry:
            gpu, toolchain = running.GPUS[wanted.like], Toolchain(request.nvcc, request.timeout_s)
            executing: dict[str, Any] = {}
            if wanted.execute:
                from ncu_swizzle.engines.emulation import EmulationSettings
                from ncu_swizzle.engines.replay import left_by

                executing = {"execute": partial(left_by, settings=EmulationSettings.of(request), judged=set())}
            recording = dry.record(
                argv, folder, limits, temporary, gpu=gpu, toolchain=toolchain, cached=cached, **executing
            )
        else:
            recording = running.record(argv, folder, limits, temporary, cached)
        if recording.log:
            typer.echo(on_terminal(recording.log))
        launches = tuple(recording.launches)
        cubins = {launch.cubin for launch in launches}
        memory = {contents.sha256 for launch in launches for contents in launch.contents}
        sizes = {sha256: file.stat().st_size for sha256, file in recording.memory.items()}
        memory |= {each.sha256 for launch in launches for each in launch.outputs if sizes.get(each.sha256, 0) <= OUTPUT}
        manifest = Manifest(
            origin=DRY if wanted.dry else GPU,
            generator=f"ncu-swizzle {output.version()}",
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=recording.machine,
            program=CapturedProgram(program.name, None if wanted.no_arguments else argv[1:]),
            commit=commit_of(folder),
            launches=launches,
            cubins={sha256: file.stat().st_size for sha256, file in recording.cubins.items() if sha256 in cubins},
            memory={sha256: size for sha256, size in sizes.items() if sha256 in memory},
            notes=(*recording.notes, *_unknown(launches)),
        )
        write(out, manifest, recording.cubins, recording.memory)
    return manifest


def _unknown(launches: tuple[CapturedLaunch, ...]) -> list[str]:
    """Name the requested contents that could not be kept."""
    from ncu_swizzle.capture.launches import WITHOUT_MEMORY

    reasons: dict[str, int] = {}
    for launch in launches:
        for why in {contents.why for contents in launch.contents if not contents.sha256}:
            reasons[why] = reasons.get(why, 0) + 1
    reasons.pop(WITHOUT_MEMORY, None)
    return [f"Contents of memory are unknown for {count} launches: {why}." for why, count in sorted(reasons.items())]
