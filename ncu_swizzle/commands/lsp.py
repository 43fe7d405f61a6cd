"""``ncu-swizzle lsp``: conflicts beside the source, in an editor."""

from __future__ import annotations

from typing import Annotated

import typer

from ncu_swizzle.commands import endings
from ncu_swizzle.errors import EnvironmentLacking


def lsp(
    allow_run: Annotated[
        bool, typer.Option("--allow-run", help="Import the workspace's Python files to compile their kernels.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Time limit for each program run.")] = 600,
) -> None:
    """Serve an editor: the Language Server Protocol on stdin and stdout.

    \b
    ncu-swizzle lsp                 .cu and .cuh files of the workspace, without a GPU
    ncu-swizzle lsp --allow-run     kernels written in Python, too

    Editors start it; docs/editor.md has configurations for VS Code, Neovim, Helix and Emacs. Shown are the conflicts of
    kernels whose launches are declared in ncu-swizzle.toml or a family.toml, or captured in a .launches file beside.
    """
    try:
        from ncu_swizzle.editor.server import server
    except ImportError as error:
        raise EnvironmentLacking(f"the pygls package is missing: {error}", "pip install 'ncu-swizzle[lsp]'") from error
    server(endings.version(), allow_run, timeout).start_io()
