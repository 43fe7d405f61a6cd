"""``ncu-swizzle report``: show saved profiles again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import output
from ncu_swizzle.commands.formats import Formats
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.selection import Selection


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
    from ncu_swizzle.files import write_atomically
    from ncu_swizzle.jobs.compare import page_of, reopen
    from ncu_swizzle.render import page

    result = reopen(saved, selection.choice())
    file = out or page_of(saved)
    write_atomically(file, page.render_all(result.comparisons, result.notes, result.title).encode())
    output.show(result, formats, (file,))
