"""Folders that are removed at the end, or by the next process if this one is killed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Marked names for unfinished files, the lock that says whether one is in use, and the removal of abandoned ones.
#
# A marked name is ``PREFIX.ncu-swizzle-HOST-PID-TOKEN``. Its file is locked from its creation on, and the kernel drops
# the lock when the process ends, however that happens. So a process that gets the lock knows the file is abandoned,
# even in another PID namespace. Some file systems keep locks to one machine, so files of another machine, or of an
# earlier boot, must also be older than ELSEWHERE_S. Without any locks nothing is removed.

FOLDER_LOCK = ".lock"  # suffix of a marked folder's lock file, which lies next to it
ELSEWHERE_S = 7 * 86400.0
LONGEST_PREFIX = 100  # bytes; file systems allow 255 for the whole name

_MARKED = re.compile(r"\.ncu-swizzle-([0-9a-f]{8})-[0-9]+-[0-9a-f]{8}(\.lock)?$")
_cleared: set[Path] = set()  # folders that this process has cleared


def create(folder: Path, prefix: str, suffix: str = "", mode: int = 0o666) -> tuple[Path, int]:
    """Create an empty marked file and lock it; return its path and its descriptor. Raises OSError.

    The first time in a folder, abandoned files there are removed.
    """
    clear(folder)
    prefix = os.fsdecode(os.fsencode(prefix)[:LONGEST_PREFIX])
    while True:
        path = folder / f"{prefix}.ncu-swizzle-{_host()}-{os.getpid()}-{secrets.token_hex(4)}{suffix}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        with contextlib.suppress(OSError):  # no locks on this file system: nothing is removed there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _still_names(path, handle):
            return path, handle
        os.close(handle)  # before it was locked, another process removed it as abandoned


def clear(folder: Path) -> None:
    """Remove the abandoned files and folders of this user in a folder; looks there once per process."""
    where = folder.absolute()
    if where in _cleared:
        return
    _cleared.add(where)
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if _MARKED.search(entry.name)]
        for name in names:
            with contextlib.suppress(OSError):
                _remove_if_abandoned(folder / name)


def remove(path: Path) -> None:
    """Remove a marked file; for a folder's lock file the folder first, and the lock file only if that is gone."""
    if path.name.endswith(FOLDER_LOCK):
        folder = path.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)  # refuses a symlink
        if os.path.lexists(folder):
            return
    path.unlink(missing_ok=True)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a marked file unless it is in use; raise OSError if it is, or is not a file at all."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or _may_be_elsewhere(path, status):
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _still_names(path, handle):  # else its owner finished it meanwhile
            remove(path)
    finally:
        os.close(handle)


def _may_be_elsewhere(path: Path, status: os.stat_result) -> bool:
    """Return whether another machine may be using the file, under a lock that is not seen here."""
    marked = _MARKED.search(path.name)
    here = marked is not None and marked[1] == _host()
    return not here and time.time() - status.st_mtime < ELSEWHERE_S


def _still_names(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


@cache
def _host() -> str:
    """Return eight digits for the running kernel, which containers share; for the host's name if it has no ID."""
    try:
        identity = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except (OSError, ValueError):
        identity = os.uname().nodename
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:8]


@contextlib.contextmanager
def folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yield an empty folder that only this user can enter; remove it at the end unless it was moved. Raises OSError."""
    lock, handle = create(parent, prefix, FOLDER_LOCK)
    try:
        path = lock.with_suffix("")
        path.mkdir(0o700)
        yield path
    finally:
        with contextlib.suppress(OSError):
            remove(lock)
        os.close(handle)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder in the temporary folder; remove it at the end."""
    with folder(Path(tempfile.gettempdir())) as path:
        yield path
