"""``ncu-swizzle report``: what was saved, shown again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options, programs


def report(
    saved: Annotated[
        list[str], typer.Argument(metavar="SAVED…", help="Runs, saved profiles or .ncu-rep files; before comes first.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The HTML page; default: in the run, or swizzle-out."),
    ] = None,
    pair: programs.PairOption = [],  # noqa: B006 - typer takes a list as it is
    kernel_name: programs.SelectNameOption = "",
    launch: programs.SelectLaunchOption = [],  # noqa: B006
    markdown: options.MarkdownOption = None,
    csv: options.CsvOption = None,
    json: options.JsonOption = None,
) -> None:
    """Make a report of saved profiles; nothing is measured.

    The same input gives the same bytes. One run's folder stands for all that is in it; of several, each stands for
    the kernel that it was made for.

    \b
    ncu-swizzle report swizzle-out/kernel2
    ncu-swizzle report before.json after.json -o page.html --markdown -
    ncu-swizzle report mine.ncu-rep --kernel-name regex:softmax --launch 3
    """
    from ncu_swizzle.commands import output
    from ncu_swizzle.files import write_atomically
    from ncu_swizzle.jobs import compare
    from ncu_swizzle.render import page

    formats = output.Formats(json, markdown, csv)
    result = compare.reopen(saved, programs.choice(kernel_name, launch, pair))
    place = out or compare.page_of(saved)
    write_atomically(place, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, (place,))
