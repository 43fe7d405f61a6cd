"""``ncu-swizzle compare``: any profiles side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode


def compare(
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="A [B …]", help="Kernels, .ncu-rep files, saved profiles or runs; before comes first."),
    ],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the HTML page there.")] = None,
    engine: options.EngineOption = Engine.auto,
    problem: options.ProblemOption = [],  # noqa: B006 - typer takes a list as it is
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
) -> None:
    """Compare profiles, the first with the second.

    Further ones stand beside them. The folder of a run stands for the kernel that
    it was made for; alone, for everything in it.
    """
    from ncu_swizzle import catalog, experiment, report
    from ncu_swizzle.commands import output
    from ncu_swizzle.files import write_atomically

    formats = output.Formats(json, markdown, csv)
    request = options.request(
        engine, problem, clock_control, cache_control, replay_mode, ncu, timeout, nvcc=nvcc, exhaustive=exhaustive
    )
    with output.progress() as progress:
        result = experiment.compare_all(catalog.load(), profiles, request, progress)
    if html:
        write_atomically(html, report.render(result.comparison).encode())
    output.show(result, formats, [html] if html else [])
