"""``ncu-swizzle lint`` and ``check``: judge sources or profiles, and save what they are judged by."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import beneath, on_terminal
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Emulating, Only, grouped, with_options
from ncu_swizzle.commands.helping import refuse_typed
from ncu_swizzle.engines.settings import FleetOptions, Options, Request
from ncu_swizzle.kernels.options import (
    LAUNCHES,
    CatalogOptions,
    KernelDescription,
    KernelOptions,
    NewBuild,
    PairOptions,
)
from ncu_swizzle.reports.options import Judging, LintOptions, Outputs

if TYPE_CHECKING:
    from ncu_swizzle.engines.settings import Progress
    from ncu_swizzle.fix.sources import SourceFix
    from ncu_swizzle.gate.against import Base
    from ncu_swizzle.gate.linting import KernelLint
    from ncu_swizzle.gate.verdict import Verdict


# ``ncu-swizzle lint``: bank conflicts in sources, without a GPU.

STDOUT = Path("-")


@grouped
def lint(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…", help="A .cu, .py, cubin, PTX or .launches file, a family's folder, or a kernel."
        ),
    ],
    outputs: Outputs,
    request: Emulating,
    own: KernelOptions,
    sources: CatalogOptions,
    build: NewBuild,
    fleet: Annotated[FleetOptions, Only("scheduler", "scheduler_file")],
    options: LintOptions,
) -> None:
    """List every line whose accesses conflict: exit code 0, 1, 2 or 5.

    \b
    ncu-swizzle lint kernels/attention
    ncu-swizzle lint src/*.cu --sarif lint.sarif     described by ncu-swizzle.toml
    ncu-swizzle lint src/*.cu --against origin/main  fail what a branch made worse
    ncu-swizzle lint app.launches                    what capture kept
    ncu-swizzle lint my.cu --fix                     as ncu-swizzle fix --apply
    ncu-swizzle lint my.cu --grid 128 --block 256 --arg x=float32[4096]:random
    \f
    Kernels are compiled and emulated, one launch each, without a GPU. Accesses to global memory outside of the launch's
    buffers fail, too, and so do races and deadlocks in shared memory.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import linting, reporting
    from ncu_swizzle.kernels.kernels_only import BUILD

    description, request = own.description(request.problem, sources), replace(request, build=build)
    with contextlib.ExitStack() as open_, output.progress() as progress:
        if options.run:
            files, description = open_.enter_context(_launched(files, description, request)), KernelDescription()
        verdict, kernels = linted(files, description, request, options, fleet=fleet, progress=progress, show=_on_stderr)
    if options.run:  # its launches are gone
        lasting = (replace(check, hint=BUILD if files[0] in check.hint else check.hint) for check in verdict.checks)
        verdict = replace(verdict, checks=tuple(lasting))
    alone = options.html == STDOUT  # the page: the list goes to stderr
    reporting.show(verdict, outputs, Output(beneath(sys.stderr)) if alone else Output())
    linting.refuse_nothing(kernels, files)
    reporting.conclude(verdict, listed=True)


@contextlib.contextmanager
def _launched(files: Sequence[str], description: KernelDescription, request: Request) -> Iterator[list[str]]:
    """Build the program that a source is, and run it against a stand-in for CUDA's runtime; yield what it launched.

    Raises UsageError, and what capturing raises.
    """
    from ncu_swizzle.base.unfinished import scratch
    from ncu_swizzle.commands.profile import Wanted, captured
    from ncu_swizzle.commands.run_program import UserProgram
    from ncu_swizzle.kernels import kernels_only
    from ncu_swizzle.kernels.check import family_without_launch
    from ncu_swizzle.kernels.family import SOURCE
    from ncu_swizzle.kernels.project import KernelSpec
    from ncu_swizzle.kernels.toolchain import ARCH, Toolchain

    source = Path(files[0])
    if len(files) != 1 or source.suffix != SOURCE:
        raise UsageError("--run takes one .cu file with main", f"ncu-swizzle lint {source.stem}.cu --run")
    with scratch() as folder:
        program, out = folder / source.stem, folder / f"{source.stem}{LAUNCHES}"
        spec = KernelSpec(name=source.stem, source=source, launch=description.launch, options=description.options)
        family = family_without_launch(spec)
        tools = Toolchain(request.nvcc, request.timeout_s)
        kernels_only.linked(family, family.kernels[0], description.launch.arch or ARCH, tools, program)
        wanted = Wanted(kernel_name=description.launch.entry, dry=True)
        captured(UserProgram((str(program),), Path.cwd()), wanted, request, out)
        yield [str(out)]


def _on_stderr(text: str) -> None:
    typer.echo(on_terminal(text), nl=False, err=True)


def linted(
    files: Sequence[str],
    description: KernelDescription,
    request: Request,
    options: LintOptions,
    *,
    fleet: FleetOptions,
    progress: Progress,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Verdict, Sequence[KernelLint]]:
    """Return the verdict on the files as they are in the end, with what would correct them, and the kernels.

    `show` gets patches and the names of files that were rewritten.
    """
    from ncu_swizzle.gate import linting

    if options.against:
        request = request.comparing

    def run() -> list[KernelLint]:
        return list(linting.lint_kernels(files, description, request, options, progress, fleet=fleet))

    kernels = run()
    fixes: Sequence[SourceFix] = ()
    if options.fix or options.diff:
        from ncu_swizzle.fix import sources

        fixes = sources.fixes(files, description, request, linting.verdict_of(kernels), progress)
        _write(fixes, options, show)
    if options.fix and fixes:
        kernels, fixes = run(), ()
    base, verdict = None, linting.verdict_of(kernels)
    if options.against:
        from ncu_swizzle.gate import against

        base = against.lint_base(files, description, request, options, progress)
        verdict = against.verdict(kernels, base)
    if fixes:
        from ncu_swizzle.fix import shown

        verdict = shown.corrected(verdict, fixes)
    return _with_page(options.html, kernels, base, verdict) if options.html else verdict, kernels


def _write(fixes: Sequence[SourceFix], options: LintOptions, show: Callable[[str], None]) -> None:
    """Show and write the proved changes, as requested."""
    from ncu_swizzle.fix import shown, sources
    from ncu_swizzle.gate.verdict import in_checkout

    if options.diff:
        for fixed in fixes:
            show(shown.patch_of(fixed))
    if options.fix:
        changed = [file for fixed in fixes for file in fixed.files]
        sources.written_together(changed, "run the command again")
        for file in changed:
            show(f"fixed {in_checkout(str(file.path), Path.cwd())}\n")


def _with_page(path: Path, kernels: Sequence[KernelLint], base: Base | None, verdict: Verdict) -> Verdict:
    """Write the page: each kernel as emulated, next to itself in another commit. Return the verdict.

    If no kernel was emulated, none is written, and the verdict notes that.
    """
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.gate import against
    from ncu_swizzle.render import page
    from ncu_swizzle.reports import comparison

    comparisons = []
    for now, before in against.with_earlier_kernels(kernels, base) if base else ((kernel, None) for kernel in kernels):
        if now.profile is None:
            continue
        shown = [now.profile]
        if before and base and before.profile:  # named after the commit
            name = f"{before.name} ({base.name})"
            shown.insert(0, replace(before.profile, kernel=replace(before.profile.kernel, name=name)))
        comparisons.append(comparison.compare(shown))
    if not comparisons:
        return replace(verdict, notes=(*verdict.notes, f"{path} was not written: no kernel was emulated."))
    title = f"{len(comparisons)} kernels, {verdict.summary}"
    text = page.render_all(comparisons, verdict.notes, title)
    if path == STDOUT:
        sys.stdout.write(text)
    else:
        write_atomically(path, text.encode())
    return verdict


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
    ncu-swizzle check swizzle-out/kernel2         no excessive wavefronts
    ncu-swizzle check mine.ncu-rep --max-degree LDSM=1 --max-excessive STS=4096
    ncu-swizzle check mine.json --save-baseline   to compare later ones with
    ncu-swizzle check mine.json --max-regression 5
    ncu-swizzle check app.launches --cubin app.cubin
    \f
    \b
    ncu-swizzle check my.cu --grid 128 --block 256 --arg x=float32[4096]:random     as for ncu-swizzle profile

    KERNEL is a regular expression for the whole name; ACCESS is LDS, LDSM, STS …, or * for each.
    Without ACCESS a limit applies to all accesses together. docs/ci.md describes the settings.

    --save-baseline takes several profiles of one kernel, which show how much its time varies.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import checking, linting, reporting
    from ncu_swizzle.kernels import naming

    if not profiles:
        raise UsageError("nothing to check: name a profile", "ncu-swizzle check swizzle-out/kernel2")
    build.refuse_without_launches(profiles)
    description, request = own.description(request.problem, sources), with_options(request, options)
    if judging.save_baseline:
        saving = ("profiles", "baseline", "save_baseline")
        refuse_typed(context, saving, "--save-baseline", Request, Options, PairOptions, CatalogOptions)
        with output.progress() as progress:
            entries = checking.entries_of(naming.resolve(profiles, description, saved=True), description)
            gathered = checking.gathering(entries, progress)(request, checking.gate_engine(request))
        file = Path(judging.baseline) if judging.baseline else paths.BASELINE
        reporting.show_saved(checking.save(gathered, file), Output())
        return
    with output.progress() as progress:
        rules = checking.policy(judging, sources, Path.cwd())
        named = naming.resolve(profiles, description, saved=True, unlaunched=not description.pair)
        files = [file for word in named for file in word.unlaunched]
        kernels = linting.lint_every_launch(files, description, request, rules, progress)
        verdict = None
        if entries := checking.entries_of(named, description):
            gather = checking.gathering(entries, progress)
            verdict = checking.judge_profiles(gather, rules, replace(request, build=build))
        verdict = checking.with_degrees(verdict, kernels) if kernels or verdict is None else verdict
    reporting.show(verdict, outputs, Output())
    reporting.conclude(verdict, listed=True, judged=profiles)
