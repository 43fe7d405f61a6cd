"""Counts kept in the cache: packed with their arrays, and found by all that decides them.

That is the cubin, the kernel, the launch with the contents of its buffers, the disassembler's version, the settings and
the emulator's own source. An emulation that ended with an error, such as a time limit, has no counts to keep. Counts
that are unknown stay so, with their reasons: another run would give the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import types
import typing
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Union

import numpy as np

from ncu_swizzle.base import cache, paths
from ncu_swizzle.base.files import slug
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.engines.emulated_launch import Binary
from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain

# Dataclasses with NumPy arrays as bytes and back. The cache's digest vouches for the bytes, and an entry's key for the
# classes.
#
# A packed value is zlib-compressed: the length of a JSON text (8 bytes), the text, the arrays one after the other. An
# array is stored in the smallest type that holds its values, and stands in the text as {"array": its number}.

LENGTH_BYTES = 8
Arrays = list[np.ndarray]
Unpacker = Callable[[Any, Arrays], Any]  # the JSON value and the arrays → the value


def pack(value: Any) -> bytes:
    """Return a dataclass of plain values, tuples, mappings, other dataclasses and arrays of integers and booleans."""
    arrays: Arrays = []
    content = _plain(value, arrays)
    stored = [_narrowed(array) for array in arrays]
    described = [(to.dtype.str, array.dtype.str, array.shape) for to, array in zip(stored, arrays, strict=True)]
    text = json.dumps([described, content], separators=(",", ":")).encode()
    parts = [len(text).to_bytes(LENGTH_BYTES, "little"), text, *(array.tobytes() for array in stored)]
    return zlib.compress(b"".join(parts), level=1)


def unpack(kind: Any, data: bytes) -> Any:
    """Return the value of this type that was packed."""
    content = zlib.decompress(data)
    position = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    described, plain = json.loads(content[LENGTH_BYTES:position])
    arrays: Arrays = []
    for stored, dtype, shape in described:
        array = np.frombuffer(content, stored, math.prod(shape), position)
        arrays.append(array.reshape(shape).astype(dtype))  # a copy, which can be written to as the original
        position += array.nbytes
    return _unpacker(kind)(plain, arrays)


def _plain(value: Any, arrays: Arrays) -> Any:
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name), arrays) for field in dataclasses.fields(value)]
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Mapping):
        return [[_plain(key, arrays), _plain(item, arrays)] for key, item in value.items()]
    if isinstance(value, tuple):
        return [_plain(item, arrays) for item in value]
    return value.item() if isinstance(value, np.integer | np.bool_) else value


def _narrowed(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "i" or not array.size:
        return array
    return array.astype(np.min_scalar_type(min(int(array.min()), ~int(array.max()))))  # signed, and holds both


@functools.cache
def _unpacker(hint: Any) -> Unpacker:
    """Return the function that builds values of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        hints, constructed = typing.get_type_hints(hint), typing.cast(Callable[..., Any], hint)
        fields = [(field.name, _unpacker(hints[field.name])) for field in dataclasses.fields(hint)]
        return lambda value, arrays: constructed(
            **{name: unpack(part, arrays) for (name, unpack), part in zip(fields, value, strict=True)}
        )
    if origin in (Union, types.UnionType):
        (some,) = (_unpacker(argument) for argument in arguments if argument is not type(None))
        return lambda value, arrays: None if value is None else some(value, arrays)
    if origin is tuple:
        items = [_unpacker(argument) for argument in arguments if argument is not Ellipsis]
        made_of = itertools.repeat(items[0]) if Ellipsis in arguments else items
        return lambda value, arrays: tuple(unpack(part, arrays) for unpack, part in zip(made_of, value, strict=False))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = map(_unpacker, arguments)
        return lambda value, arrays: {key(k, arrays): item(v, arrays) for k, v in value}
    return lambda value, arrays: arrays[value["array"]] if isinstance(value, dict) else value


KIND = "emulations"
MOST_BYTES = 32 << 20  # of an entry: a few must not evict everything else
MOST_PACKED_BYTES = 128 << 20  # of the arrays packed into it
SOURCES = (
    "base/codes.py",
    "emulate/**/*.py",
    "emulate/approximations/*.xz",
    "smem/*.py",
    "cubin/*.py",
    "engines/*.py",
)  # of this package: what decides the counts


def key(
    binary: Binary, launch: Launch, checked: tuple[bool, ...], toolchain: Toolchain, more: tuple[str, ...] = ()
) -> str:
    """Return the name of an emulation's entry; empty if the disassembler does not work.

    `checked` are the settings that decide what it has; `more` are patterns of further sources that decide it.
    """
    disassembler = toolchain.working_version(NVDISASM)
    if not disassembler:
        return ""
    digest = hashlib.sha256()
    settings = (binary.symbol, checked, disassembler, np.__version__, code_digest((*SOURCES, *more)))
    for part in (binary.cubin.data, settings, launch):
        _feed(digest, part)
    return f"{digest.hexdigest()[:40]}-{slug(binary.symbol)}"


def load(name: str) -> Counts | None:
    """Return cached counts; None if there are none."""
    content = cache.load(KIND, name)
    return None if content is None else typing.cast(Counts, unpack(Counts, content))


def save(name: str, counts: Counts) -> None:
    """Cache counts, unless they take too much room."""
    size = sum(r.addresses.nbytes + r.active.nbytes + r.times.nbytes for r in counts.requests.values())
    if size > MOST_PACKED_BYTES:
        return
    content = pack(counts)
    if len(content) <= MOST_BYTES:
        cache.save(KIND, name, content)


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a digest: plain ones, bytes, arrays, and dataclasses, mappings and tuples of them."""
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        value = tuple(value.items())
    # Lengths go in first: ("ab", "c") and ("a", "bc") must not have the same digest.
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
def code_digest(patterns: tuple[str, ...] = SOURCES) -> str:
    """Return a digest of the emulator's source."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for file in sorted(paths.package().glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
