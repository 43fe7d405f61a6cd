"""``ncu-swizzle run``: build, check and time, without ncu."""

from __future__ import annotations

import json as json_
import sys
from typing import Annotated

import typer

from ncu_swizzle.commands import options
from ncu_swizzle.commands import own


def run(
    kernels: Annotated[
        list[str], typer.Argument(metavar="KERNEL…", help="Kernels of one family, timed in turn, or a .cu file.")
    ],
    problem: options.ProblemOption = [],  # noqa: B006 - typer takes a list as it is
    reference: Annotated[bool, typer.Option(help="Time the library's kernel too, where PyTorch is installed.")] = True,
    repeats: Annotated[int, typer.Option(min=1, help="Timed samples of each kernel.")] = 15,
    seed: Annotated[int | None, typer.Option(help="Of the random inputs; fresh ones by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as data.")] = False,
    timeout: options.TimeoutOption = 600,
    entry: own.EntryOption = "",
    grid: own.GridOption = "",
    block: own.BlockOption = "",
    shared: own.SharedOption = "",
    arg: own.ArgOption = [],  # noqa: B006
    define: own.DefineOption = [],  # noqa: B006
    include: own.IncludeOption = [],  # noqa: B006
    std: own.StandardOption = "",
    nvcc_option: own.NvccOption = [],  # noqa: B006
    before: own.BeforeOption = [],  # noqa: B006
    after: own.AfterOption = [],  # noqa: B006
    config: own.ConfigOption = "",
    catalog: own.CatalogOption = [],  # noqa: B006
) -> None:
    """Build, check and time kernels, without ncu.

    Outputs are checked against a reference in float64 before anything is timed; times are medians of CUDA events.
    A .cu file is described as for ncu-swizzle profile; all its variants are timed.
    """
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.engines.context import Request
    from ncu_swizzle.jobs import time_kernels
    from ncu_swizzle.render import terminal_times

    request = Request(problem=options.sizes(problem), timeout_s=timeout)
    more = ["--repeats", str(repeats), *(["--seed", str(seed)] if seed is not None else [])]
    described = user_kernels.asked(
        options.sizes(problem), entry, grid, block, shared, arg, define, include, std, nvcc_option, before, after
    )
    known, names = user_kernels.chosen_together(kernels, described, catalog, config)
    timing = time_kernels.time_kernels(known, names, request, reference, more)
    if json:
        sys.stdout.write(json_.dumps(timing.facts) + "\n")
    else:
        terminal_times.show_times(timing, Output())
