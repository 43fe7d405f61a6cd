"""``ncu-swizzle lint``: bank conflicts in sources, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.build.build_option import NewBuild
from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import NotComparable
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.gate.outputs import Outputs
from ncu_swizzle.texts import on_terminal

if TYPE_CHECKING:
    from ncu_swizzle.engines.context import Progress
    from ncu_swizzle.fix.sources import SourceFix
    from ncu_swizzle.gate.lint_inputs import LintOptions
    from ncu_swizzle.gate.verdict import Verdict

LIMIT = "[KERNEL:][ACCESS=]NUMBER"


@grouped
def lint(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…", help="A .cu, .py, cubin, PTX or .launches file, a family's folder, or a kernel."
        ),
    ],
    outputs: Outputs,
    request: Annotated[Request, Only("problem", "nvcc", "exhaustive", "timeout_s", "no_cache")],
    own: KernelOptions,
    sources: CatalogOptions,
    build: NewBuild,
    fleet: FleetOptions,
    against: Annotated[
        str,
        typer.Option(metavar="COMMIT", help="Fail only what got worse since the branch left it, such as origin/main."),
    ] = "",
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page of the kernels, as emulated.")] = None,
    max_degree: Annotated[
        list[str], typer.Option(metavar=LIMIT, help="Actual over ideal wavefronts per line; default 1.")
    ] = [],  # noqa: B006 - typer takes a list as it is
    fix: Annotated[bool, typer.Option("--fix", help="Rewrite the .cu files where that is proved, then lint.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would write; SARIF has it as fixes.")] = False,
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

    Kernels are compiled and emulated, one launch each, without a GPU. Accesses to global memory outside of the launch's
    buffers fail, too.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.engines.emulation import EmulationSettings
    from ncu_swizzle.fix import linted
    from ncu_swizzle.gate import against as comparing
    from ncu_swizzle.gate import base as bases
    from ncu_swizzle.gate import lint_page, linting, reporting
    from ncu_swizzle.gate.lint_inputs import LintOptions, describing

    build.refuse_without_launches(files)
    description = own.described(request.problem)
    query = LintOptions(
        tuple(files), tuple(max_degree), description, sources.catalog, sources.config, sources.trust, build
    )
    settings = EmulationSettings.of(request)
    with output.progress() as progress:
        kernels = list(linting.lint_kernels(query, settings, progress, fleet))
        made = _fixes(query, request, linting.verdict_of(kernels), progress, apply=fix) if fix or diff else []
        if fix and made:
            kernels = list(linting.lint_kernels(query, settings, progress, fleet))
        base = bases.lint_base(against, query, settings, progress) if against else None
    verdict = comparing.verdict(kernels, base) if base else linting.verdict_of(kernels)
    if diff and made:
        verdict = linted.corrected(verdict, made)
    if html:
        verdict = lint_page.write(html, kernels, base, verdict)
    reporting.show(verdict, outputs, Output())
    if not verdict.checks:
        raise NotComparable("nothing was linted: no launch is described", describing(*files))
    reporting.conclude(verdict, listed=True)


def _fixes(query: LintOptions, request: Request, verdict: Verdict, progress: Progress, apply: bool) -> list[SourceFix]:
    """Return what was proved, and print it, or write it."""
    from ncu_swizzle.fix import linted, shown

    made = linted.fixes(query, request, verdict, progress)
    if apply:
        for source in linted.apply(made):
            typer.echo(on_terminal(f"fixed {source}"), err=True)
    else:
        for fixed in made:
            typer.echo(on_terminal(shown.patch_of(fixed)), nl=False, err=True)
    return made
