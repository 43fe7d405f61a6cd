"""The user's cache: anything slow to make that can be made again, in one folder with a size limit.

    cubins/         compiled kernels, by source, options and compiler    (`kernels.toolchain`, `kernels.check`)
    sass/           their disassembly, by cubin and disassembler         (`kernels.toolchain`)
    emulations/     counts, by cubin, launch and emulator                (`engines.emulated_profile`)
    disassembly/    SASS and units from NVIDIA's module                  (`engines.reader`)
    libraries/      our C programs, and libraries that programs load     (`base.native`)

All of it may be deleted at any time. Beyond LIMIT_BYTES, the least recently used entries are evicted. None of it is
executed by this process. An entry is a file that starts with a SHA-256 of its kind, its key and its content. It is
trusted if it is a regular file that only this user or root can write to, in folders with the same property, and its
digest is right; the caller checks its content, and calls `drop` if that is unusable. Anything else is dropped
and made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ncu_swizzle.base import files
from ncu_swizzle.base.errors import NcuSwizzleError

# SHA-256 digests, the same way everywhere in the package.
#
# They are not keyed: they detect damage, careless edits and bad merges, not deliberate forgery.


def sha256(data: bytes) -> str:
    """Return the SHA-256 of the bytes in hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_texts(*texts: str) -> str:
    """Return the SHA-256 of the texts in hex, separated by NUL; what UTF-8 cannot hold counts as a question mark."""
    return sha256("\0".join(texts).encode(errors="replace"))


def sha256_of_json(content: Any, ascii_only: bool = False) -> str:
    """Return "sha256:" and the SHA-256 in hex of plain data, written as JSON with sorted keys.

    `ascii_only` escapes all other characters first. Existing facts files were hashed that way, existing profiles and
    baselines were not: one way for both would invalidate one of them.
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=ascii_only)
    return "sha256:" + sha256(text.encode(errors="surrogatepass"))  # of file names that are not UTF-8


LIMIT_BYTES = 256 << 20
KEPT_SHARE = 0.8  # of the limit, left after an eviction, so that the next few entries need none
LOOK_SHARE = 0.02  # of the limit: how much this process saves between two slow scans of all entries
_saved_bytes: dict[Path, int] = {}  # since the last look, by the cache's folder
DIGEST_BYTES = len(sha256(b""))
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def folder() -> Path | None:
    """Return the cache's folder, ``$XDG_CACHE_HOME/ncu-swizzle``, which may not exist yet; None without a home folder.

    As the XDG specification has it, a relative or empty XDG_CACHE_HOME does not count; nor does such a HOME.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "ncu-swizzle"
    home = Path(os.environ.get("HOME", ""))
    if not home.is_absolute():
        try:
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            return None
    return home / ".cache" / "ncu-swizzle" if home.is_absolute() else None


def load(kind: str, key: str) -> bytes | None:
    """Return an entry's content; None if it is missing or not trusted."""
    try:
        with _opened(kind) as directory:
            try:
                return _read(directory, kind, key)
            except FileNotFoundError:
                return None
            except (OSError, ValueError):
                _remove(directory, key)
    except OSError:  # no folder, or others can write to it
        pass
    return None


def save(kind: str, key: str, content: bytes) -> None:
    """Save an entry, and evict others beyond the limit. Does nothing if the cache is not writable."""
    top = folder()
    if top is None:
        return
    with contextlib.suppress(NcuSwizzleError, OSError):
        top.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        (top / kind).mkdir(PRIVATE_FOLDER, exist_ok=True)
        with _opened(kind):
            files.replace_file(top / kind / key, _digest(kind, key, content) + content, PRIVATE_FILE)
        _saved_bytes[top] = _saved_bytes.get(top, LIMIT_BYTES) + len(content)
        if _saved_bytes[top] >= LIMIT_BYTES * LOOK_SHARE:
            _saved_bytes[top] = 0
            evict(LIMIT_BYTES)


def drop(kind: str, key: str) -> bool:
    """Remove an entry with unusable content; return whether there was one."""
    try:
        with _opened(kind) as directory:
            return _remove(directory, key)
    except OSError:
        return False


def evict(limit: int) -> None:
    """Remove the least recently used entries if together they exceed the limit in bytes."""
    entries = sorted(_entries(), key=lambda entry: entry[0])
    size = sum(bytes_ for _, bytes_, _ in entries)
    if size <= limit:
        return
    for _, bytes_, file in entries:
        if size <= KEPT_SHARE * limit:
            return
        with contextlib.suppress(OSError):
            file.unlink()
        size -= bytes_


@contextlib.contextmanager
def _opened(kind: str) -> Iterator[int]:
    """Open the folder of a kind; raise OSError if there is none, or if others own it or its parent or link to it."""
    top = folder()
    if top is None or not _is_ours(os.lstat(top)):  # a link of the user's own is fine
        raise PermissionError
    with contextlib.ExitStack() as stack:
        directory = None
        for path, no_link in ((str(top), 0), (kind, os.O_NOFOLLOW)):
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | no_link, dir_fd=directory)
            stack.callback(os.close, directory)
            status = os.fstat(directory)
            if not _is_ours(status):
                raise PermissionError
            if status.st_mode & OTHERS_WRITE:  # so a permissive umask leaves it
                os.fchmod(directory, stat.S_IMODE(status.st_mode) & ~OTHERS_WRITE)
        assert directory is not None
        yield directory


def _read(directory: int, kind: str, key: str) -> bytes:
    """Return an entry's content; raise OSError or ValueError if it is not trusted."""
    handle = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_mode & OTHERS_WRITE:
            raise ValueError("others may have written it")
        if status.st_size > LIMIT_BYTES:
            raise ValueError("it is larger than the whole cache")
        with os.fdopen(handle, "rb", closefd=False) as file:
            entry = file.read()
        digest, content = entry[:DIGEST_BYTES], entry[DIGEST_BYTES:]
        if digest != _digest(kind, key, content):
            raise ValueError("it is damaged, or another entry's")
        with contextlib.suppress(OSError):  # root's
            os.utime(handle)  # used just now
        return content
    finally:
        os.close(handle)


def _digest(kind: str, key: str, content: bytes) -> bytes:
    return sha256(b"\0".join((kind.encode(), key.encode(), content))).encode()


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _remove(directory: int, key: str) -> bool:
    """Remove whatever has the entry's name, unless it is a non-empty folder; return whether it did."""
    for remove in (os.unlink, os.rmdir):
        with contextlib.suppress(OSError):
            remove(key, dir_fd=directory)
            return True
    return False


def _entries() -> Iterable[tuple[int, int, Path]]:
    """Yield each file's time of last use, size and path; unfinished ones are hidden, and left to their writers."""
    for file in (folder() or Path(os.devnull)).glob("*/[!.]*"):
        with contextlib.suppress(OSError):
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and not file.parent.is_symlink():
                yield status.st_mtime_ns, status.st_size, file
