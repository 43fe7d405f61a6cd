"""How a command ends that fails: one message, what to type next, and the exit code. Imports only what is quick.

Whatever nobody foresaw is a bug: its traceback goes to a file, and the exit code is that of `InternalError`.
"""

from __future__ import annotations

import itertools
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typer.core import TyperCommand

from ncu_swizzle.base.errors import (
    OUT_OF_MEMORY,
    EnvironmentLacking,
    InternalError,
    LaunchLacking,
    NcuSwizzleError,
    of_system,
    reason,
)
from ncu_swizzle.base.files import brief, finished
from ncu_swizzle.base.texts import message, on_terminal, one_line
from ncu_swizzle.kernels import build
from ncu_swizzle.kernels.check import NO_PARAMETERS
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.toolchain import Toolchain

# A command that takes a program after ``--``, in addition to its own arguments.


KEY = "ncu_swizzle.after_dashes"


class WithProgram(TyperCommand):
    """A command that separates what follows the first ``--`` from its own arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before ``--``; `after_dashes` returns the rest."""
        dashes = args.index("--") if "--" in args else len(args)
        ctx.meta[KEY] = tuple(args[dashes + 1 :])
        return super().parse_args(ctx, args[:dashes])


def after_dashes(context: typer.Context) -> tuple[str, ...]:
    """Return what followed ``--``."""
    words: tuple[str, ...] = context.meta.get(KEY, ())
    return words


# The command that was typed, with the options that it lacked.


PROGRAM = "ncu-swizzle"


def hint(error: LaunchLacking, typed: Sequence[str]) -> str:
    """Return what to type in place of a command whose kernel could not be launched, given its words."""
    nvcc = _value(typed, "--nvcc")
    options, entry = build.completed(error, Toolchain(Path(nvcc) if nvcc else None))
    if options == NO_PARAMETERS:
        return shlex.join([PROGRAM, *_without(typed, {"--arg"})])
    if not options.startswith("--"):
        return options
    named = ["--kernel", error.kernel] if error.kernel else []
    command = with_options(typed, [*named, *shlex.split(options)])
    if not entry or not isinstance(error.spec, KernelSpec):
        return command
    init = shlex.join([PROGRAM, "init", str(error.spec.source), "--kernel", error.spec.entry or error.spec.name])
    return f"{command}\n  or write this to ncu-swizzle.toml, as {init} does:\n{entry}"


def with_options(typed: Sequence[str], options: Sequence[str]) -> str:
    """Return the command with the options, which replace what was typed for them; sizes that were typed are kept."""
    pairs = list(zip(options[::2], options[1::2], strict=True))
    sizes = {part.partition("=")[0] for text in _values(typed, "--problem") for part in text.split(",")}
    added = [word for name, value in pairs if not (name == "--problem" and value.partition("=")[0] in sizes)
             for word in (name, value)]  # fmt: skip
    kept = _without(typed, {name for name, _ in pairs} - {"--problem"})
    end = kept.index("--") if "--" in kept else len(kept)
    return shlex.join([PROGRAM, *kept[:end], *added, *kept[end:]])


def _without(typed: Sequence[str], names: set[str]) -> list[str]:
    """Return the words without these options and their values."""
    end = typed.index("--") if "--" in typed else len(typed)
    kept: list[str] = []
    skip = False
    for word in typed[:end]:
        if skip or word in names:
            skip = not skip
        elif word.partition("=")[0] not in names:
            kept.append(word)
    return [*kept, *typed[end:]]


def _values(typed: Sequence[str], name: str) -> list[str]:
    separate = [value for word, value in itertools.pairwise(typed) if word == name]
    return separate + [word.partition("=")[2] for word in typed if word.startswith(f"{name}=")]


def _value(typed: Sequence[str], name: str) -> str:
    return next(iter(_values(typed, name)), "")


# The console that commands print to, in its own module because rich is slow to import.


class Output(Console):
    """A console that prints only visible text and rich's own styles, whatever is printed.

    It neither highlights numbers nor replaces ``:x:`` in C++ names by pictures, and raises BrokenPipeError when the
    reader (head, less) exits.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(file=file, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the parts of what is printed; styles and the cursor's movements are parts of their own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(on_terminal(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


MOST_NAMED = 5  # files that a stopped command had written
PACKAGE = "ncu-swizzle"
DEPENDENCIES = ("jinja2", "ncu-report", "numpy", "pandas", "pyelftools", "pygments", "rich", "typer")
ADDRESSES = ("issues", "bug tracker", "repository", "source", "homepage")  # labels of project URLs, the best first


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
        return of_system(error)
    if isinstance(error, MemoryError):
        return EnvironmentLacking(f"out of memory: {brief(error)}", OUT_OF_MEMORY)
    return _unforeseen(error)


def kept() -> str:
    """Say what a command that was stopped had already written, and left."""
    paths = finished()
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    names = ", ".join(one_line(str(path)) for path in paths[:MOST_NAMED])
    return f"{names}{more} had been written before" if paths else "nothing was written"


def discard(descriptor: int) -> None:
    """Let what is still written to stdout or stderr vanish."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


# ---------------------------------------------------------------------------------------------- bugs


def _unforeseen(error: BaseException) -> InternalError:
    """Return the error for a bug, after saving its traceback."""
    text = "\n".join(_report(error))
    where = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    place = f" ({Path(where.filename).name}:{where.lineno})" if where else ""
    try:
        saved = f"the traceback is in {_saved(text)}"
    except OSError as full:
        saved = f"its traceback cannot be saved in {_folder()}: {reason(full)}"
    return InternalError(
        f"this is a bug in {PACKAGE} {version()}: {_in_brief(error)}{place}; {saved}",
        f"report it {_where_to_report()}, with that file and what you typed",
    )


def _in_brief(error: BaseException) -> str:
    name, text = type(error).__name__, brief(error)
    return text if text.startswith(name) else f"{name}: {text}"


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


def _folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "any temporary folder"


def _report(error: BaseException) -> Iterator[str]:
    yield f"{PACKAGE} {version()}, Python {platform.python_version()}, {platform.platform()}"
    yield f"command line: {shlex.join(sys.argv)}"
    yield ", ".join(f"{name} {version(name)}" for name in DEPENDENCIES)
    yield ""
    yield "".join(traceback.format_exception(error))


def version(package: str = PACKAGE) -> str:
    """Return the version of an installed package, this one by default."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(version unknown)"


def _where_to_report() -> str:
    """Return the address in the package's metadata."""
    from importlib import metadata

    try:
        given = metadata.metadata(PACKAGE).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        given = []
    urls = {label.strip().lower(): url.strip() for label, _, url in (entry.partition(",") for entry in given)}
    address = next((urls[label] for label in ADDRESSES if label in urls), None)
    return f"at {address}" if address else f"where you got {PACKAGE}"
