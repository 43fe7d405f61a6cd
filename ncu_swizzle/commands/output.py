"""How the commands print: figures on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ncu_swizzle.files import write_atomically

if TYPE_CHECKING:
    from ncu_swizzle import experiment


class Output(Console):
    """A console that lets the command line handle a reader that has gone (head, less): that is no failure."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress() -> Iterator[experiment.Progress]:
    """Yield a function that moves a bar per kernel through ncu's replay passes, on stderr if it is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def move(kernel: str, percent: float) -> None:
            if kernel not in tasks:
                tasks[kernel] = bars.add_task(kernel, total=100)
            bars.update(tasks[kernel], completed=percent)

        yield move


def show(result: experiment.Result, json: str | None) -> None:
    """Print the result as tables, or as JSON alone where that is asked for (``-``); a file gets JSON too."""
    from ncu_swizzle import export, terminal

    if json == "-":
        sys.stdout.write(export.to_json(result))
        return
    terminal.show(result, Output())
    if json:
        write_atomically(Path(json), export.to_json(result).encode())
