"""``ncu-swizzle report``: what was saved, shown again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options


def report(
    saved: Annotated[
        list[str], typer.Argument(metavar="SAVED…", help="Runs, saved profiles or .ncu-rep files; before comes first.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The HTML page; default: in the run, or swizzle-out."),
    ] = None,
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
    """
    from ncu_swizzle import experiment, page
    from ncu_swizzle.commands import output
    from ncu_swizzle.files import write_atomically

    formats = output.Formats(json, markdown, csv)
    result = experiment.reopen(saved)
    place = out or experiment.page_of(saved)
    write_atomically(place, page.render(result.comparison).encode())
    output.show(result, formats, (place,))
