"""``ncu-swizzle report``: profiles side by side, measured now or saved, with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Selection, grouped, with_options
from ncu_swizzle.engines.settings import Options, Request
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions
from ncu_swizzle.reports.options import Formats


@grouped
def report(
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="A [B …]", help="Runs, saved profiles, .ncu-rep files or kernels; the baseline first."),
    ],
    selection: Selection,
    request: Request,
    formats: Formats,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="The HTML page; default: in the run, or in swizzle-out."),
    ] = None,
) -> None:
    """Show one profile, or compare several: tables and a page.

    \b
    ncu-swizzle report swizzle-out/kernel2                    a saved run, again
    ncu-swizzle report before.json after.json -o page.html --markdown -
    ncu-swizzle report mine.ncu-rep -k softmax --launch 3     one of its launches
    ncu-swizzle report kernel1 kernel2 --engine recorded      of the catalogue
    ncu-swizzle report my.cu --before -DSWIZZLE=0 --after -DSWIZZLE=1
    \f
    The first profile is compared with the second, and any others are shown alongside. What is saved is not measured
    again, and the same input gives the same bytes. A run's folder means the kernel or program that it was made for;
    given alone, everything in it.

    Kernels of reports with several are paired by function, grid, block and order, else by short name and order;
    --pair A=B overrides that. A .cu, cubin or PTX file is described as for ncu-swizzle profile and stands for all of
    its variants.
    """
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.commands import run_kernel
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import page

    choice = selection.choice()
    if all(map(_is_saved, profiles)):
        own.described(request.problem, sources).refuse_beside(profiles[0])
        result = run_kernel.reopen(profiles, choice)
    else:
        named = naming.resolve_saved(profiles, own.described(request.problem, sources))
        entries = [entry for variants in named for entry in variants]
        with output.progress() as progress:
            result = run_kernel.compare_all(entries, with_options(request, options), progress, choice)
    file = out or run_kernel.page_of(profiles)
    write_atomically(file, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, (file,))


def _is_saved(word: str) -> bool:
    """Return whether a word is a run, a report or a saved profile, and not a kernel of the same name."""
    from ncu_swizzle.reports.run_folder import MANIFEST

    path = Path(word)
    return (path / MANIFEST).is_file() or (path.suffix in (".json", ".ncu-rep") and path.is_file())
