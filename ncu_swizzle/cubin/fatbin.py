"""The cubins and PTX in files: programs, libraries, objects, archives, wheels, and fat binaries themselves.

A program's section .nv_fatbin holds one fat binary per translation unit. A fat binary is a header of 16 bytes (magic,
version, header's size, size of the rest) and entries: each a header with its kind, its own size, the size of its data,
the architecture and the compression, and then the cubin or PTX. The layout is undocumented; it was read off files that
nvcc 13.0 writes.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import brief, is_file, read_bytes
from ncu_swizzle.cubin.elf import MACHINE, open_elf

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER, ENTRY = 16, 64  # bytes; an entry's header may be longer
PTX, ELF = 1, 2
LZ4, ZSTD = 0x2000, 0x8000  # of an entry's flags
MOST_BYTES = 1 << 30  # of an entry, unpacked
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
DATA = ".data"  # of a file without these: cuFFT has its fat binaries there
AGAIN = "build it again"
PLAIN = "build it with nvcc --compress-mode=none, or pip install zstandard"


@dataclass(frozen=True, kw_only=True)
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
            raise DamagedFile(f"the device code is damaged: {error}", AGAIN) from error
        at = section.find(MAGIC, end)


def _entries(data: bytes) -> Iterator[FatEntry]:
    at = 0
    while at + ENTRY <= len(data):
        kind, _, header, padded, packed, _, _, sm = struct.unpack_from("<HHIQIIII", data, at)
        flags, _, size = struct.unpack_from("<QQQ", data, at + 40)
        start = at + header
        if header < ENTRY or start + padded > len(data) or packed > padded or size > MOST_BYTES:
            raise ValueError("an entry has implausible sizes")
        compressed = bool(flags & (LZ4 | ZSTD))
        yield FatEntry(
            kind=kind,
            sm=sm,
            flags=flags,
            packed=data[start : start + (packed if compressed else padded)],
            size=size or padded,
        )
        at = start + padded


def _zstd(packed: bytes, size: int) -> bytes:
    """Unpack with whatever is available: Python's own module, a package, or the system's library."""
    if importlib.util.find_spec("compression") and importlib.util.find_spec("compression.zstd"):
        module: Any = importlib.import_module("compression.zstd")
        return bytes(module.ZstdDecompressor().decompress(packed, max_length=size))
    if importlib.util.find_spec("zstandard"):
        module = importlib.import_module("zstandard")
        return bytes(module.ZstdDecompressor().decompress(packed, max_output_size=size))
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        raise EnvironmentLacking("the device code is compressed with zstd", PLAIN) from error
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    written = library.ZSTD_decompress(out, ctypes.c_size_t(size), packed, ctypes.c_size_t(len(packed)))
    if written != size:
        raise DamagedFile("the device code is damaged: zstd cannot read it", AGAIN)
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
            # A match has at least 4 bytes, and may run into those that it appends: byte by byte.
            for _ in range(length + 4):
                out.append(out[-distance])
    except (IndexError, ValueError) as error:
        raise DamagedFile(f"the device code is damaged: {error}", AGAIN) from error
    return bytes(out[:size])


def _length(packed: bytes, at: int, nibble: int) -> tuple[int, int]:
    length = nibble
    # LZ4: after 15, further bytes are added, up to and including the first below 255.
    while nibble == 15:
        more = packed[at]
        at += 1
        length += more
        nibble = 15 if more == 255 else 0
    return length, at


# Device code in files of any kind.

ARCHIVE, PACKED = b"!<arch>\n", b"PK\x03\x04"
_MEMBER = 60  # bytes of the header of an archive's member
_INSIDE = (
    ".so",
    ".o",
    ".a",
    ".cubin",
    ".ptx",
    ".fatbin",
    ".pyd",
    ".whl",
)  # names of a wheel's files that may hold code
MOST_NESTED = 3  # an object in an archive in a wheel


@dataclass(frozen=True)
class DeviceImage:
    """A cubin or PTX for one architecture, and the file, or the member of one, that it is in.

    Images of the same `unit` are of one translation unit: a program loads one of them.
    """

    origin: str
    unit: int
    kind: int
    sm: int
    entry: FatEntry

    def content(self) -> bytes:
        """Return it unpacked; raises what `FatEntry.content` raises."""
        content = self.entry.content()
        return content.rstrip(b"\0") if self.kind == PTX else content


def holds_device_code(data: bytes) -> bool:
    """Return whether a file is of a kind that can hold device code in fat binaries, by its first bytes."""
    return data[:4] in (b"\x7fELF", MAGIC, PACKED) or data[:8] == ARCHIVE


def is_built(path: Path) -> bool:
    """Return whether a file may hold compiled kernels: a program, a library, an object, an archive, a wheel."""
    if not is_file(path):
        return False
    with path.open("rb") as file:
        return holds_device_code(file.read(8))


def built_files_in(folder: Path) -> list[Path]:
    """Return the files below a folder that may hold compiled kernels, by name."""
    found: list[Path] = []
    for inside, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(inside) / name for name in sorted(files))
        found += [path for path in paths if _may_be(path) and (path.suffix == ".ptx" or is_built(path))]
    return found


def _may_be(path: Path) -> bool:
    return path.name.endswith(_INSIDE) or ".so." in path.name or (not path.suffix and os.access(path, os.X_OK))


def images(path: Path) -> list[DeviceImage]:
    """Return the device code in a program, a library, an object, an archive, a wheel or a fat binary.

    Raises BadFile if it is of another kind, and DamagedFile.
    """
    data = read_bytes(path)
    if not holds_device_code(data):
        raise BadFile(f"{path} holds no device code", "name a program, a library, an object, a cubin or PTX")
    try:
        return list(_numbered(_binaries(data, path.name, MOST_NESTED)))
    except NcuSwizzleError:
        raise
    except Exception as error:  # whatever a damaged file makes pyelftools and zipfile raise
        raise DamagedFile(f"{path} cannot be read: {brief(error)}", AGAIN) from error


def _numbered(found: Iterator[tuple[str, FatBinary]]) -> Iterator[DeviceImage]:
    for unit, (origin, binary) in enumerate(found):
        for entry in binary.entries:
            if entry.kind in (PTX, ELF):
                yield DeviceImage(origin, unit, entry.kind, entry.sm, entry)


def _binaries(data: bytes, name: str, depth: int) -> Iterator[tuple[str, FatBinary]]:
    """Yield the fat binaries in a file's bytes, each with the name of its container."""
    if data[:4] == MAGIC:
        yield from ((name, binary) for binary in fat_binaries(data))
    elif data[:4] == b"\x7fELF":
        elf = open_elf(data)
        if elf["e_machine"] == MACHINE:
            entry = FatEntry(kind=ELF, sm=0, flags=0, packed=data, size=len(data))
            yield name, FatBinary(0, (entry,))
            return
        sections = list(elf.iter_sections())
        own = [section for section in sections if section.name in SECTIONS] or [
            section for section in sections if section.name == DATA
        ]
        for section in own:
            yield from ((name, binary) for binary in fat_binaries(section.data()))
    elif depth:
        for member, content in _members(data):
            if holds_device_code(content):
                yield from _binaries(content, member, depth - 1)


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the files in an archive or a wheel that may hold device code."""
    if data[:8] == ARCHIVE:
        yield from _archive_members(data)
    elif data[:4] == PACKED:
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            for entry in wheel.infolist():
                named = os.path.basename(entry.filename)  # noqa: PTH119 - a name in an archive
                if (named.endswith(_INSIDE) or ".so." in named) and entry.file_size <= MOST_BYTES:
                    yield entry.filename, wheel.read(entry)


def _archive_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the members of a library for linking (ar, with GNU's long names)."""
    at, long_names = len(ARCHIVE), b""
    while at + _MEMBER <= len(data):
        name, size = data[at : at + 16].rstrip(), int(data[at + 48 : at + 58])
        content = data[at + _MEMBER : at + _MEMBER + size]
        if name == b"//":
            long_names = content
        elif name != b"/":
            if name[1:].isdigit() and name[:1] == b"/":
                start = int(name[1:])
                name = long_names[start : long_names.find(b"\n", start)]
            yield name.rstrip(b"/").decode(errors="replace"), content
        at += _MEMBER + size + size % 2  # members begin at even offsets
