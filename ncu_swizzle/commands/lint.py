"""``ncu-swizzle lint``: bank conflicts of sources, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options
from ncu_swizzle.commands import own

LIMIT = "[KERNEL:][ACCESS=]NUMBER"


def lint(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="A .cu, cubin or PTX file, the folder of a family.toml, or a kernel."),
    ],
    max_degree: Annotated[
        list[str], typer.Option(metavar=LIMIT, help="Actual over ideal wavefronts of a line; default 1.")
    ] = [],  # noqa: B006 - typer takes a list as it is
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    github: Annotated[bool, typer.Option("--github", help="Annotate, and add to the step's summary.")] = False,
    json: options.JsonOption = None,
    problem: options.ProblemOption = [],  # noqa: B006
    nvcc: options.NvccOption = None,
    exhaustive: options.ExhaustiveOption = False,
    timeout: options.TimeoutOption = 600,
    entry: own.EntryOption = "",
    grid: own.GridOption = "",
    block: own.BlockOption = "",
    shared: own.SharedOption = "",
    arg: own.ArgOption = [],  # noqa: B006
    define: own.DefineOption = [],  # noqa: B006
    include: own.IncludeOption = [],  # noqa: B006
    std: own.StandardOption = "",
    nvcc_option: own.NvccOption = [],  # noqa: B006
    config: own.ConfigOption = "",
    catalog: own.CatalogOption = [],  # noqa: B006
) -> None:
    """Name every line whose accesses conflict: exit code 0, 1 or 5.

    \b
    ncu-swizzle lint kernels/attention
    ncu-swizzle lint src/*.cu --sarif lint.sarif      as ncu-swizzle.toml describes them
    ncu-swizzle lint my.cu --kernel fn --grid 128 --block 256 --arg x=float32[n]:random

    Kernels are compiled and emulated, one launch each; no GPU is needed.
    """
    from ncu_swizzle.build.toolchain import Toolchain
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands import output
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.engines.emulation import Settings
    from ncu_swizzle.gate import reporting
    from ncu_swizzle.gate import linting
    from ncu_swizzle.gate.lint_inputs import LintOptions

    described = user_kernels.asked(
        options.sizes(problem), entry, grid, block, shared, arg, define, include, std, nvcc_option
    )
    asked = LintOptions(tuple(files), tuple(max_degree), described, tuple(catalog), config)
    with output.progress() as progress:
        verdict = linting.lint(asked, Settings(Toolchain(nvcc, timeout), exhaustive), progress)
    reporting.show(verdict, reporting.Outputs(junit, sarif, json, github), Output())
    reporting.conclude(verdict)
