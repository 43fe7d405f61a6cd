"""``ncu-swizzle list``, ``rules`` and ``doctor``: what surrounds measuring; none runs ncu on a kernel."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import in_json, on_terminal
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.commands.helping import CommandGroup
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.reports.options import Formats

# ``ncu-swizzle rules``: the rule pack for Nsight Compute.

app = CommandGroup(help="The rule pack for Nsight Compute: its sections and rules.")


@app.command("path")
def path() -> None:
    """Print the pack's folder, for ncu --section-folder $(ncu-swizzle rules path)."""
    folder = paths.rules()
    typer.echo(on_terminal(str(folder)) if sys.stdout.isatty() else os.fsencode(folder))


@app.command("apply")
@grouped
def apply(
    entries: Annotated[list[str], typer.Argument(metavar="FILE...", help="Reports, saved profiles or runs.")],
    formats: Annotated[Formats, Only("json")],
) -> None:
    """Evaluate the pack on finished reports, without ncu or a GPU."""
    from ncu_swizzle.commands import output, run_kernel

    output.show_findings(run_kernel.apply(entries), formats)


# ``ncu-swizzle list``: what can be profiled.


@grouped
def list_(
    sources: CatalogOptions,
    formats: Annotated[Formats, Only("json", "markdown")],
) -> None:
    """Show what can be profiled, and what was recorded."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import listing

    kernels = naming.catalogue(sources)
    makers = {
        "json": lambda: in_json(listing.data(kernels), indent=1),
        "markdown": lambda: listing.markdown(kernels),
    }
    if not formats.write(makers):
        console = Output()
        for family in kernels.families:
            console.print(listing.table(family))


# ``ncu-swizzle doctor``: check whether this machine can measure, and say what to type if it cannot.

TOOL_S = 60.0  # for each of CUDA's tools


@grouped
def doctor(
    request: Annotated[Request, Only("ncu", "nvcc")],
    formats: Annotated[Formats, Only("json")],
    trial: Annotated[bool, typer.Option(help="Profile a small kernel if all checks pass.")] = True,
) -> None:
    """Check whether this machine can measure, and whether it can compute.

    For measuring: the driver, the GPU, ncu, permissions, compilers and packages, and a one-pass profile, whose error
    says what else is in the way. For computing wavefronts without a GPU: nvcc, nvdisasm and a host compiler. Each
    answer says what to type.

    \b
    Exit codes:
      0  it can measure
      3  it cannot, whether or not it can compute; --json says both
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.commands.doctor import examine, profile_once, show
    from ncu_swizzle.engines.machine import System
    from ncu_swizzle.kernels.toolchain import Toolchain

    diagnosis = examine(System(), request.ncu, profile_once if trial else None, Toolchain(request.nvcc, TOOL_S))
    if not formats.write({"json": diagnosis.to_json}):
        show(diagnosis, Output())
    if not diagnosis.able:
        raise typer.Exit(3)
