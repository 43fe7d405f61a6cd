"""How a command ends that fails: one message, what to type next, and the exit code. Imports only what is quick.

Whatever nobody foresaw is a bug: its traceback goes to a file, and the exit code is that of `InternalError`.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.base.errors import (
    OUT_OF_MEMORY,
    EnvironmentLacking,
    InternalError,
    NcuSwizzleError,
    of_system,
    reason,
)
from ncu_swizzle.base.files import brief, finished
from ncu_swizzle.base.texts import message, one_line

MOST_NAMED = 5  # files that a stopped command had written
PACKAGE = "ncu-swizzle"
DEPENDENCIES = (
    "jinja2", "ml-dtypes", "ncu-report", "numpy", "nvidia-cuda-nvdisasm", "pandas", "pyelftools", "pygments", "rich",
    "tree-sitter", "tree-sitter-cuda", "typer",
)  # fmt: skip
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
        folder = "any temporary folder"
        with contextlib.suppress(OSError):
            folder = tempfile.gettempdir()
        saved = f"its traceback cannot be saved in {folder}: {reason(full)}"
    name, said = type(error).__name__, brief(error)
    said = said if said.startswith(name) else f"{name}: {said}"
    return InternalError(
        f"this is a bug in {PACKAGE} {version()}: {said}{place}; {saved}",
        f"report it {_where_to_report()}, with that file and what you typed",
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
