"""Atomic writes, and reads that turn every failure into one of our errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ncu_swizzle.base.errors import REFUSED, BadFile, DamagedFile, NotWritable, reason, remedy
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.base.unfinished import create, remove

ELSEWHERE = "name another path with -o, --html or --json"
AGAIN = "copy it again from its origin, or profile again"
OURS = "give a .ncu-rep file, or a file that ncu-swizzle wrote"
ACCESS_LIST = "system.posix_acl_access"
READER_S = 5.0  # how long a pipe may have no reader
LARGEST = 4 << 30  # bytes of a file that is read into memory
LARGEST_SOURCE = 64 << 20  # the same of a source
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/(?:fd/(\d{1,4})|std(out|err))")
LONGEST = 200  # characters of an error's text


_finished: dict[Path, None] = {}  # what this process wrote, in order


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file under a temporary name and rename it, so no reader ever sees half of it.

    Creates the folder if it is missing; a file that was there keeps its mode. A device or a pipe, such as /dev/stdout,
    is written to. Raises NotWritable.
    """
    if _is_stream(path):
        _write_through(path, data)
    else:
        with replacing(path, like_before=True) as file:
            file.write(data)
        note_finished(path)


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Do what `write_atomically` does, for a file that is not a result; `mode` is subject to the umask."""
    with replacing(path, mode) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666, like_before: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that takes the path's place once it is complete; raise NotWritable.

    `like_before`: with the owner, the mode and the access list of this user's existing file.
    """
    if not path.name:  # such as . or /
        raise not_writable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished, handle = create(path.parent, f".{path.name}", mode=mode)
        try:
            with os.fdopen(handle, "wb") as file:  # the lock ends with it, so only after the renaming
                yield file
                file.flush()
                if like_before:
                    _allow_as(path, handle)
                unfinished.replace(path)
        finally:  # after an interrupt too
            with contextlib.suppress(OSError):
                remove(unfinished)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise not_writable(path, error) from error


def _allow_as(path: Path, handle: int) -> None:
    """Give an open file the owner, the mode and the access list of the file that it replaces, if there is one."""
    try:
        before = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(before.st_mode) or os.geteuid() not in (0, before.st_uid):
        return
    with contextlib.suppress(OSError):  # only root gives files away
        os.fchown(handle, before.st_uid, before.st_gid)
    ours = os.fstat(handle).st_gid == before.st_gid
    os.fchmod(handle, before.st_mode & (0o777 if ours else 0o707))  # group permissions were for another group
    with contextlib.suppress(OSError):  # there is none, or the file system has none
        os.setxattr(handle, ACCESS_LIST, os.getxattr(path, ACCESS_LIST))


def _is_stream(path: Path) -> bool:
    """Return whether the path leads to a device, a pipe or a socket, which a renamed file would replace."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)) or _DESCRIPTOR.fullmatch(str(path)) is not None


def _write_through(path: Path, data: bytes) -> None:
    open_already = _DESCRIPTOR.fullmatch(str(path))  # opened again, a redirected stdout would start over
    try:
        if open_already:
            handle = os.dup(int(open_already[1] or {"out": 1, "err": 2}[open_already[2]]))
        else:
            handle = _waiting(path)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise not_writable(path, error) from error


def _waiting(path: Path) -> int:
    """Open a device or a pipe to write to; wait briefly for the pipe's reader, without which opening would block."""
    deadline = time.monotonic() + READER_S
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            os.set_blocking(handle, True)
            return handle


def note_finished(path: Path) -> None:
    """Note a file or folder as a result of this process, for `finished`."""
    _finished[path] = None


def finished() -> list[Path]:
    """Return what this process wrote that still exists; for a folder and files in it, only the folder."""
    present = [path for path in _finished if os.path.exists(path)]  # noqa: PTH110 - Path.exists raises without permission
    return [path for path in present if not any(folder in path.parents for folder in present)]


