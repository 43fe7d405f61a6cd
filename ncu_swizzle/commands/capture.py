"""``ncu-swizzle capture``: keep what a program launches, to check it anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands.after_dashes import after_dashes
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.option import option
from ncu_swizzle.texts import on_terminal

MEMORY_MIB = 1024


@dataclass(frozen=True)
class Wanted:
    """Which launches are captured, and what of them."""

    kernel_name: str = option("", "Only kernels with this name.", "NAME|regex:EXPR", ("--kernel-name", "-k"))
    launch_count: int = option(32, "At most N launches.", "N", ("--launch-count", "-c"), minimum=1)
    memory: bool = option(False, "Also what the buffers and variables of each launch hold.", flags=("--memory",))
    memory_limit: int = option(MEMORY_MIB, "With --memory: at most this much in all.", "MIB", minimum=1)
    dry: bool = option(False, "Without a GPU: run against a stand-in for CUDA's runtime.", flags=("--dry",))
    like: str = option("h100", "With --dry: the GPU that device queries are answered for.", choices=("h100",))
    no_arguments: bool = option(False, "Leave the program's arguments out of the file.", flags=("--no-arguments",))


@grouped
def capture(
    context: typer.Context,
    wanted: Wanted,
    request: Annotated[Request, Only("nvcc", "timeout_s", "no_cache")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")] = Path("app.launches"),
) -> None:
    """Run a program once and keep its launches: cubins, sizes, parameters.

    \b
    ncu-swizzle capture -o app.launches -- ./app --size 4096
    ncu-swizzle capture -k regex:softmax -c 3 --memory -- python train.py
    ncu-swizzle profile app.launches      on any machine, without a GPU
    ncu-swizzle lint app.launches

    Without a GPU, for a program that is linked with the shared runtime:
    ncu-swizzle capture --dry -- ./app

    The program runs without ncu, nearly at full speed. docs/launches.md describes the file, and what it does not hold.
    """
    keep(after_dashes(context), wanted, request, out)


def keep(command: tuple[str, ...], wanted: Wanted, request: Request, out: Path) -> None:
    """Run a program once, write its launches to a file, and print what that holds."""
    from ncu_swizzle.build.toolchain import Toolchain
    from ncu_swizzle.capture.running import MIB, CaptureLimits
    from ncu_swizzle.commands import endings
    from ncu_swizzle.jobs import capture_program
    from ncu_swizzle.jobs.profile_program import UserProgram

    memory_bytes = wanted.memory_limit * MIB if wanted.memory or wanted.dry else 0
    limits = CaptureLimits(wanted.kernel_name, wanted.launch_count, memory_bytes, request.timeout_s)
    generator = f"ncu-swizzle {endings.version()}"
    settings = capture_program.CaptureSettings(out, limits, not wanted.no_arguments, not request.no_cache, generator)
    program = UserProgram(command, Path.cwd())
    if wanted.dry:
        toolchain = Toolchain(request.nvcc, request.timeout_s)
        manifest = capture_program.capture_dry(program, settings, wanted.like, toolchain)
    else:
        manifest = capture_program.capture(program, settings)
    for text in capture_program.lines(manifest, out):
        typer.echo(on_terminal(text))
