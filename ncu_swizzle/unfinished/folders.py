"""Folders that are removed at the end, or by the next process if this one is killed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.unfinished import marked


@contextlib.contextmanager
def folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yield an empty folder that only this user can enter; remove it at the end unless it was moved. Raises OSError."""
    lock, handle = marked.create(parent, prefix, marked.FOLDER_LOCK)
    try:
        path = lock.with_suffix("")
        path.mkdir(0o700)
        yield path
    finally:
        with contextlib.suppress(OSError):
            marked.remove(lock)
        os.close(handle)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder in the temporary folder; remove it at the end."""
    with folder(Path(tempfile.gettempdir())) as path:
        yield path
