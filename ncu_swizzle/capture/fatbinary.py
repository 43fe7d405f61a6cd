"""The cubins and PTX in a program: its section .nv_fatbin, which holds one fat binary per translation unit.

A fat binary is a header of 16 bytes (magic, version, header's size, size of the rest) and entries: each a header with
its kind, its own size, that of what follows, the architecture and the compression, and then the cubin or PTX. The
layout is documented nowhere; it was read off what nvcc 13.0 writes.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ncu_swizzle.errors import DamagedFile, EnvironmentLacking

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER, ENTRY = 16, 64  # bytes; an entry's header may be longer
PTX, ELF = 1, 2
LZ4, ZSTD = 0x2000, 0x8000  # of an entry's flags
MOST_BYTES = 1 << 30  # of an entry, unpacked
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
PLAIN = "build the program with nvcc --compress-mode=none, or pip install zstandard"


@dataclass(frozen=True)
class FatEntry:
    """A cubin or PTX: its kind, the number of its architecture, and its content."""

    kind: int
    sm: int
    flags: int
    packed: bytes
    size: int  # unpacked

    def content(self) -> bytes:
        """Return it unpacked; raise DamagedFile, or EnvironmentLacking if nothing here can unpack it."""
        if self.flags & ZSTD:
            return _zstd(self.packed, self.size)
        return _lz4(self.packed, self.size) if self.flags & LZ4 else self.packed


@dataclass(frozen=True)
class FatBinary:
    """One translation unit's code; the checksum is that of all its bytes."""

    checksum: int
    entries: tuple[FatEntry, ...]


def fat_binaries(section: bytes) -> Iterator[FatBinary]:
    """Yield the fat binaries in a section; raise DamagedFile."""
    at = section.find(MAGIC)
    while at >= 0:
        try:
            _, _, header, size = struct.unpack_from("<IHHQ", section, at)
            end = at + header + size
            if header != HEADER or end > len(section):
                raise ValueError("a fat binary ends beyond its section")
            yield FatBinary(zlib.crc32(section[at:end]), tuple(_entries(section[at + header : end])))
        except (struct.error, ValueError) as error:
            raise DamagedFile(f"the program's device code is damaged: {error}", "build the program again") from error
        at = section.find(MAGIC, end)


def _entries(data: bytes) -> Iterator[FatEntry]:
    at = 0
    while at + ENTRY <= len(data):
        kind, _, header, padded, packed, _, _, sm = struct.unpack_from("<HHIQIIII", data, at)
        flags, _, size = struct.unpack_from("<QQQ", data, at + 40)
        start = at + header
        if header < ENTRY or start + padded > len(data) or packed > padded or size > MOST_BYTES:
            raise ValueError("an entry's sizes cannot be")
        compressed = bool(flags & (LZ4 | ZSTD))
        yield FatEntry(kind, sm, flags, data[start : start + (packed if compressed else padded)], size or padded)
        at = start + padded


def _zstd(packed: bytes, size: int) -> bytes:
    """Unpack with what there is: Python's own module, a package, or the system's library."""
    if importlib.util.find_spec("compression") and importlib.util.find_spec("compression.zstd"):
        module: Any = importlib.import_module("compression.zstd")
        return bytes(module.decompress(packed))
    if importlib.util.find_spec("zstandard"):
        module = importlib.import_module("zstandard")
        return bytes(module.ZstdDecompressor().decompress(packed, max_output_size=size))
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        raise EnvironmentLacking("the program's device code is compressed with zstd", PLAIN) from error
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    written = library.ZSTD_decompress(out, ctypes.c_size_t(size), packed, ctypes.c_size_t(len(packed)))
    if written != size:
        raise DamagedFile("the program's device code is damaged: zstd cannot read it", "build the program again")
    return out.raw


def _lz4(packed: bytes, size: int) -> bytes:
    """Unpack an LZ4 block."""
    out, at = bytearray(), 0
    try:
        while at < len(packed) and len(out) < size:
            token = packed[at]
            at += 1
            length, at = _length(packed, at, token >> 4)
            out += packed[at : at + length]
            at += length
            if at >= len(packed):
                break
            distance = packed[at] | packed[at + 1] << 8
            length, at = _length(packed, at + 2, token & 15)
            if not 0 < distance <= len(out):
                raise ValueError("an offset beyond the start")
            for _ in range(length + 4):
                out.append(out[-distance])
    except (IndexError, ValueError) as error:
        raise DamagedFile(f"the program's device code is damaged: {error}", "build the program again") from error
    return bytes(out[:size])


def _length(packed: bytes, at: int, nibble: int) -> tuple[int, int]:
    length = nibble
    while nibble == 15:
        more = packed[at]
        at += 1
        length += more
        nibble = 15 if more == 255 else 0
    return length, at
