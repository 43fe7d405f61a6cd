"""``ncu-swizzle sweep``: variants over sizes of their problem."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options
from ncu_swizzle.commands import own
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode


def sweep(
    kernels: Annotated[list[str], typer.Argument(metavar="FAMILY|KERNEL…", help="A family, or kernels of one.")],
    problem: Annotated[
        list[str], typer.Option("--problem", metavar="NAME=SIZE,…", help="Sizes to try; several names: each with each.")
    ] = [],  # noqa: B006 - typer takes a list as it is
    variants: Annotated[
        list[str], typer.Option(metavar="all|NAME,…", help="Of the family; all: all but the library's.")
    ] = [],  # noqa: B006
    engine: options.EngineOption = Engine.auto,
    export: Annotated[
        Path | None,
        typer.Option("--export", "-o", metavar="FOLDER", help="Where to write; default: swizzle-out/sweep-FAMILY."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take over what an earlier start has finished, if nothing changed.")
    ] = False,
    force_overwrite: Annotated[
        bool, typer.Option("--force-overwrite", "-f", help="Start the sweep in FOLDER again.")
    ] = False,
    json: options.JsonOption = None,
    markdown: options.MarkdownOption = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE|-", help="Write the table of points; - prints it.")
    ] = None,
    clock_control: options.ClockOption = ClockControl.none,
    cache_control: options.CacheOption = CacheControl.all,
    replay_mode: options.ReplayOption = ReplayMode.kernel,
    ncu: options.NcuOption = None,
    timeout: options.TimeoutOption = 600,
    config: own.ConfigOption = "",
    catalog: own.CatalogOption = [],  # noqa: B006
) -> None:
    """Profile variants at several sizes: a table and charts.

    \b
    ncu-swizzle sweep gemm --problem n=1024,2048,4096 --variants all
    ncu-swizzle sweep kernel1 kernel2 --problem seq=1024,4096 --problem heads=8,16

    Each finished point is kept at once; what fails is a row with its error, and the exit code is 4.
    The speed-up is over the baseline variant at the same size.
    """
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands import output
    from ncu_swizzle.sweep import plan
    from ncu_swizzle.sweep import running

    formats = output.Formats(json, markdown, csv)
    request = options.request(engine, [], clock_control, cache_control, replay_mode, ncu, timeout)
    known = user_kernels.everything(catalog, config)
    planned = plan.make_plan(known, kernels, plan.listed(variants), plan.sizes(problem))
    with output.progress() as progress:
        found = running.run(planned, request, export, resume, force_overwrite, progress)
    output.show_sweep(found, formats)
    running.conclude(found)
