"""``ncu-swizzle check``: the gate that stops a conflict from coming back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
        list[str], typer.Argument(metavar="PROFILE…", help="Kernels, .ncu-rep files, saved profiles or runs.")
    ],
    outputs: Outputs,
    request: Request,
    options: Options,
    max_excessive: Annotated[list[str], typer.Option(metavar=LIMIT, help="Wavefronts beyond the ideal number.")] = [],  # noqa: B006 - typer takes a list as it is
    max_degree: Annotated[list[str], typer.Option(metavar=LIMIT, help="Actual over ideal wavefronts.")] = [],  # noqa: B006
    max_regression: Annotated[
        list[str], typer.Option(metavar="[KERNEL:]PERCENT", help="Longer than the baseline, beyond noise.")
    ] = [],  # noqa: B006
    baseline: Annotated[
        str, typer.Option(metavar="FILE|none", help="Default: ncu-swizzle-baseline.json, if it is there.")
    ] = "",
    kernel_name: Annotated[
        str, typer.Option("--kernel-name", "-k", metavar="REGEX", help="Judge only kernels of such a name.")
    ] = "",
    config: Annotated[
        str, typer.Option(metavar="FILE|none", help="Default: the nearest ncu-swizzle.toml or pyproject.toml.")
    ] = "",
    allow_recorded: Annotated[
        bool | None, typer.Option("--allow-recorded/--no-allow-recorded", help="Judge recorded figures too.")
    ] = None,
    catalog: Annotated[
        list[Path], typer.Option("--catalog", metavar="FOLDER", help="Families of your own; repeat it.")
    ] = [],  # noqa: B006
) -> None:
    """Hold profiles against limits: exit code 0, 1 or 5.

    \b
    ncu-swizzle check swizzle-out/kernel2                 no excessive wavefronts
    ncu-swizzle check mine.ncu-rep --max-degree LDSM=1 --max-excessive STS=4096
    ncu-swizzle check mine.json --baseline ncu-swizzle-baseline.json --max-regression 5

    KERNEL is a regular expression of the whole name, ACCESS one of LDS, LDSM, STS … or * for each.
    Without it a limit is about all accesses together. The settings are in docs/ci.md.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.gate import checking

    limits = (tuple(max_excessive), tuple(max_degree), tuple(max_regression))
    query = checking.Asked(tuple(profiles), limits, baseline, config, allow_recorded, kernel_name, tuple(catalog))
    with output.progress() as progress:
        verdict = checking.check(query, with_options(request, options), progress)
    checking.show(verdict, outputs, Output())
    checking.conclude(verdict)
