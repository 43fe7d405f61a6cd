"""``ncu-swizzle compare`` and ``report``: profiles side by side, and saved ones again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Formats, Selection, grouped, with_options
from ncu_swizzle.engines.settings import Options, Request
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions

# ``ncu-swizzle compare``: any profiles side by side.


@grouped
def compare(
    profiles: Annotated[
        list[str],
        typer.Argument(
            metavar="A [B …]", help="Kernels, .cu or .ncu-rep files, saved profiles or runs; the baseline first."
        ),
    ],
    selection: Selection,
    request: Request,
    formats: Formats,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the HTML page to this file.")] = None,
) -> None:
    """Compare profiles, the first with the second.

    Any others are shown alongside. A run's folder means the kernel or program
    that it was made for; given alone, it means everything in it.

    Kernels of reports with several are paired by function, grid, block and order,
    else by short name and order; --pair A=B overrides that.

    A .cu, cubin or PTX file is described as for ncu-swizzle profile and stands for all of its variants: my.cu
    --before -DSWIZZLE=0 --after -DSWIZZLE=1.
    """
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.commands.run_kernel import compare_all
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import page

    choice = selection.choice()
    named = naming.resolve_saved(profiles, own.described(request.problem, sources))
    entries = [entry for variants in named for entry in variants]
    with output.progress() as progress:
        result = compare_all(entries, with_options(request, options), progress, choice)
    if html:
        write_atomically(html, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, [html] if html else [])


@grouped
def report(
    saved: Annotated[
        list[str], typer.Argument(metavar="SAVED…", help="Runs, saved profiles or .ncu-rep files; the baseline first.")
    ],
    selection: Selection,
    formats: Formats,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The HTML page; default: in the run's folder, or in swizzle-out."
        ),
    ] = None,
) -> None:
    """Make a report of saved profiles; nothing is measured.

    The same input gives the same bytes. A single run's folder means everything in it; of several, each means the
    kernel that it was made for.

    \b
    ncu-swizzle report swizzle-out/kernel2
    ncu-swizzle report before.json after.json -o page.html --markdown -
    ncu-swizzle report mine.ncu-rep --kernel-name regex:softmax --launch 3
    """
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.commands.run_kernel import page_of, reopen
    from ncu_swizzle.render import page

    result = reopen(saved, selection.choice())
    file = out or page_of(saved)
    write_atomically(file, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, (file,))
