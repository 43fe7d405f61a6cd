"""``ncu-swizzle check``: the gate that keeps conflicts from coming back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.build.build_option import NewBuild
from ncu_swizzle.catalog.kernel_options import CatalogOptions, PairOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.options import with_options
from ncu_swizzle.engines.context import Request
from ncu_swizzle.gate.outputs import Outputs
from ncu_swizzle.ncu.options import Options

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
        tuple(profiles), limits, baseline, sources.config, allow_recorded, kernel_name, sources.catalog, sources.trust,
        own.described(request.problem), history,
    )  # fmt: skip
    with output.progress() as progress:
        verdict = checking.check(query, replace(with_options(request, options), build=build), progress)
    reporting.show(verdict, outputs, Output())
    reporting.conclude(verdict, listed=True)
