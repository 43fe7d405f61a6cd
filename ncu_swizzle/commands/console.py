"""The console that commands print to, in its own module because rich is slow to import."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """A console without automatic highlighting, which raises BrokenPipeError when the reader (head, less) exits."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
