"""``ncu-swizzle run``: build, check and time kernels without ncu."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.texts import in_json


@grouped
def run(
    kernels: Annotated[
        list[str], typer.Argument(metavar="KERNEL…", help="Kernels of one family, timed in turn, or a .cu file.")
    ],
    request: Annotated[Request, Only("problem", "timeout_s", "no_cache")],
    own: PairOptions,
    sources: CatalogOptions,
    reference: Annotated[bool, typer.Option(help="Time the library's kernel too, if PyTorch is installed.")] = True,
    repeats: Annotated[int, typer.Option(min=1, help="Timed samples per kernel.")] = 15,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs; default: a new one each time.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Build, check and time kernels without ncu.

    Outputs are checked against a float64 reference before timing; times are medians, measured with CUDA events.
    Describe a .cu file as for ncu-swizzle profile; all its variants are timed.
    """
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.jobs.time_kernels import time_kernels
    from ncu_swizzle.render import terminal_times

    more = ["--repeats", str(repeats), *(["--seed", str(seed)] if seed is not None else [])]
    description = own.described(request.problem)
    catalog, names = user_kernels.chosen_together(kernels, description, sources.catalog, sources.config, sources.trust)
    timing = time_kernels(catalog, names, request, reference, more)
    if json:
        sys.stdout.write(in_json(timing.facts, allow_nan=True))
    else:
        terminal_times.show_times(timing, Output())
