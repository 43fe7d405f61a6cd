"""``ncu-swizzle baseline``: what `check` holds later profiles against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle import paths
from ncu_swizzle.commands import options
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
FileOption = Annotated[Path, typer.Option(metavar="FILE", help="The baseline; made to be committed.")]


@app.callback()
def overview() -> None:
    """Save or show what check compares with."""


@app.command()
def save(
    profiles: Annotated[
        list[str], typer.Argument(metavar="PROFILE…", help="Kernels, .ncu-rep files, saved profiles or runs.")
    ],
    file: FileOption = paths.BASELINE,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop what the file holds of other kernels.")] = False,
    engine: options.EngineOption = Engine.auto,
    problem: options.ProblemOption = [],  # noqa: B006 - typer takes a list as it is
    clock_control: options.ClockOption = ClockControl.none,
    cache_control: options.CacheOption = CacheControl.all,
    replay_mode: options.ReplayOption = ReplayMode.kernel,
    ncu: options.NcuOption = None,
    nvcc: options.NvccOption = None,
    exhaustive: options.ExhaustiveOption = False,
    timeout: options.TimeoutOption = 600,
) -> None:
    """Save profiles; several of one kernel tell how much its time varies."""
    from ncu_swizzle.commands import output
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import checking
    from ncu_swizzle.gate import reporting

    request = options.request(
        engine, problem, clock_control, cache_control, replay_mode, ncu, timeout, nvcc=nvcc, exhaustive=exhaustive
    )
    with output.progress() as progress:
        found, _ = checking.gather(profiles, request, progress)
    reporting.show_baseline(checking.save(found, file, fresh), Output())


@app.command()
def show(file: FileOption = paths.BASELINE) -> None:
    """Show a baseline."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import baseline
    from ncu_swizzle.gate import reporting

    reporting.show_baseline(baseline.load(file), Output())
