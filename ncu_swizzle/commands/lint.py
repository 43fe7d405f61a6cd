"""``ncu-swizzle lint``: bank conflicts in sources, without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.build.build_option import NewBuild
from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import NotComparable
from ncu_swizzle.gate.outputs import Outputs
from ncu_swizzle.texts import on_terminal

if TYPE_CHECKING:
    from ncu_swizzle.engines.context import Progress
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
    ncu-swizzle lint app.launches                     what ncu-swizzle capture kept
    ncu-swizzle lint my.cu --fix                      as ncu-swizzle fix --apply
    ncu-swizzle lint my.cu --kernel fn --grid 128 --block 256 --arg x=float32[n]:random

    Kernels are compiled and emulated, one launch each, without a GPU. Accesses to global memory outside of the launch's
    buffers fail, too.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.engines.emulation import EmulationSettings
    from ncu_swizzle.gate import linting, reporting
    from ncu_swizzle.gate.lint_inputs import LintOptions, describing

    build.refuse_without_launches(files)
    description = own.described(request.problem)
    query = LintOptions(
        tuple(files), tuple(max_degree), description, sources.catalog, sources.config, sources.trust, build
    )
    settings = EmulationSettings.of(request)
    with output.progress() as progress:
        verdict = linting.lint(query, settings, progress)
        if fix or diff:
            verdict = _fixed(query, request, verdict, progress, apply=fix)
    reporting.show(verdict, outputs, Output())
    if not verdict.checks:
        raise NotComparable("nothing was linted: no launch is described", describing(*files))
    reporting.conclude(verdict, listed=True)


def _fixed(query: LintOptions, request: Request, verdict: Verdict, progress: Progress, apply: bool) -> Verdict:
    """Print what would be changed, or change it and lint again."""
    from ncu_swizzle.engines.emulation import EmulationSettings
    from ncu_swizzle.fix import linted, shown
    from ncu_swizzle.gate import linting

    made = linted.fixes(query, request, verdict, progress)
    if not apply:
        for fixed in made:
            typer.echo(on_terminal(shown.patch_of(fixed)), nl=False, err=True)
        return linted.corrected(verdict, made)
    for source in linted.apply(made):
        typer.echo(on_terminal(f"fixed {source}"), err=True)
    return linting.lint(query, EmulationSettings.of(request), progress)
