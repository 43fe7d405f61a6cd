"""Atomic writes, and reads that turn every failure into one of our errors."""

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

ELSEWHERE = "name another path with -o, --html or --json"
AGAIN = "copy it again from its origin, or profile again"
OURS = "give a .ncu-rep file, or a file that ncu-swizzle wrote"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LARGEST = 4 << 30  # bytes of a file that is read into memory
LONGEST = 200  # characters of an error's text


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file under a temporary name and rename it, so no reader ever sees half of it.

    Creates the folder if it is missing. Raises NotWritable.
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
    """Return the error for a file that could not be written; its hint says if the disk is full."""
    hint = "free some disk space, or name another path" if error.errno in FULL else ELSEWHERE
    return NotWritable(f"cannot write {path}: {error.strerror}", hint)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so other processes that want it wait; without lock support, continue unlocked."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def slug(label: str) -> str:
    """Return a label as a file name, without characters that need quoting."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-")[:80] or "profile"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an indented JSON file; see `write_atomically`."""
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def read_bytes(path: Path) -> bytes:
    """Return the file's content; raise BadFile if it is missing, not a regular file, too large, or unreadable."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe without a writer would block
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
        raise BadFile(f"{path} cannot be read: it is not a regular file", OURS)
    if kind.st_size > LARGEST:
        raise BadFile(f"{path} cannot be read: it is larger than {LARGEST >> 30} GiB", OURS)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise BadFile, or DamagedFile if it is not valid JSON."""
    return parse_json(read_bytes(path), str(path))


def parse_json(data: bytes | str, name: str) -> Any:
    """Return the content of a JSON text; raise DamagedFile for anything invalid."""
    try:
        return json.loads(data.decode() if isinstance(data, bytes) else data)
    except (
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # ValueError includes UnicodeDecodeError and huge numbers
        raise DamagedFile(f"{name} is damaged: {brief(error)}", "profile the kernel again") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raise BadFile if it is unreadable, invalid, or has integers over 64 bits."""
    try:
        content = tomllib.loads(read_bytes(path).decode())
        _refuse_huge(content)
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadFile(f"{path} is not valid TOML: {brief(error)}", "fix it") from error
    return content


def _refuse_huge(value: Any) -> None:
    """Raise ValueError for an integer beyond TOML's 64 bits."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("an integer has more than 64 bits")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_huge(part)


def brief(error: BaseException) -> str:
    """Return an error's text in one short line, with its type if the text is empty or a mere key."""
    text = " ".join(str(error).split())
    if not text or isinstance(error, LookupError | RecursionError | MemoryError):
        text = f"{type(error).__name__} {text}".rstrip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
