"""``ncu-swizzle compare``: any profiles side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.formats import Formats
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.options import with_options
from ncu_swizzle.commands.selection import Selection
from ncu_swizzle.engines.context import Request
from ncu_swizzle.ncu.options import Options


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
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.files import write_atomically
    from ncu_swizzle.jobs.compare import compare_all
    from ncu_swizzle.render import page

    choice = selection.choice()
    description = own.described(request.problem)
    catalog, names = user_kernels.with_files(profiles, description, sources.catalog, sources.config, sources.trust)
    entries = [name for variants in names for name in variants]
    with output.progress() as progress:
        result = compare_all(catalog, entries, with_options(request, options), progress, choice)
    if html:
        write_atomically(html, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, [html] if html else [])
