"""``ncu-swizzle check`` and ``history``: judge profiles, and keep what they are judged by."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import on_terminal, option
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import grouped, with_options
from ncu_swizzle.commands.helping import CommandGroup, refuse_typed
from ncu_swizzle.engines.settings import Options, Request
from ncu_swizzle.kernels.options import CatalogOptions, NewBuild, PairOptions
from ncu_swizzle.reports.options import Outputs, PageFormats, kernel_names

LIMIT = "[KERNEL:][ACCESS=]NUMBER"


@dataclass(frozen=True, kw_only=True)
class Judging:
    """What profiles are judged by."""

    group: ClassVar[str] = "Limits and baselines"

    max_excessive: tuple[str, ...] = option((), "Wavefronts beyond the ideal.", LIMIT, common=True)
    max_degree: tuple[str, ...] = option((), "Actual over ideal wavefronts.", LIMIT, common=True)
    max_regression: tuple[str, ...] = option(
        (), "Slower than the baseline, beyond noise.", "[KERNEL:]PERCENT", common=True
    )
    baseline: str = option(
        "", "Compare with this file; default: ncu-swizzle-baseline.json, if it exists.", "FILE|none", common=True
    )
    save_baseline: bool = option(
        False, "Save the profiles as the baseline, to be committed; judge nothing.", common=True,
        flags=("--save-baseline",),
    )  # fmt: skip
    show_baseline: bool = option(False, "Show the baseline.", flags=("--show-baseline",), common=True)
    fresh: bool = option(False, "With --save-baseline: drop other kernels from the file.", flags=("--fresh",))
    history: Path | None = option(None, "No more excess than in the last good run kept there.", "FOLDER", common=True)
    kernel_name: str = kernel_names()
    allow_recorded: bool | None = option(
        None, "Check recorded values too.", flags=("--allow-recorded/--no-allow-recorded",)
    )


SAVING = ("baseline", "fresh", "save_baseline")


@grouped
def check(
    context: typer.Context,
    judging: Judging,
    outputs: Outputs,
    request: Request,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    build: NewBuild,
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="PROFILE…", help="Kernels, .cu, .ncu-rep or .launches files, saved profiles or runs."),
    ] = [],  # noqa: B006 - typer takes a list as it is
) -> None:
    """Check profiles against limits: exit code 0, 1 or 5.

    \b
    ncu-swizzle check swizzle-out/kernel2                 no excessive wavefronts
    ncu-swizzle check mine.ncu-rep --max-degree LDSM=1 --max-excessive STS=4096
    ncu-swizzle check mine.json --save-baseline           what later profiles are compared with
    ncu-swizzle check mine.json --max-regression 5
    ncu-swizzle check app.launches --rebuild 'nvcc -O3 app.cu'
    \f
    \b
    ncu-swizzle check mine.json --history ncu-swizzle-history
    ncu-swizzle check my.cu --grid 128 --block 256 --arg x=float32[4096]:random     as for ncu-swizzle profile

    KERNEL is a regular expression for the whole name; ACCESS is LDS, LDSM, STS …, or * for each.
    Without ACCESS a limit applies to all accesses together. docs/ci.md describes the settings.

    --save-baseline takes several profiles of one kernel, which show how much its time varies.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import baseline, checking, reporting

    file = Path(judging.baseline) if judging.baseline else paths.BASELINE
    if judging.show_baseline:
        refuse_typed(context, ("show_baseline", "baseline"), "--show-baseline")
        reporting.show_baseline(baseline.load(file), Output())
        return
    if not profiles:
        raise UsageError("nothing to check: name a profile", "ncu-swizzle check swizzle-out/kernel2")
    build.refuse_without_launches(profiles)
    description, request = own.described(request.problem, sources), with_options(request, options)
    if judging.save_baseline:
        refuse_typed(context, ("profiles", *SAVING), "--save-baseline", Request, Options, PairOptions, CatalogOptions)
        with output.progress() as progress:
            gathered, _ = checking.gathered(profiles, description, request, progress)
        reporting.show_baseline(checking.save(gathered, file, judging.fresh), Output())
        return
    query = checking.CheckOptions(
        profiles=tuple(profiles),
        limits=(judging.max_excessive, judging.max_degree, judging.max_regression),
        baseline=judging.baseline,
        allow_recorded=judging.allow_recorded,
        only=judging.kernel_name,
        description=description,
        history=judging.history,
    )
    with output.progress() as progress:
        verdict = checking.check(query, replace(request, build=build), progress)
    reporting.show(verdict, outputs, Output())
    reporting.conclude(verdict, listed=True)


app = CommandGroup(help="Keep runs over commits, show them, and see where counts changed.")
FOLDER = Path("ncu-swizzle-history")
FolderOption = Annotated[Path, typer.Option(metavar="FOLDER", help="The history, also of a CI cache.")]


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
    formats: PageFormats,
    kernel: Annotated[str, typer.Argument(metavar="[KERNEL]", help="Only this kernel.")] = "",
    folder: FolderOption = FOLDER,
) -> None:
    """Show counts and times over commits, and the commit where something changed.

    \b
    ncu-swizzle history show
    ncu-swizzle history show tile-swizzled --html history.html

    Runs of unlike machines, engines or sizes are tables of their own.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import history, history_page, tracks

    shown = tracks.of_kernel(tracks.tracks(history.load(folder)), kernel)
    if not formats.write({"json": lambda: tracks.to_json(shown), "html": lambda: history_page.render(shown)}):
        tracks.show(shown, Output())
