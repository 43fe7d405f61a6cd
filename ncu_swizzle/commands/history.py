"""``ncu-swizzle history``: runs kept over commits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.options import with_options
from ncu_swizzle.engines.context import Request
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.texts import on_terminal

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
FOLDER = Path("ncu-swizzle-history")
FolderOption = Annotated[Path, typer.Option(metavar="FOLDER", help="The history, also of a CI cache.")]


@app.callback()
def overview() -> None:
    """Keep runs over commits, show them, and see where counts changed."""


@app.command()
@grouped
def add(
    profiles: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Runs, saved profiles, .ncu-rep files, .cu files or kernels.")
    ],
    request: Request,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    folder: FolderOption = FOLDER,
    commit: Annotated[
        str, typer.Option(metavar="COMMIT", help="The commit that was run; default: as the run says.")
    ] = "",
    accept: Annotated[
        bool, typer.Option("--accept", help="What grew is intended: check --history compares with this run.")
    ] = False,
) -> None:
    """Add a run; nothing is ever replaced, and the same run is kept once.

    \b
    ncu-swizzle history add swizzle-out/kernel2
    ncu-swizzle history add conflicts.ncu-rep --commit HEAD
    ncu-swizzle history add my.cu --engine emulated --grid 128 --block 256 --arg …

    All given together are one run: one Parquet file (extra `fleet`) in the folder.
    """
    from ncu_swizzle.gate import checking
    from ncu_swizzle.history import dataset

    dataset.need_pyarrow()
    named = checking.CheckOptions.naming(profiles, sources, own.described(request.problem))
    with output.progress() as progress:
        gathered, _ = checking.gathered(named, with_options(request, options), progress)
    label = dataset.label_of(commit, accept, gathered, Path.cwd())
    file, new = dataset.add(gathered, folder, label)
    sys.stdout.write(on_terminal(f"{'Added' if new else 'Already there:'} {file}") + "\n")
    if not (label.commit or all(profile.commit for profile in gathered)):
        sys.stderr.write("note: its commit is unknown; --commit HEAD names it\n")


@app.command()
@grouped
def show(
    kernel: Annotated[str, typer.Argument(metavar="[KERNEL]", help="Only this kernel.")] = "",
    folder: FolderOption = FOLDER,
    json: Annotated[str, typer.Option(metavar="FILE|-", help="Write everything as JSON; - prints only that.")] = "",
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with charts over commits.")] = None,
) -> None:
    """Show counts and times over commits, and the commit where something changed.

    \b
    ncu-swizzle history show
    ncu-swizzle history show tile-swizzled --html history.html

    Runs of unlike machines, engines or sizes are tables of their own.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.files import write_atomically
    from ncu_swizzle.history import dataset, page, shown, tracks

    found = tracks.of_kernel(tracks.tracks(dataset.load(folder)), kernel)
    if html:
        write_atomically(html, page.render(found).encode())
    if json == "-":
        sys.stdout.write(shown.to_json(found))
        return
    if json:
        write_atomically(Path(json), shown.to_json(found).encode())
    shown.show(found, Output())