def not_writable(path: Path | str, error: OSError | ValueError) -> NotWritable:
    """Return the error for a file that could not be written; its hint says if the disk is full."""
    if not isinstance(error, OSError):
        return NotWritable(f"cannot write {str(path)!r}: {brief(error)}", ELSEWHERE)
    return NotWritable(f"cannot write {path}: {reason(error)}", remedy(error, ELSEWHERE))


def not_readable(path: Path | str, error: OSError | ValueError, hint: str = OURS) -> BadFile:
    """Return the error for a file that could not be read; `hint` applies to a file of the wrong kind."""
    if isinstance(error, FileNotFoundError):
        return BadFile(f"{path} does not exist", "ls swizzle-out shows what was saved" if hint == OURS else hint)
    if not isinstance(error, OSError):  # a NUL in the path, or a name that no file system can hold
        return BadFile(f"{str(path)!r} cannot be read: {brief(error)}", hint)
    usual = f"ls -l {path} shows its permissions" if error.errno in REFUSED else hint
    return BadFile(f"{path} cannot be read: {reason(error)}", remedy(error, usual))


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
    write_atomically(path, in_json(content, indent=1, allow_nan=True).encode())


def read_bytes(path: Path, hint: str = OURS, largest: int = LARGEST) -> bytes:
    """Return the file's content; raise BadFile if it is missing, not a regular file, too large, or unreadable.

    `hint` says which files can be given.
    """
    with opened(path, hint, largest) as file:
        return file.read()


def read_source(path: Path) -> str:
    """Return the text of a source, whatever its bytes; raise BadFile as `read_bytes` does."""
    return read_bytes(path, "give a source", LARGEST_SOURCE).decode("utf-8", "replace")


@contextlib.contextmanager
def opened(path: Path, hint: str = OURS, largest: int = LARGEST) -> Iterator[BinaryIO]:
    """Yield the open file; raise BadFile as `read_bytes` does, also for errors while it is read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe without a writer would block
        try:
            _refuse_odd(path, os.fstat(handle), hint, largest)
        except BaseException:
            os.close(handle)
            raise
        with os.fdopen(handle, "rb") as file:
            yield file
    except (OSError, ValueError) as error:
        raise not_readable(path, error, hint) from error


def _refuse_odd(path: Path, kind: os.stat_result, hint: str, largest: int) -> None:
    if stat.S_ISDIR(kind.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(kind.st_mode):
        raise BadFile(f"{path} cannot be read: it is not a regular file", hint)
    if kind.st_size > largest:
        most = f"{largest >> 30} GiB" if largest >> 30 else f"{largest >> 20} MiB"
        raise BadFile(f"{path} cannot be read: it is larger than {most}", hint)


def is_file(path: Path) -> bool:
    """Return whether the path is a regular file; raise BadFile if that cannot be told, as for an overlong name."""
    return stat.S_ISREG(_mode(path))


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two paths lead to the same place, with all links followed."""
    return os.path.realpath(path) == os.path.realpath(other)


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder; raise BadFile if that cannot be told."""
    return stat.S_ISDIR(_mode(path))


def exists(path: Path) -> bool:
    """Return whether the path exists; raise BadFile if that cannot be told."""
    return _mode(path) != 0


def _mode(path: Path) -> int:
    """Return the type and permissions at the path; 0 if it does not exist.

    If a folder may not be entered or a name is too long, Path.is_file raises OSError or returns False: versions differ.
    """
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        raise not_readable(path, error, "check the path") from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise BadFile, or DamagedFile if it is not valid JSON."""
    return parse_json(read_bytes(path), str(path))


def parse_json(data: bytes | str, name: str, hint: str = "profile the kernel again") -> Any:
    """Return the content of a JSON text; raise DamagedFile for anything invalid."""
    try:
        return json.loads(data.decode() if isinstance(data, bytes) else data)
    except (ValueError, RecursionError, MemoryError) as error:  # also what is not UTF-8, and huge numbers
        raise DamagedFile(f"{name} is damaged: {brief(error)}", hint) from error


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
    """Return an error's text in one short line, with its type if the text is empty or only a key."""
    text = " ".join(str(error).split())
    if not text or isinstance(error, LookupError | RecursionError | MemoryError):
        text = f"{type(error).__name__} {text}".rstrip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
