"""``ncu-swizzle lint``: bank conflicts in sources, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.base.texts import beneath, on_terminal, option
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.keywords import Emulating
from ncu_swizzle.kernels.options import CatalogOptions, KernelOptions, NewBuild
from ncu_swizzle.reports.options import Outputs
from ncu_swizzle.sweep.options import FleetOptions

if TYPE_CHECKING:
    from ncu_swizzle.engines.settings import Progress, Request
    from ncu_swizzle.fix.sources import SourceFix
    from ncu_swizzle.gate.against import Base
    from ncu_swizzle.gate.linting import KernelLint, LintOptions
    from ncu_swizzle.gate.verdict import Verdict

LIMIT = "[KERNEL:][ACCESS=]NUMBER"
STDOUT = Path("-")


@dataclass(frozen=True, kw_only=True)
class LintExtras:
    """What a lint does besides listing: compare with a commit, write a page, rewrite sources."""

    against: str = option(
        "", "Fail only what got worse since the branch left it, such as origin/main.", "COMMIT", common=True
    )
    html: Path | None = option(None, "Write a page of the kernels, as emulated.", "FILE|-", common=True)
    fix: bool = option(False, "Rewrite the .cu files where that is proved, then lint.", flags=("--fix",), common=True)
    diff: bool = option(
        False, "Show what --fix writes; without --fix, SARIF has it as fixes.", flags=("--diff",), common=True
    )


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
    fleet: FleetOptions,
    extras: LintExtras,
    max_degree: Annotated[
        list[str], typer.Option(metavar=LIMIT, help="Actual over ideal wavefronts per line; default 1.")
    ] = [],  # noqa: B006 - typer takes a list as it is
) -> None:
    """List every line whose accesses conflict: exit code 0, 1, 2 or 5.

    \b
    ncu-swizzle lint kernels/attention
    ncu-swizzle lint src/*.cu --sarif lint.sarif      as ncu-swizzle.toml describes them
    ncu-swizzle lint src/*.cu --against origin/main   only what a branch makes worse fails
    ncu-swizzle lint app.launches                     what ncu-swizzle capture kept
    ncu-swizzle lint src/*.cu --workers 8             as many files at a time
    ncu-swizzle lint my.cu --fix                      as ncu-swizzle fix --apply
    ncu-swizzle lint my.cu --kernel fn --grid 128 --block 256 --arg x=float32[n]:random
    \f
    Kernels are compiled and emulated, one launch each, without a GPU. Accesses to global memory outside of the launch's
    buffers fail, too.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import linting, reporting
    from ncu_swizzle.gate.linting import LintOptions

    build.refuse_without_launches(files)
    query = LintOptions(
        files=tuple(files),
        max_degree=tuple(max_degree),
        description=own.described(request.problem, sources),
        build=build,
    )
    with output.progress() as progress:
        verdict, kernels = linted(query, request, extras, fleet, progress, show=_on_stderr)
    alone = extras.html == STDOUT  # the page: the list goes to stderr
    reporting.show(verdict, outputs, Output(beneath(sys.stderr)) if alone else Output())
    if not verdict.checks:
        linting.refuse_nothing(kernels, files)
    reporting.conclude(verdict, listed=True)


def _on_stderr(text: str) -> None:
    typer.echo(on_terminal(text), nl=False, err=True)


def linted(
    query: LintOptions,
    request: Request,
    extras: LintExtras,
    fleet: FleetOptions,
    progress: Progress,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Verdict, Sequence[KernelLint]]:
    """Return the verdict on the files as they are in the end, with what would correct them, and the kernels.

    `show` gets patches and the names of files that were rewritten.
    """
    from ncu_swizzle.engines.emulation import EmulationSettings
    from ncu_swizzle.gate import against, linting

    settings = EmulationSettings.of(request)
    kernels = list(linting.lint_kernels(query, settings, progress, fleet))
    fixes: Sequence[SourceFix] = ()
    if extras.fix or extras.diff:
        fixes = _fixes(query, request, linting.verdict_of(kernels), extras, progress, show=show)
    if extras.fix and fixes:
        kernels, fixes = list(linting.lint_kernels(query, settings, progress, fleet)), ()
    base = against.lint_base(extras.against, query, settings, progress) if extras.against else None
    verdict = against.verdict(kernels, base) if base else linting.verdict_of(kernels)
    if fixes:
        from ncu_swizzle.fix import shown

        verdict = shown.corrected(verdict, fixes)
    return _with_page(extras.html, kernels, base, verdict) if extras.html else verdict, kernels


def _fixes(
    query: LintOptions,
    request: Request,
    verdict: Verdict,
    extras: LintExtras,
    progress: Progress,
    show: Callable[[str], None],
) -> Sequence[SourceFix]:
    """Return what was proved, shown and written as asked."""
    from ncu_swizzle.fix import shown, sources
    from ncu_swizzle.gate.verdict import in_checkout

    fixes = sources.fixes(query, request, verdict, progress)
    if extras.diff:
        for fixed in fixes:
            show(shown.patch_of(fixed))
    if extras.fix:
        changed = [file for fixed in fixes for file in fixed.files]
        sources.written_together(changed, "run the command again")
        for file in changed:
            show(f"fixed {in_checkout(str(file.path), Path.cwd())}\n")
    return fixes


def _with_page(path: Path, kernels: Sequence[KernelLint], base: Base | None, verdict: Verdict) -> Verdict:
    """Write the page: each kernel as emulated, next to itself in another commit. Return the verdict.

    If no kernel was emulated, none is written, and the verdict notes that.
    """
    from ncu_swizzle.base.files import write_atomically
    from ncu_swizzle.gate import against
    from ncu_swizzle.render import page
    from ncu_swizzle.reports import comparison

    comparisons = []
    for now, before in against.paired(kernels, base) if base else ((kernel, None) for kernel in kernels):
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
