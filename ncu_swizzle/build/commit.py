"""The git commit of a kernel's sources: git is asked for what HEAD holds, and the files are compared here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ncu_swizzle.build import git
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.errors import BadFile
from ncu_swizzle.files import read_bytes


def commit_of_family(family: Family) -> str:
    """Return the commit of a family's folder, with ``-dirty`` if its description or a source in it differs."""
    return commit_of(family.folder, map(Path, family.included()) if family.standalone else None)


def commit_of(folder: Path, files: Iterable[Path] | None = None) -> str:
    """Return the commit checked out in the folder, with ``-dirty`` if its tracked files differ; empty outside git.

    `files` are those to compare, by default all in the folder.
    """
    root, _, commit = git.said(folder, "rev-parse", "--show-toplevel", "--short=12", "HEAD").rstrip().rpartition(b"\n")
    files_of_head = [blob for blob in git.blobs(folder) if blob.mode.startswith(git.FILE)]
    if not commit or not files_of_head:
        return ""
    top = os.path.realpath(root).rstrip(b"/") + b"/"
    below = os.fsencode(os.path.realpath(folder)).rstrip(b"/") + b"/"
    compared = None if files is None else {os.fsencode(os.path.realpath(file)) for file in files}
    for blob in files_of_head:
        file = top + blob.path  # as bytes: names need not be UTF-8, and there can be many
        if (file.startswith(below) if compared is None else file in compared) and _differs(file, blob.name):
            return f"{commit.decode()}-dirty"
    return commit.decode()


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
