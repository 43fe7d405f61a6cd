"""``ncu-swizzle serve``: the same for coding agents (MCP) and editors (LSP), on stdin and stdout; damaged messages."""

from __future__ import annotations

import io
import logging
import re
import sys
import traceback
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.base.files import brief
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.commands import output
from ncu_swizzle.commands.helping import CommandGroup

# An editor's messages before pygls reads them, limited in length; and pygls's log of damaged ones.

LONGEST_MESSAGE = 64 << 20  # bytes
LONGEST_HEADER = 1 << 16
_LENGTH = re.compile(rb"Content-Length: (\d{1,30})\r\n\Z")

log = logging.getLogger("pygls.ncu-swizzle")


class Messages(io.RawIOBase):
    """The messages on a stream, without implausibly long ones.

    The body of a message whose length is too large or not a number is skipped up to the next header.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def readline(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002 - as pygls calls it
        """Return the next header's line, without what is before it: a body that was skipped has no line's end."""
        line = self._stream.readline(LONGEST_HEADER)
        length = _LENGTH.search(line)
        if length is None:
            return line
        if int(length[1]) > LONGEST_MESSAGE:
            log.error("a message of %s bytes is ignored", int(length[1]))
            return b"\n"
        return length[0]

    def read(self, size: int | None = -1, /) -> bytes:
        """Return a body."""
        return self._stream.read(-1 if size is None else size)


class _OneLine(logging.Formatter):
    """One line per record, except for our own bugs, which keep their traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        ours = str(paths.package())
        if error and any(frame.filename.startswith(ours) for frame in traceback.extract_tb(error.__traceback__)):
            return super().format(record)
        said, *_, last = [*record.getMessage().strip().splitlines(), ""]
        why = brief(error) if error else last
        return one_line(f"note: {said}: {why}" if why else f"note: {said}")


def prepare_log() -> None:
    """Make pygls, which logs a traceback for each damaged message, log one line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    pygls = logging.getLogger("pygls")
    pygls.handlers[:], pygls.propagate = [handler], False


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
        from ncu_swizzle.servers.lsp import server
    except ImportError as error:
        raise EnvironmentLacking(f"the pygls package is missing: {error}", INSTALL) from error
    prepare_log()
    server(output.version(), allow_run, timeout).start_io(Messages(sys.stdin.buffer))


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
    from ncu_swizzle.servers.answer import Folders, Service

    for root in roots:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder", "--root names a folder that exists")
    try:
        from ncu_swizzle.servers.mcp import serve
    except ImportError as error:
        raise EnvironmentLacking(f"the mcp package is missing: {error}", INSTALL) from error
    folders = Folders(tuple(root.absolute() for root in roots), allow_run)
    serve(Service(folders, timeout), output.version())
