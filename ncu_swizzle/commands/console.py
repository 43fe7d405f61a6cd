"""The console that commands print on. Apart because rich takes its time to load, and what is measured comes first."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """A console that lets the command line handle a reader that has gone (head, less): that is no failure."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
