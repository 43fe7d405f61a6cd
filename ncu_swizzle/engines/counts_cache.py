"""Cached emulations: the counts of a launch, by everything that decides them.

That is the cubin, the kernel, the launch with the contents of its buffers, the disassembler's version, the settings and
the emulator's own source. An emulation that ended with an error, such as a time limit, has no counts to keep. Counts
that are unknown stay so, with their reasons: another run would give the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ncu_swizzle import cache, paths
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.engines import packing
from ncu_swizzle.engines.emulated_profile import Binary
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import slug
from ncu_swizzle.smem import operations

KIND = "emulations"
MOST_BYTES = 32 << 20  # of an entry: a few must not evict everything else
SOURCES = (
    "emulate/**/*.py",
    "emulate/approximations/*.xz",
    "smem/*.py",
    "cubin/*.py",
    "engines/*.py",
)  # of this package: what decides the counts


def key(binary: Binary, launch: Launch, exhaustive: bool, disassembler: str) -> str:
    """Return the name of an emulation's entry; `disassembler` is nvdisasm's version."""
    digest = hashlib.sha256()
    settings = (binary.symbol, exhaustive, disassembler, np.__version__, _code_digest())
    for part in (binary.cubin.data, settings, launch):
        _feed(digest, part)
    return f"{digest.hexdigest()[:40]}-{slug(binary.symbol)}"


def load(name: str) -> Counts | None:
    """Return cached counts; None if there are none, or none that make sense."""
    content = cache.load(KIND, name)
    if content is None:
        return None
    try:
        counts: Counts = packing.unpack(Counts, content)
        _refuse_implausible(counts)
    except (ValueError, MemoryError, NcuSwizzleError):
        cache.drop(KIND, name)
        return None
    return counts


def save(name: str, counts: Counts) -> None:
    """Cache counts, unless they take too much room."""
    size = sum(r.addresses.nbytes + r.active.nbytes + r.times.nbytes for r in counts.requests.values())
    if size > packing.MOST_BYTES // 2:
        return
    content = packing.pack(counts)
    if len(content) <= MOST_BYTES:
        cache.save(KIND, name, content)


def _refuse_implausible(counts: Counts) -> None:
    """Raise ValueError for requests that no kernel makes; another error of ours for an unknown operation."""
    for access in counts.requests.values():
        operations.find(access.op)
        rows = len(access.times)
        arrays = [access.addresses, access.active, *([] if access.source is None else [access.source])]
        if access.times.shape != (rows,) or any(array.shape != (rows, operations.WARP) for array in arrays):
            raise ValueError("arrays of different sizes")


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a digest: plain ones, bytes, arrays, and dataclasses, mappings and tuples of them."""
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        value = tuple(value.items())
    if isinstance(value, tuple):
        digest.update(b"(%d" % len(value))
        for part in value:
            _feed(digest, part)
    elif isinstance(value, bytes):
        digest.update(b"b%d:" % len(value) + value)
    elif isinstance(value, np.ndarray):
        _feed(digest, (value.dtype.str, value.shape, value.tobytes()))
    else:
        digest.update(json.dumps(value).encode() + b",")


@functools.cache
def _code_digest() -> str:
    """Return a digest of the emulator's source."""
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for file in sorted(paths.package().glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
