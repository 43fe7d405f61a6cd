"""``ncu-swizzle rules``: the rule pack for Nsight Compute."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands.formats import Formats
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.texts import on_terminal, one_line

app = typer.Typer(no_args_is_help=True, help="The rule pack for Nsight Compute: its sections and rules.")

DestOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Default: your Sections folder of each Nsight Compute installation."),
]


@app.command("path")
def path() -> None:
    """Print the pack's folder, for ncu --section-folder $(ncu-swizzle rules path)."""
    from ncu_swizzle import paths

    folder = paths.rules()
    typer.echo(on_terminal(str(folder)) if sys.stdout.isatty() else os.fsencode(folder))


@app.command("list")
def list_() -> None:
    """List the pack's sections and rules."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.pack import installation
    from ncu_swizzle.render import terminal_rules

    terminal_rules.show_pack(installation.sections(), installation.rules(), Output())


@app.command("check")
@grouped
def check(request: Annotated[Request, Only("ncu")]) -> None:
    """Check that ncu lists every section and rule of the pack."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.errors import ProgramFailed
    from ncu_swizzle.ncu import installed
    from ncu_swizzle.pack import installation
    from ncu_swizzle.render import terminal_rules

    ncu_path = installed.find(request.ncu)
    listed = installation.check(ncu_path)
    terminal_rules.show_listed(ncu_path, listed, Output())
    if not all(entry.found for entry in listed):
        raise ProgramFailed(
            "ncu does not list the whole pack", "ncu-swizzle rules path prints its folder: check the files there"
        )


@app.command("install")
def install(dest: DestOption = None) -> None:
    """Copy the pack to the folder that ncu and ncu-ui search; never overwrite other files."""
    from ncu_swizzle.pack import installation

    for folder in installation.destinations(dest):
        files = installation.install(folder)
        typer.echo(one_line(f"{len(files)} files written to {folder}"))


@app.command("uninstall")
def uninstall(dest: DestOption = None) -> None:
    """Remove only what install wrote."""
    from ncu_swizzle.errors import BadFile
    from ncu_swizzle.pack import installation

    folders = [
        folder for folder in installation.destinations(dest) if dest or (folder / installation.MANIFEST).is_file()
    ]
    if not folders:
        raise BadFile("the pack is not installed", "install it with ncu-swizzle rules install")
    for folder in folders:
        removed, kept = installation.uninstall(folder)
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
    from ncu_swizzle.commands import output
    from ncu_swizzle.jobs import apply_rules

    output.show_findings(apply_rules.apply(entries), formats)
