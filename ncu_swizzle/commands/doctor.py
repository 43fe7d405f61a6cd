"""``ncu-swizzle doctor``: check whether this machine can measure, and say what to type if it cannot."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request

TOOL_S = 60.0  # for each of CUDA's tools


@grouped
def doctor(
    request: Annotated[Request, Only("ncu", "nvcc")],
    trial: Annotated[bool, typer.Option(help="Profile a small kernel if all checks pass.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Check whether this machine can measure, and whether it can compute.

    For measuring: the driver, the GPU, ncu, permissions, compilers, packages and the folders that ncu writes to, and a
    one-pass profile. For computing wavefronts without a GPU: nvcc, nvdisasm and a host compiler. Each answer says what
    to type.

    \b
    Exit codes:
      0  it can measure
      3  it cannot, whether or not it can compute; --json says both
    """
    from ncu_swizzle.build.toolchain import Toolchain
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.doctor import examination, page
    from ncu_swizzle.ncu.system import System

    diagnosis = examination.examine(
        System(), request.ncu, examination.profile_once if trial else None, Toolchain(request.nvcc, TOOL_S)
    )
    if json:
        sys.stdout.write(diagnosis.to_json())
    else:
        page.show(diagnosis, Output())
    if not diagnosis.able:
        raise typer.Exit(3)
