"""What git says of a checkout, which may be anyone's.

Its .git/config can name programs (core.fsmonitor, filters, hooks) that git runs when it looks at the index or the
working tree. So git is only asked for what commits hold, and their files are written here.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ncu_swizzle import paths

TIMEOUT_S = 10.0
MOMENT_S = 1.0
_answers: dict[tuple[Path, tuple[str, ...], bytes], tuple[float, bytes]] = {}
# No repository that poses as a folder of files, no daemon of the checkout's, no fetch of what is missing.
SAFELY = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
FILE, LINK = b"100", b"120"  # how the modes of regular files and of symbolic links start; others are submodules


@dataclass(frozen=True)
class Blob:
    """A file of a commit: its path in the checkout, its mode in octal digits, and git's name for its content."""

    path: bytes
    mode: bytes
    name: str


def said(folder: Path, *arguments: str, given: bytes = b"", timeout_s: float = TIMEOUT_S) -> bytes:
    """Return what git prints in a folder, or printed a moment ago: a sweep asks for each of its points.

    Nothing if git is missing or fails.
    """
    key, now = (folder, arguments, given), time.monotonic()
    asked, printed = _answers.get(key, (-MOMENT_S, b""))
    if now - asked >= MOMENT_S:
        printed = _printed(folder, arguments, given, timeout_s)
        _answers[key] = (now, printed)
    return printed


def _printed(folder: Path, arguments: Sequence[str], given: bytes, timeout_s: float) -> bytes:
    command = ["git", *SAFELY, "-C", str(folder), *arguments]
    environment = {**paths.tool_environment(), **OFFLINE}
    try:
        git = subprocess.run(command, input=given, capture_output=True, check=False, timeout=timeout_s, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return git.stdout if git.returncode == 0 else b""


def blobs(folder: Path, commit: str = "HEAD") -> Sequence[Blob]:
    """Return every file and link of a commit."""
    return _listed(said(folder, "ls-tree", "-r", "-z", "--full-tree", commit))


@lru_cache(maxsize=2)
def _listed(printed: bytes) -> tuple[Blob, ...]:
    """Return the blobs that git printed, which a sweep asks for at each of its points."""
    found = []
    for entry in printed.split(b"\0"):
        kind, _, path = entry.partition(b"\t")
        if kind.startswith((FILE, LINK)):
            mode, _, name = kind.split(b" ")
            found.append(Blob(path, mode, name.decode()))
    return tuple(found)


def contents(folder: Path, names: list[str], timeout_s: float) -> Iterator[bytes]:
    """Yield the contents of blobs; fewer if git fails."""
    asked = "".join(f"{name}\n" for name in names).encode()
    rest = _printed(folder, ("cat-file", "--batch"), asked, timeout_s)  # too much to be kept
    while rest:
        header, _, rest = rest.partition(b"\n")
        *_, kind, size = header.split(b" ")
        if kind != b"blob":
            return
        yield rest[: int(size)]
        rest = rest[int(size) + 1 :]


def top(folder: Path) -> Path | None:
    """Return the top folder of the checkout that a folder is in; None outside of git."""
    found = os.fsdecode(said(folder, "rev-parse", "--show-toplevel").removesuffix(b"\n"))
    return Path(found) if found else None
