"""How commands print: results to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import beneath, one_line
from ncu_swizzle.engines import settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ncu_swizzle.commands.run_several import KernelOutcome
    from ncu_swizzle.engines.settings import Done
    from ncu_swizzle.reports import pack
    from ncu_swizzle.reports.comparison import JobResult
    from ncu_swizzle.reports.options import Formats, Makers
    from ncu_swizzle.sweep.folder import Sweep


class _Bars:
    """A bar per kernel, drawn on the first update, so that rich loads while ncu starts."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._tasks: dict[str, TaskID] = {}
        self._bars: Progress | None = None

    def __enter__(self) -> _Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def move(self, kernel: str, done: Done) -> None:
        bars = self._bars = self._bars or self._stack.enter_context(self._drawn())
        if done.aside:
            bars.console.print(one_line(done.aside), markup=False, soft_wrap=True)
        if kernel not in self._tasks:
            self._tasks[kernel] = bars.add_task(one_line(kernel), total=100, words="")
        bars.update(self._tasks[kernel], completed=100 * done.fraction, words=done.words)

    def _drawn(self) -> Progress:
        from rich.progress import BarColumn, Progress, TextColumn

        from ncu_swizzle.commands.console import Output

        name = TextColumn("{task.description}", markup=False)
        words = TextColumn("{task.fields[words]}", markup=False)
        columns = (name, BarColumn(), TextColumn("{task.percentage:>3.0f} %"), words)
        return Progress(*columns, console=Output(beneath(sys.stderr)), transient=True)


@contextmanager
def progress() -> Iterator[settings.Progress]:
    """Yield a callback that shows a progress bar per kernel on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield settings.silent
        return
    with _Bars() as bars:
        yield bars.move


def show_sweep(sweep: Sweep, formats: Formats) -> None:
    """Print a sweep's table, or the format requested on stdout; write the others."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.sweep import table
    from ncu_swizzle.sweep.table import show as show_terminal

    makers: Makers = {
        "json": lambda: table.to_json(sweep),
        "markdown": lambda: table.to_markdown(sweep),
        "csv": lambda: table.to_csv(sweep),
    }
    if not formats.write(makers):
        show_terminal(sweep, Output())


def show_plan(sweep: Sweep, formats: Formats, known: bool) -> None:
    """Print what a sweep would do, or the JSON requested on stdout; `known` tells whether it knows what is reused."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.sweep import table
    from ncu_swizzle.sweep.table import show_plan as show_plan_terminal

    if formats.csv or formats.markdown:
        raise UsageError("--dry-run has no results to tabulate", "--json - prints the plan as JSON")
    if not formats.write({"json": lambda: table.plan_json(sweep, known)}):
        show_plan_terminal(sweep, Output(), known)


def show(result: JobResult, formats: Formats, written: Sequence[Path] = ()) -> None:
    """Print the result as tables, or in the format requested on stdout; write the others.

    `written` are the files written before.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import terminal
    from ncu_swizzle.render.formats import render_all, to_csv, to_json
    from ncu_swizzle.render.listing import table_line

    makers: Makers = {
        "json": lambda: to_json(result),
        "markdown": lambda: render_all(result.comparisons, result.notes, result.title),
        "csv": lambda: to_csv(*result.comparisons),
    }
    if formats.write(makers):
        return
    console = Output()
    terminal.show(result, console)
    for file in written:
        console.print()
        console.print(table_line(f"Written to {file}"), soft_wrap=True)


def show_several(outcomes: Sequence[KernelOutcome], notes: Sequence[str]) -> None:
    """Print the result of each of several kernels, and which failed."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import terminal
    from ncu_swizzle.render.listing import table_line

    console = Output()
    for note in notes:
        console.print(table_line(note, style="dim"))
    for outcome in outcomes:
        if outcome.result:
            terminal.show(outcome.result, console)
        else:
            console.print(table_line(f"failed: {outcome.name}: {outcome.error}", style="red"))
        console.print()


def show_findings(shown: Sequence[pack.LaunchFindings], formats: Formats) -> None:
    """Print the findings of rules, or the JSON requested on stdout; write it to its file."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import listing
    from ncu_swizzle.reports import pack

    if not formats.write({"json": lambda: pack.to_json(shown)}):
        listing.show_findings(shown, Output())
