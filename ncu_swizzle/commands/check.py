"""``ncu-swizzle check``, ``baseline`` and ``history``: judge profiles, and keep what they are judged by."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import on_terminal
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import grouped, with_options
from ncu_swizzle.engines.settings import Options, Request
from ncu_swizzle.kernels.options import CatalogOptions, NewBuild, PairOptions
from ncu_swizzle.reports.options import Outputs

# ``ncu-swizzle baseline``: what `check` compares later profiles with.


baseline_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
FileOption = Annotated[Path, typer.Option(metavar="FILE", help="The baseline file, to be committed.")]


@baseline_app.callback()
def baseline_overview() -> None:
    """Save or show what check compares with."""


@baseline_app.command()
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

    description = own.described(request.problem, sources)
    with output.progress() as progress:
        gathered, _ = checking.gathered(profiles, description, with_options(request, options), progress)
    reporting.show_baseline(checking.save(gathered, file, fresh), Output())


@baseline_app.command("show")
def show_baseline(file: FileOption = paths.BASELINE) -> None:
    """Show a baseline."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import baseline, reporting

    reporting.show_baseline(baseline.load(file), Output())


# ``ncu-swizzle check``: the gate that keeps conflicts from coming back.


LIMIT = "[KERNEL:][ACCESS=]NUMBER"


@grouped
def check(
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="PROFILE…", help="Kernels, .cu, .ncu-rep or .launches files, saved profiles or runs."),
    ],
    outputs: Outputs,
    request: Request,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    build: NewBuild,
    max_excessive: Annotated[list[str], typer.Option(metavar=LIMIT, help="Wavefronts beyond the ideal.")] = [],  # noqa: B006 - typer takes a list as it is
    max_degree: Annotated[list[str], typer.Option(metavar=LIMIT, help="Actual over ideal wavefronts.")] = [],  # noqa: B006
    max_regression: Annotated[
        list[str], typer.Option(metavar="[KERNEL:]PERCENT", help="Slower than the baseline, beyond noise.")
    ] = [],  # noqa: B006
    baseline: Annotated[
        str, typer.Option(metavar="FILE|none", help="Default: ncu-swizzle-baseline.json, if it exists.")
    ] = "",
    history: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="No more excess than in the last good run kept there.")
    ] = None,
    kernel_name: Annotated[
        str, typer.Option("--kernel-name", "-k", metavar="NAME|regex:EXPR", help="Check only these kernels.")
    ] = "",
    allow_recorded: Annotated[
        bool | None, typer.Option("--allow-recorded/--no-allow-recorded", help="Check recorded values too.")
    ] = None,
) -> None:
    """Check profiles against limits: exit code 0, 1 or 5.

    \b
    ncu-swizzle check swizzle-out/kernel2                 no excessive wavefronts
    ncu-swizzle check mine.ncu-rep --max-degree LDSM=1 --max-excessive STS=4096
    ncu-swizzle check mine.json --baseline ncu-swizzle-baseline.json --max-regression 5
    ncu-swizzle check mine.json --history ncu-swizzle-history
    ncu-swizzle check app.launches --rebuild 'nvcc -O3 app.cu'     captured, checked with a new build
    ncu-swizzle check my.cu --grid 128 --block 256 --arg x=float32[4096]:random     as for ncu-swizzle profile

    KERNEL is a regular expression for the whole name; ACCESS is LDS, LDSM, STS …, or * for each.
    Without ACCESS a limit applies to all accesses together. docs/ci.md describes the settings.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import checking, reporting

    build.refuse_without_launches(profiles)
    limits = (tuple(max_excessive), tuple(max_degree), tuple(max_regression))
    query = checking.CheckOptions(
        profiles=tuple(profiles),
        limits=limits,
        baseline=baseline,
        allow_recorded=allow_recorded,
        only=kernel_name,
        description=own.described(request.problem, sources),
        history=history,
    )
    with output.progress() as progress:
        verdict = checking.check(query, replace(with_options(request, options), build=build), progress)
    reporting.show(verdict, outputs, Output())
    reporting.conclude(verdict, listed=True)


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
    from ncu_swizzle.gate import checking, history

    history.need_pyarrow()
    description = own.described(request.problem, sources)
    with output.progress() as progress:
        gathered, _ = checking.gathered(profiles, description, with_options(request, options), progress)
    label = history.label_of(commit, accept, gathered, Path.cwd())
    file, new = history.add(gathered, folder, label)
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
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import history, history_page, tracks
    from ncu_swizzle.gate.tracks import show as show_shown
    from ncu_swizzle.gate.tracks import to_json

    found = tracks.of_kernel(tracks.tracks(history.load(folder)), kernel)
    if html:
        write_atomically(html, history_page.render(found).encode())
    if json == "-":
        sys.stdout.write(to_json(found))
        return
    if json:
        write_atomically(Path(json), to_json(found).encode())
    show_shown(found, Output())
