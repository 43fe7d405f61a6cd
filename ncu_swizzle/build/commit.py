"""The git commit of a kernel's sources.

The checkout may be anyone's, and its .git/config can name programs (core.fsmonitor, filters, hooks) that git runs when
it looks at the index or the working tree. So git is only asked for what HEAD holds, and the files are compared here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.errors import BadFile
from ncu_swizzle.files import read_bytes

TIMEOUT_S = 10.0
MOMENT_S = 1.0
_answers: dict[tuple[Path, tuple[str, ...]], tuple[float, bytes]] = {}
# No repository that poses as a folder of files, no daemon of the checkout's, no fetch of what is missing.
SAFELY = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}


def commit_of_family(family: Family) -> str:
    """Return the commit of a family's folder, with ``-dirty`` if its description or a source in it differs."""
    return commit_of(family.folder, map(Path, family.included()) if family.standalone else None)


def commit_of(folder: Path, files: Iterable[Path] | None = None) -> str:
    """Return the commit checked out in the folder, with ``-dirty`` if its tracked files differ; empty outside git.

    `files` are those to compare, by default all in the folder.
    """
    root, _, commit = _git(folder, "rev-parse", "--show-toplevel", "--short=12", "HEAD").rstrip().rpartition(b"\n")
    tree = _git(folder, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
    if not commit or not tree:
        return ""
    top = os.path.realpath(root)
    below = os.fsencode(os.path.realpath(folder)).rstrip(b"/") + b"/"
    compared = None if files is None else {os.fsencode(os.path.realpath(file)) for file in files}
    for path, name in _blobs(tree):
        file = os.path.join(top, path)  # noqa: PTH118 - as bytes: names need not be UTF-8, and there can be many
        if (file.startswith(below) if compared is None else file in compared) and _differs(file, name):
            return f"{commit.decode()}-dirty"
    return commit.decode()


def _blobs(tree: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the path in the checkout and the blob's name of every regular file that ``git ls-tree -z`` lists."""
    for entry in tree.split(b"\0"):
        kind, _, path = entry.partition(b"\t")
        if kind.startswith(b"100"):  # the modes of regular files; others are links and submodules
            yield path, kind.split(b" ")[2].decode()


def _git(folder: Path, *arguments: str) -> bytes:
    """Return what git prints, or printed a moment ago: a sweep asks for each of its points."""
    now = time.monotonic()
    asked, printed = _answers.get((folder, arguments), (-MOMENT_S, b""))
    if now - asked >= MOMENT_S:
        printed = _printed(folder, arguments)
        _answers[folder, arguments] = (now, printed)
    return printed


def _printed(folder: Path, arguments: Sequence[str]) -> bytes:
    """Return what git prints; nothing if it is missing or fails."""
    command = ["git", *SAFELY, "-C", str(folder), *arguments]
    environment = {**paths.tool_environment(), **OFFLINE}
    try:
        git = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return git.stdout if git.returncode == 0 else b""


def _differs(file: bytes, name: str) -> bool:
    """Return whether a file is not the blob of that name, even with the line ends of git's."""
    try:
        content = read_bytes(Path(os.fsdecode(file)))
    except BadFile:
        return True
    algorithm = "sha1" if len(name) == 40 else "sha256"
    return name not in (_blob(content, algorithm), _blob(content.replace(b"\r\n", b"\n"), algorithm))


def _blob(content: bytes, algorithm: str) -> str:
    """Return git's name for a file's content."""
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
