"""How commands print, and how one ends that fails: results go to stdout, everything else to stderr.

A failure is one message, what to type next, and the exit code. Any unforeseen error is a bug: its traceback goes to
a file, and the exit code is that of `InternalError`. Imports only what is quick.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.base.bounds import lacking
from ncu_swizzle.base.errors import (
    InternalError,
    Interrupted,
    NcuSwizzleError,
    error_of_system,
    interruption,
    reason,
)
from ncu_swizzle.base.files import brief, finished
from ncu_swizzle.base.texts import beneath, message, one_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ncu_swizzle.commands.run_kernel import Outcomes
    from ncu_swizzle.engines.settings import Done
    from ncu_swizzle.engines.settings import Progress as OnProgress
    from ncu_swizzle.reports import pack
    from ncu_swizzle.reports.comparison import JobResult
    from ncu_swizzle.reports.options import Formats, Makers
    from ncu_swizzle.sweep.plan import Sweep


MOST_NAMED = 5  # files that a stopped command had written
PACKAGE = "ncu-swizzle"


def explain(error: BaseException) -> int:
    """Print an error of any kind to stderr, and return the exit code."""
    ours = _as_ours(error)
    try:
        print(f"error: {message(str(ours))}", file=sys.stderr)
        if ours.hint:
            print(f"  try: {message(ours.hint)}", file=sys.stderr)
        sys.stderr.flush()
    except (OSError, ValueError):  # stderr is closed or full: the exit code has to do
        discard(sys.stderr.fileno())
    return ours.exit_code


def _as_ours(error: BaseException) -> NcuSwizzleError:
    if isinstance(error, NcuSwizzleError):
        return error
    if isinstance(error, OSError):
        if error.filename is None:  # stdout, maybe: flushing its buffer at exit would fail again
            discard(sys.stdout.fileno())
        return error_of_system(error)
    return lacking(error) or _unforeseen(error)


def stopped(stop: BaseException) -> int:
    """Say that Ctrl-C or a signal stopped the command, and return the exit code."""
    kind = interruption(stop) or Interrupted
    print(f"{kind.word}: {kept()}", file=sys.stderr)
    return kind.exit_code


def kept() -> str:
    """Print what a stopped command has already written, and left behind."""
    paths = finished()
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    names = ", ".join(one_line(str(path)) for path in paths[:MOST_NAMED])
    return f"{names}{more} had been written before" if paths else "nothing was written"


def discard(descriptor: int) -> None:
    """Discard any further output to stdout or stderr."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


# ---------------------------------------------------------------------------------------------- bugs


def _unforeseen(error: BaseException) -> InternalError:
    """Return the error for a bug, after saving its traceback."""
    text = "\n".join(_report(error))
    where = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    at = f" ({Path(where.filename).name}:{where.lineno})" if where else ""
    try:
        saved = f"the traceback is in {_saved(text)}"
    except OSError as full:
        folder = "any temporary folder"
        with contextlib.suppress(OSError):
            folder = tempfile.gettempdir()
        saved = f"its traceback cannot be saved in {folder}: {reason(full)}"
    name, said = type(error).__name__, brief(error)
    said = said if said.startswith(name) else f"{name}: {said}"
    return InternalError(
        f"this is a bug in {PACKAGE} {version()}: {said}{at}; {saved}",
        f"report it where you got {PACKAGE}, with that file and what you typed",
    )


def _saved(text: str) -> Path:
    """Write the report to a new file that only this user can read; remove it again if that fails."""
    handle, name = tempfile.mkstemp(prefix=f"{PACKAGE}-bug-", suffix=".txt")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _report(error: BaseException) -> Iterator[str]:
    yield f"{PACKAGE} {version()}, Python {platform.python_version()}, {platform.platform()}"
    yield f"command line: {shlex.join(sys.argv)}"
    yield ""
    yield "".join(traceback.format_exception(error))


def version() -> str:
    """Return this package's version."""
    from importlib import metadata

    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "(version unknown)"


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


def _said(_: str, done: Done) -> None:
    """Print a message once."""
    if done.aside:
        print(one_line(done.aside), file=sys.stderr, flush=True)


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Yield a callback that shows progress on stderr: a bar per kernel on a terminal, else only what is said once."""
    if not sys.stderr.isatty():
        yield _said
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


def show(result: JobResult, formats: Formats, written: Sequence[Path] = ()) -> None:
    """Print the result as tables, or in the format requested on stdout; write the others.

    `written` are the files written before.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import terminal
    from ncu_swizzle.render.listing import table_line

    if formats.named and formats.write(_makers(result)):
        return
    console = Output()
    terminal.show(result, console)
    for file in written:
        console.print()
        console.print(table_line(f"Written to {file}"), soft_wrap=True)


def _makers(result: JobResult) -> Makers:
    from ncu_swizzle.render.formats import render_all, to_csv, to_json

    return {
        "json": lambda: to_json(result),
        "markdown": lambda: render_all(result.comparisons, result.notes, result.title),
        "csv": lambda: to_csv(*result.comparisons),
    }


def show_several(outcomes: Outcomes) -> None:
    """Print the result of each of several kernels, and which failed; then raise ProgramFailed if one did."""
    from ncu_swizzle.commands import run_kernel
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import terminal
    from ncu_swizzle.render.listing import table_line

    console = Output()
    for name, outcome in outcomes:
        if outcome.error:
            console.print(table_line(f"failed: {name}: {outcome.error}", style="red"))
        else:
            terminal.show(outcome.value, console)
        console.print()
    run_kernel.refuse_failed(outcomes)


def show_findings(shown: Sequence[pack.LaunchFindings], formats: Formats) -> None:
    """Print the findings of rules, or the JSON requested on stdout; write it to its file."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import listing
    from ncu_swizzle.reports import pack

    if not formats.write({"json": lambda: pack.to_json(shown)}):
        listing.show_findings(shown, Output())
