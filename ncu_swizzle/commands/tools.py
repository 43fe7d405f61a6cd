"""``ncu-swizzle run``, ``list``, ``rules`` and ``doctor``: what surrounds measuring; none runs ncu on a kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.base.texts import in_json, on_terminal, one_line
from ncu_swizzle.commands.groups import Formats, grouped
from ncu_swizzle.commands.keywords import Only
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions

# ``ncu-swizzle rules``: the rule pack for Nsight Compute.


app = typer.Typer(no_args_is_help=True, help="The rule pack for Nsight Compute: its sections and rules.")

DestOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Default: your Sections folder of each Nsight Compute installation."),
]


@app.command("path")
def path() -> None:
    """Print the pack's folder, for ncu --section-folder $(ncu-swizzle rules path)."""
    from ncu_swizzle.base import paths

    folder = paths.rules()
    typer.echo(on_terminal(str(folder)) if sys.stdout.isatty() else os.fsencode(folder))


@app.command("list")
def list_rules() -> None:
    """List the pack's sections and rules."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import listing
    from ncu_swizzle.reports import pack

    listing.show_pack(pack.sections(), pack.rules(), Output())


@app.command("check")
@grouped
def check(request: Annotated[Request, Only("ncu")]) -> None:
    """Check that ncu lists every section and rule of the pack."""
    from ncu_swizzle.base.errors import ProgramFailed
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.engines import machine
    from ncu_swizzle.render import listing
    from ncu_swizzle.reports import pack

    ncu_path = machine.find(request.ncu)
    listed = pack.check(ncu_path)
    listing.show_listed(ncu_path, listed, Output())
    if not all(entry.found for entry in listed):
        raise ProgramFailed(
            "ncu does not list the whole pack", "ncu-swizzle rules path prints its folder: check the files there"
        )


@app.command("install")
def install(dest: DestOption = None) -> None:
    """Copy the pack to the folder that ncu and ncu-ui search; never overwrite other files."""
    from ncu_swizzle.reports import pack

    for folder in pack.destinations(dest):
        files = pack.install(folder)
        typer.echo(one_line(f"{len(files)} files written to {folder}"))


@app.command("uninstall")
def uninstall(dest: DestOption = None) -> None:
    """Remove only what install wrote."""
    from ncu_swizzle.base.errors import BadFile
    from ncu_swizzle.reports import pack

    folders = [folder for folder in pack.destinations(dest) if dest or (folder / pack.MANIFEST).is_file()]
    if not folders:
        raise BadFile("the pack is not installed", "install it with ncu-swizzle rules install")
    for folder in folders:
        removed, kept = pack.uninstall(folder)
        typer.echo(one_line(f"{len(removed)} files removed from {folder}"))
        for name in kept:
            typer.echo(one_line(f"  kept because it was changed: {name}"))


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
    json: Annotated[bool, typer.Option("--json", help="Print the catalogue as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print it as in docs/catalog.md.")] = False,
) -> None:
    """Show what can be profiled, and what was recorded."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import listing

    kernels = naming.everything(sources)
    if json:
        sys.stdout.write(in_json(listing.data(kernels), indent=1))
    elif markdown:
        sys.stdout.write(listing.markdown(kernels))
    else:
        console = Output()
        for family in kernels.families:
            console.print(listing.table(family))


# ``ncu-swizzle doctor``: check whether this machine can measure, and say what to type if it cannot.


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
    from ncu_swizzle.commands import examination
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.commands.doctor import show
    from ncu_swizzle.engines.machine import System
    from ncu_swizzle.kernels.toolchain import Toolchain

    diagnosis = examination.examine(
        System(), request.ncu, examination.profile_once if trial else None, Toolchain(request.nvcc, TOOL_S)
    )
    if json:
        sys.stdout.write(diagnosis.to_json())
    else:
        show(diagnosis, Output())
    if not diagnosis.able:
        raise typer.Exit(3)


@grouped
def run(
    kernels: Annotated[
        list[str], typer.Argument(metavar="KERNEL…", help="Kernels of one family, timed in turn, or a .cu file.")
    ],
    request: Annotated[Request, Only("problem", "timeout_s", "no_cache")],
    own: PairOptions,
    sources: CatalogOptions,
    reference: Annotated[bool, typer.Option(help="Time the library's kernel too, if PyTorch is installed.")] = True,
    repeats: Annotated[int, typer.Option(min=1, help="Timed samples per kernel.")] = 15,
    seed: Annotated[int | None, typer.Option(help="Seed of the random inputs; default: a new one each time.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Build, check and time kernels without ncu.

    Outputs are checked against a float64 reference before timing; times are medians, measured with CUDA events.
    Describe a .cu file as for ncu-swizzle profile; all its variants are timed.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.commands.run_kernel import time_kernels
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import listing

    more = ["--repeats", str(repeats), *(["--seed", str(seed)] if seed is not None else [])]
    family, chosen = naming.resolve_together(kernels, own.described(request.problem, sources))
    timing = time_kernels(family, chosen or family.kernels, request, reference, more)
    if json:
        sys.stdout.write(in_json(timing.facts, allow_nan=True))
    else:
        listing.show_times(timing, Output())
