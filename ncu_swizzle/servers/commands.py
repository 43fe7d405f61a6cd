"""``ncu-swizzle serve``: the same for coding agents (MCP) and editors (LSP), on stdin and stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.commands import output
from ncu_swizzle.commands.helping import CommandGroup

INSTALL = "pip install 'ncu-swizzle[servers]'"

app = CommandGroup(help="Serve coding agents or editors.")


@app.command()
def lsp(
    allow_run: Annotated[
        bool, typer.Option("--allow-run", help="Import the workspace's Python files to compile their kernels.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Time limit for each call.")] = 600,
) -> None:
    """Serve an editor: the Language Server Protocol on stdin and stdout.

    \b
    ncu-swizzle serve lsp                .cu and .cuh files of the workspace
    ncu-swizzle serve lsp --allow-run    kernels written in Python, too

    Editors start it; docs/editor.md has configurations for VS Code, Neovim, Helix and Emacs. Shown are the conflicts of
    kernels whose launches are declared in ncu-swizzle.toml, or captured in a .launches file beside.
    """
    try:
        from ncu_swizzle.servers import wire
        from ncu_swizzle.servers.lsp import server
    except ImportError as error:
        raise EnvironmentLacking(f"the pygls package is missing: {error}", INSTALL) from error
    wire.prepare_log()
    server(output.version(), allow_run, timeout).start_io(wire.Messages(sys.stdin.buffer))


@app.command()
def mcp(
    roots: Annotated[
        list[Path], typer.Option("--root", metavar="FOLDER", help="Read and write below this folder; repeatable.")
    ] = [Path()],  # noqa: B006 - typer takes a list as it is
    allow_run: Annotated[
        bool, typer.Option("--allow-run", help="Let clients launch kernels on the GPU and import Python files.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Time limit for each call.")] = 600,
) -> None:
    """Serve the tools to a coding agent: MCP on stdin and stdout.

    \b
    ncu-swizzle serve mcp                        files below the current folder
    ncu-swizzle serve mcp --root kernels --allow-run    measure on the GPU, too
    claude mcp add ncu-swizzle -- ncu-swizzle serve mcp

    Tools: list_kernels, lint, explain, suggest, fix, profile, compare, check, read_report. docs/agents.md describes
    them, and what a client may do.
    """
    from ncu_swizzle.servers.answer import Service
    from ncu_swizzle.servers.folders import Folders

    for root in roots:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder", "--root names a folder that exists")
    try:
        from ncu_swizzle.servers.mcp import serve
    except ImportError as error:
        raise EnvironmentLacking(f"the mcp package is missing: {error}", INSTALL) from error
    folders = Folders(tuple(root.absolute() for root in roots), allow_run)
    serve(Service(folders, timeout), output.version())
