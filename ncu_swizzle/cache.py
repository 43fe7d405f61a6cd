"""The user's cache: anything slow to make that can be made again, in one folder with a size limit.

    cubins/         compiled kernels, by source, options and compiler    (`build.compiled`)
    disassembly/    SASS and units from NVIDIA's module                  (`ncurep.disassembly`)
    templates/      compiled templates of the report                     (`render.page`)

All of it may be deleted at any time. Beyond LIMIT_BYTES, the least recently used entries are evicted; templates, which
Jinja reads and writes itself, go by their age. Every other entry is a file that starts with the SHA-256 of its content:
a damaged or truncated one is dropped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from ncu_swizzle.digest import sha256
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import read_bytes, write_atomically

LIMIT_BYTES = 256 << 20
KEPT_SHARE = 0.8  # of the limit, left after an eviction, so that the next few entries need none
DIGEST_BYTES = len(sha256(b""))


def folder() -> Path:
    """Return the cache's folder, ``$XDG_CACHE_HOME/ncu-swizzle``; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ncu-swizzle"


def load(kind: str, key: str) -> bytes | None:
    """Return an entry's content; None if it is missing or damaged."""
    file = folder() / kind / key
    try:
        if not file.is_file():
            return None
        entry = read_bytes(file)
        digest, content = entry[:DIGEST_BYTES], entry[DIGEST_BYTES:]
        if sha256(content).encode() != digest:
            file.unlink()
            return None
        os.utime(file)  # used just now
    except (NcuSwizzleError, OSError):
        return None
    return content


def save(kind: str, key: str, content: bytes) -> None:
    """Save an entry, and evict others beyond the limit. Does nothing if the cache is not writable."""
    with contextlib.suppress(NcuSwizzleError, OSError):
        write_atomically(folder() / kind / key, sha256(content).encode() + content)
        evict(LIMIT_BYTES)


def evict(limit: int) -> None:
    """Remove the least recently used entries if together they exceed the limit in bytes."""
    files = sorted(_entries(), key=lambda entry: entry[0])
    size = sum(bytes_ for _, bytes_, _ in files)
    if size <= limit:
        return
    for _, bytes_, file in files:
        if size <= KEPT_SHARE * limit:
            return
        with contextlib.suppress(OSError):
            file.unlink()
        size -= bytes_


def _entries() -> Iterable[tuple[int, int, Path]]:
    """Yield each file's time of last use, size and path."""
    for file in folder().glob("*/*"):
        with contextlib.suppress(OSError):
            status = file.stat()
            yield status.st_mtime_ns, status.st_size, file
