"""``ncu-swizzle profile``: what a kernel does to shared memory, beside its baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode


def profile(
    context: typer.Context,
    kernel: Annotated[str, typer.Argument(help="A kernel of the catalogue: ncu-swizzle list.")],
    baseline: Annotated[
        str, typer.Option(metavar="NAME|FILE|none", help="What to compare with; auto: what the catalogue names.")
    ] = "auto",
    reference: Annotated[
        str, typer.Option(metavar="NAME|FILE|none", help="A third column; auto: the library's kernel, if it is there.")
    ] = "auto",
    engine: options.EngineOption = Engine.auto,
    problem: options.ProblemOption = [],  # noqa: B006 - typer takes a list as it is
    export: Annotated[
        Path | None,
        typer.Option("--export", "-o", metavar="FOLDER", help="Where to write; default: swizzle-out/KERNEL."),
    ] = None,
    force_overwrite: Annotated[
        bool, typer.Option("--force-overwrite", "-f", help="Replace what an earlier run wrote to FOLDER.")
    ] = False,
    json: options.JsonOption = None,
    markdown: options.MarkdownOption = None,
    csv: options.CsvOption = None,
    clock_control: options.ClockOption = ClockControl.none,
    cache_control: options.CacheOption = CacheControl.all,
    replay_mode: options.ReplayOption = ReplayMode.kernel,
    launch_count: Annotated[int, typer.Option("--launch-count", "-c", min=1, help="As ncu's.")] = 1,
    ncu: options.NcuOption = None,
    nvcc: options.NvccOption = None,
    exhaustive: options.ExhaustiveOption = False,
    timeout: options.TimeoutOption = 600,
) -> None:
    """Profile KERNEL beside its baseline; write data and an HTML page.

    What follows -- goes to ncu as it is, such as: ncu-swizzle profile kernel2 -- --sampling-interval 0
    """
    from ncu_swizzle import catalog, experiment
    from ncu_swizzle.commands import output

    formats = output.Formats(json, markdown, csv)
    own = {"launch_count": launch_count, "extra": tuple(context.args)}
    request = options.request(
        engine,
        problem,
        clock_control,
        cache_control,
        replay_mode,
        ncu,
        timeout,
        nvcc=nvcc,
        exhaustive=exhaustive,
        **own,
    )
    with output.progress() as progress:
        result = experiment.profile(
            catalog.load(), kernel, request, baseline, reference, export, force_overwrite, progress
        )
    output.show(result, formats)
