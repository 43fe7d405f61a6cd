"""The console that commands print on. Apart because rich takes its time to load, and what is measured comes first."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """A console that colours only what it is told to, and lets a reader that has gone (head, less) be no failure."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
