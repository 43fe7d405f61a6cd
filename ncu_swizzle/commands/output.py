"""How the commands print: figures on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ncu_swizzle.errors import UsageError
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


@dataclass(frozen=True)
class Formats:
    """Where else a result goes: a file for each format, ``-`` for stdout and nothing else there."""

    json: str | None = None
    markdown: str | None = None
    csv: str | None = None

    def __post_init__(self) -> None:
        if [self.json, self.markdown, self.csv].count("-") > 1:
            raise UsageError("only one format can go to stdout", "name a file for the others")


def show(result: experiment.Result, formats: Formats, written: Sequence[Path] = ()) -> None:
    """Print the result as tables, or in the one format that was asked for on stdout; write the others.

    `written` are files that lie there already.
    """
    from ncu_swizzle import export, markdown, table, terminal

    makers: list[tuple[str | None, Callable[[], str]]] = [
        (formats.json, lambda: export.to_json(result)),
        (formats.markdown, lambda: markdown.render_all(result.comparisons, result.notes, result.title)),
        (formats.csv, lambda: table.to_csv(*result.comparisons)),
    ]
    for place, make in makers:
        if place and place != "-":
            write_atomically(Path(place), make().encode())
    for place, make in makers:
        if place == "-":
            sys.stdout.write(make())
            return
    console = Output()
    terminal.show(result, console)
    for file in written:
        console.print(f"\nWritten to {file}", highlight=False, markup=False, soft_wrap=True)
