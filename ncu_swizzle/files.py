"""Files that are either whole or not there, and what reading one can run into."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import BadFile, DamagedFile, NotWritable

ELSEWHERE = "name another place: -o, --html or --json"
AGAIN = "copy it again from where it was made, or profile again"
OURS = "give a .ncu-rep file, or one that ncu-swizzle wrote"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LARGEST = 4 << 30  # bytes of a file that is read at once
LONGEST = 200  # characters of a foreign error's text


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file under a temporary name and rename it, so that no reader ever sees half of it.

    Makes the folder where it is missing. Raises NotWritable.
    """
    unfinished = path.with_name(f".{path.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_bytes(data)
            unfinished.replace(path)
        finally:  # after an interrupt too
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path | str, error: OSError) -> NotWritable:
    """Return the error for a file that could not be written, which says so where the disk is full."""
    hint = "free some disk space, or name another place" if error.errno in FULL else ELSEWHERE
    return NotWritable(f"cannot write {path}: {error.strerror}", hint)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other process that asks for the folder's lock waiting; where locks cannot be had, do without."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def slug(label: str) -> str:
    """Return a label as a file's name, without what file systems and shells take amiss."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-")[:80] or "profile"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file that people read too; see `write_atomically`."""
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def read_bytes(path: Path) -> bytes:
    """Return what the file holds; raise BadFile where it is missing, no file, too large, or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer would wait
        try:
            _refuse_odd(path, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        with os.fdopen(handle, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise BadFile(f"{path} does not exist", "ls swizzle-out shows what was saved") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise BadFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", OURS) from error


def _refuse_odd(path: Path, kind: os.stat_result) -> None:
    if stat.S_ISDIR(kind.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(kind.st_mode):
        raise BadFile(f"{path} cannot be read: it is no regular file", OURS)
    if kind.st_size > LARGEST:
        raise BadFile(f"{path} cannot be read: it is larger than {LARGEST >> 30} GiB", OURS)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; raise BadFile, or DamagedFile where it is no JSON."""
    return parse_json(read_bytes(path), str(path))


def parse_json(data: bytes | str, name: str) -> Any:
    """Return what a JSON text holds; raise DamagedFile, whatever the text is."""
    try:
        return json.loads(data.decode() if isinstance(data, bytes) else data)
    except (ValueError, RecursionError, MemoryError) as error:  # ValueError: UnicodeDecodeError and huge numbers too
        raise DamagedFile(f"{name} is not whole: {brief(error)}", "profile the kernel again") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds; raise BadFile where it cannot be read, is no TOML, or numbers too large for it."""
    try:
        content = tomllib.loads(read_bytes(path).decode())
        _refuse_huge(content)
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadFile(f"{path} is no TOML: {brief(error)}", "correct it") from error
    return content


def _refuse_huge(value: Any) -> None:
    """Raise ValueError for an integer that TOML does not allow."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("an integer has more than 64 bits")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_huge(part)


def brief(error: BaseException) -> str:
    """Return what an error says in one short line, its kind where it says nothing or is a mere key."""
    text = " ".join(str(error).split())
    if not text or isinstance(error, LookupError | RecursionError | MemoryError):
        text = f"{type(error).__name__} {text}".rstrip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
