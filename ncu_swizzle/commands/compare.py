"""``ncu-swizzle compare``: any profiles side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options, own, programs
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode


def compare(
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="A [B …]", help="Kernels, .ncu-rep files, saved profiles or runs; before comes first."),
    ],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the HTML page there.")] = None,
    pair: programs.PairOption = [],  # noqa: B006 - typer takes a list as it is
    kernel_name: programs.SelectNameOption = "",
    launch: programs.SelectLaunchOption = [],  # noqa: B006
    engine: options.EngineOption = Engine.auto,
    problem: options.ProblemOption = [],  # noqa: B006
    json: options.JsonOption = None,
    markdown: options.MarkdownOption = None,
    csv: options.CsvOption = None,
    clock_control: options.ClockOption = ClockControl.none,
    cache_control: options.CacheOption = CacheControl.all,
    replay_mode: options.ReplayOption = ReplayMode.kernel,
    ncu: options.NcuOption = None,
    nvcc: options.NvccOption = None,
    exhaustive: options.ExhaustiveOption = False,
    timeout: options.TimeoutOption = 600,
    config: own.ConfigOption = "",
    catalog: own.CatalogOption = [],  # noqa: B006
) -> None:
    """Compare profiles, the first with the second.

    Further ones stand beside them. The folder of a run stands for the kernel or
    program that it was made for; alone, for everything in it.

    Kernels of reports with several are paired by function, grid, block and order,
    else by short name and order; --pair A=B says what belongs together.
    """
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands import output
    from ncu_swizzle.files import write_atomically
    from ncu_swizzle.jobs import compare as compare_
    from ncu_swizzle.render import page

    formats = output.Formats(json, markdown, csv)
    request = options.request(
        engine, problem, clock_control, cache_control, replay_mode, ncu, timeout, nvcc=nvcc, exhaustive=exhaustive
    )
    with output.progress() as progress:
        choice = programs.choice(kernel_name, launch, pair)
        known = user_kernels.everything(catalog, config)
        result = compare_.compare_all(known, profiles, request, progress, choice)
    if html:
        write_atomically(html, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, [html] if html else [])
