"""``ncu-swizzle baseline``: what `check` compares later profiles with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle import paths
from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.options import with_options
from ncu_swizzle.engines.context import Request
from ncu_swizzle.ncu.options import Options

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
FileOption = Annotated[Path, typer.Option(metavar="FILE", help="The baseline file, to be committed.")]


@app.callback()
def overview() -> None:
    """Save or show what check compares with."""


@app.command()
@grouped
def save(
    profiles: Annotated[
        list[str], typer.Argument(metavar="PROFILE…", help="Kernels, .cu or .ncu-rep files, saved profiles or runs.")
    ],
    request: Request,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    file: FileOption = paths.BASELINE,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop other kernels from the file.")] = False,
) -> None:
    """Save profiles; several of one kernel show how much its time varies."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import checking, reporting

    named = checking.CheckOptions.naming(profiles, sources, own.described(request.problem))
    with output.progress() as progress:
        gathered, _ = checking.gathered(named, with_options(request, options), progress)
    reporting.show_baseline(checking.save(gathered, file, fresh), Output())


@app.command()
def show(file: FileOption = paths.BASELINE) -> None:
    """Show a baseline."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import baseline, reporting

    reporting.show_baseline(baseline.load(file), Output())
