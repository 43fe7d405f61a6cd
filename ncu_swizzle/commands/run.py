"""``ncu-swizzle run``: build, check and time, without ncu."""

from __future__ import annotations

import json as json_
import sys
from typing import Annotated

import typer

from ncu_swizzle.commands import options


def run(
    kernels: Annotated[list[str], typer.Argument(metavar="KERNEL…", help="Kernels of one family, timed in turn.")],
    problem: options.ProblemOption = [],  # noqa: B006 - typer takes a list as it is
    reference: Annotated[bool, typer.Option(help="Time the library's kernel too, where PyTorch is installed.")] = True,
    repeats: Annotated[int, typer.Option(min=1, help="Timed samples of each kernel.")] = 15,
    seed: Annotated[int | None, typer.Option(help="Of the random inputs; fresh ones by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as data.")] = False,
    timeout: options.TimeoutOption = 600,
) -> None:
    """Build, check and time kernels, without ncu.

    Outputs are checked against a reference in float64 before anything is timed; times are medians of CUDA events.
    """
    from ncu_swizzle import catalog, experiment, terminal
    from ncu_swizzle.commands.output import Output
    from ncu_swizzle.profiling import Request

    request = Request(problem=options.sizes(problem), timeout_s=timeout)
    more = ["--repeats", str(repeats), *(["--seed", str(seed)] if seed is not None else [])]
    timing = experiment.time_kernels(catalog.load(), kernels, request, reference, more)
    if json:
        sys.stdout.write(json_.dumps(timing.facts) + "\n")
    else:
        terminal.times(timing, Output())
