"""What a cubin holds about its kernels besides code, and the cubins and PTX in files of all kinds.

``cuobjdump -elf`` prints a kernel's attributes too, from the sections ``.nv.info`` and ``.nv.info.<function>``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import io
import math
import os
import re
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, NcuSwizzleError, ProgramFailed
from ncu_swizzle.base.files import brief, is_file, read_bytes
from ncu_swizzle.smem.access import RESERVED_BYTES

MACHINE = "EM_CUDA"
PARAMETER_BANK, MAX_THREADS, REQUIRED_THREADS, REGISTERS, CLUSTER = 0x0A, 0x05, 0x10, 0x2F, 0x3D
RESERVED_FROM = 80  # ncu counts the reserved bytes from sm_80 on
FORMAT_SIZED = 4  # an attribute followed by its size in bytes; the others hold their value in place
PARAMETER, PARAMETER_2 = 0x17, 0x45  # the second form has room for parameters of any size
SIZE_SHIFT = 18  # of a parameter's size in bytes, in its attribute's last word
ADDRESS_BYTES = 4  # the fewest that a relocation writes
SYMBOL_BYTES = {32: 16, 64: 24}  # by the file's class
MOST_NAMES = 1 << 26  # characters of all symbols' names
MOST_ADDRESS = 1 << 48
MOST_SHARED = 1 << 20  # bytes of static shared memory, more than any GPU has
MOST_CONSTANT = 1 << 16  # bytes of a constant bank
UNLAUNCHABLE = (
    "only __global__ functions can be launched; a template needs an instance: template __global__ void k<32>(…);"
)
# Types of sections whose bytes are not in the file: global, local and shared memory, as CUDA calls them.
WITHOUT_BYTES = ("SHT_NOBITS", 0x70000007, 0x70000009, 0x7000000A)
VARIABLE, IN_SHARED = "STT_LOPROC", 2  # a symbol's type, and what else it says
AGAIN = "compile it again: nvcc --cubin -arch=sm_90 -lineinfo FILE.cu"


@dataclass(frozen=True)
class ParameterSlot:
    """A parameter's offset and size in the parameter buffer, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """A symbol: its section, its offset in that section and its size, in bytes.

    For a variable in shared memory, before code is linked, `offset` is the alignment.
    """

    name: str
    section: str
    offset: int
    size: int
    is_shared: bool = False


@dataclass(frozen=True, kw_only=True)
class Relocation:
    """Write the address of `symbol` plus `addend` at `offset` in a section; `kind` is CUDA's relocation type."""

    offset: int
    symbol: str
    kind: int
    addend: int


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """A kernel's properties, known before launch; sizes in bytes."""

    parameters: tuple[ParameterSlot, ...]
    parameter_offset: int  # of the parameter buffer in constant bank 0
    parameter_bytes: int
    static_shared: int
    reserved_shared: int
    registers: int
    max_threads: int  # per block; 0 if only the hardware limits them
    required_block: tuple[int, ...]  # empty if any block is allowed
    cluster: tuple[int, ...]  # empty without clusters


def open_elf(data: bytes) -> ELFFile:
    """Open an ELF file; raise ELFError, or whatever else a damaged file causes. Nothing else opens one."""
    return ELFFile(io.BytesIO(data))


class Cubin:
    """A cubin, read once. `name` is for messages."""

    def __init__(self, data: bytes, name: str) -> None:
        """Raise BadFile if it is not a cubin, DamagedFile if it is truncated or invalid."""
        self.data, self.name = data, name
        self._attributes: dict[str, Attributes] = {}
        if data[:4] != b"\x7fELF":
            raise BadFile(f"{name} is not a cubin", AGAIN)
        with self._reading():
            self.elf = open_elf(data)
            if self.elf["e_machine"] != MACHINE:
                raise BadFile(f"{name} is code for {self.elf['e_machine']}, not a cubin", AGAIN)
            self._sections: list[Section] = list(self.elf.iter_sections())
            self._named = {section.name: section for section in self._sections}
            self._check_size()
            self.symbols, self.kernels = self._names()
        if not self.kernels:
            raise BadFile(f"{name} has no kernel", UNLAUNCHABLE)

    def __reduce__(self) -> tuple[type[Cubin], tuple[bytes, str]]:
        return type(self), (self.data, self.name)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn whatever a damaged file makes pyelftools and this class raise into DamagedFile."""
        try:
            yield
        except NcuSwizzleError:
            raise
        except Exception as error:
            raise DamagedFile(f"{self.name} is damaged: {brief(error)}", AGAIN) from error

    def _check_size(self) -> None:
        end = max(s["sh_offset"] + s["sh_size"] for s in self._sections if s["sh_type"] not in WITHOUT_BYTES)
        for table in ("sh", "ph"):  # section headers and program headers
            last = self.elf[f"e_{table}off"] + self.elf[f"e_{table}num"] * self.elf[f"e_{table}entsize"]
            end = max(end, last)
        if end > len(self.data):
            raise ValueError(f"it ends at byte {len(self.data)}, {end - len(self.data)} bytes too early")

    def _names(self) -> tuple[tuple[Symbol, ...], tuple[str, ...]]:
        """Return all symbols in order, and the names of those that are kernels."""
        table = self._named.get(".symtab")
        if not isinstance(table, SymbolTableSection):
            raise ValueError("it has no symbol table")
        if table["sh_entsize"] != SYMBOL_BYTES[self.elf.elfclass]:
            raise ValueError(f"its symbols have {table['sh_entsize']} bytes each")
        symbols: list[Symbol] = []
        kernels: list[str] = []
        characters = 0
        for symbol in table.iter_symbols():
            name, index = symbol.name, symbol["st_shndx"]
            characters += len(name)
            if characters > MOST_NAMES:
                raise ValueError("its symbols' names overlap")
            if symbol["st_value"] + symbol["st_size"] > MOST_ADDRESS:
                raise ValueError(f"{name} lies at {symbol['st_value']:#x}")
            section = self._sections[index].name if isinstance(index, int) else ""
            symbols.append(
                Symbol(
                    name=name, section=section, offset=symbol["st_value"], size=symbol["st_size"],
                    is_shared=symbol["st_info"]["type"] == VARIABLE and symbol["st_other"]["local"] == IN_SHARED,
                )
            )  # fmt: skip
            # Each kernel has its own constant bank, which holds its parameters.
            function = symbol["st_info"]["type"] == "STT_FUNC" and isinstance(index, int)
            if function and f".nv.constant0.{name}" in self._named:
                kernels.append(name)
        return tuple(symbols), tuple(kernels)

    def reachable(self, kernel: str) -> tuple[int, ...]:
        """Return the numbers of the symbols of a kernel, and of each function that kernels may call."""
        others = {f".text.{other}" for other in self.kernels if other != kernel}
        return tuple(
            number
            for number, symbol in enumerate(self.symbols)
            if symbol.section.startswith(".text.") and symbol.section not in others and symbol.size
        )

    def section(self, name: str) -> bytes:
        """Return a section's bytes in the file; empty without the section, or if it only reserves memory."""
        with self._reading():
            section = self._named.get(name)
            return b"" if section is None else self._content(section)

    def size(self, name: str) -> int:
        """Return a section's size in memory; 0 if there is no such section."""
        with self._reading():
            section = self._named.get(name)
            return 0 if section is None else int(section["sh_size"])

    def _content(self, section: Section) -> bytes:
        start = section["sh_offset"]
        return b"" if section["sh_type"] in WITHOUT_BYTES else self.data[start : start + section["sh_size"]]

    @cached_property
    def sm(self) -> int:
        """The architecture's number: 90 for sm_90."""
        flags: int = self.elf["e_flags"]
        # Older files have it in the lowest byte, those of ABI 8 in the next one.
        return flags >> 8 & 0xFF if self.elf["e_ident"]["EI_ABIVERSION"] >= 8 else flags & 0xFF

    def attributes(self, kernel: str) -> Attributes:
        """Return the properties of the kernel with this symbol; raise DamagedFile."""
        if kernel not in self._attributes:
            with self._reading():
                self._attributes[kernel] = self._read_attributes(kernel)
        return self._attributes[kernel]

    def _read_attributes(self, kernel: str) -> Attributes:
        listed = list(_attribute_values(self.section(f".nv.info.{kernel}")))
        values = dict(listed)
        bank = struct.unpack("<IHH", values[PARAMETER_BANK]) if PARAMETER_BANK in values else (0, 0, 0)
        shared = self.size(f".nv.shared.{kernel}")
        if shared > MOST_SHARED:
            raise ValueError(f"{kernel} has {shared:,} bytes of static shared memory")
        # From sm_90 on, the section, if there is one, includes the driver's share.
        reserved = RESERVED_BYTES if self.sm >= RESERVED_FROM else 0
        within = RESERVED_BYTES if self.sm >= 90 and shared else 0
        threads = _words(values.get(MAX_THREADS, b""))
        return Attributes(
            parameters=_slots(listed),
            parameter_offset=bank[1],
            parameter_bytes=bank[2],
            static_shared=max(shared - within, 0),
            reserved_shared=reserved,
            registers=self._registers.get(kernel, 0),
            max_threads=math.prod(threads) if threads else 0,
            required_block=_words(values.get(REQUIRED_THREADS, b"")),
            cluster=_words(values.get(CLUSTER, b"")),
        )

    @cached_property
    def _registers(self) -> dict[str, int]:
        """Registers per thread, by function."""
        counts = {}
        for attribute, value in _attribute_values(self.section(".nv.info")):
            if attribute == REGISTERS:
                index, count = struct.unpack("<II", value)
                counts[self.symbols[index].name] = count
        return counts

    def relocations(self, section: str) -> tuple[Relocation, ...]:
        """Return the relocations that the loader would apply to a section; raise DamagedFile."""
        with self._reading():
            return tuple(self._relocations(section))

    def _relocations(self, section: str) -> Iterator[Relocation]:
        for prefix in (".rela", ".rel"):
            table: Any = self._named.get(prefix + section)
            if isinstance(table, RelocationSection):
                for entry in table.iter_relocations():
                    addend = entry["r_addend"] if entry.is_RELA() else 0
                    if entry["r_offset"] + ADDRESS_BYTES > self.size(section):
                        raise ValueError(f"a relocation at {entry['r_offset']:#x} is beyond the end of {section}")
                    name = self.symbols[entry["r_info_sym"]].name
                    yield Relocation(offset=entry["r_offset"], symbol=name, kind=entry["r_info_type"], addend=addend)

    def constants(self, kernel: str) -> Mapping[int, bytes]:
        """Return the constant banks, except bank 0 with the parameters, which a launch fills. Raises DamagedFile."""
        banks = {}
        with self._reading():
            for section in self._sections:
                match = re.fullmatch(rf"\.nv\.constant(\d{{1,2}})(\.{re.escape(kernel)})?", section.name)
                if match and match[1] != "0":
                    if section["sh_size"] > MOST_CONSTANT:
                        raise ValueError(f"{section.name} has {section['sh_size']:,} bytes")
                    banks[int(match[1])] = self._content(section) or bytes(section["sh_size"])
        return banks


def _words(value: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(value) // 4}I", value[: len(value) // 4 * 4])


def _attribute_values(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of each attribute in a .nv.info section; raise struct.error if it is damaged."""
    at = 0
    while at < len(info):
        # Four bytes: the form, the number, and 16 bits that are the size of what follows, or else the value itself.
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        sized = form == FORMAT_SIZED
        yield attribute, info[at : at + size] if sized else info[at - 2 : at]
        at += size if sized else 0


def _slots(attributes: Sequence[tuple[int, bytes]]) -> tuple[ParameterSlot, ...]:
    """Return the kernel's parameters in order, from their EIATTR_KPARAM_INFO attributes, of either form."""
    slots = []
    for attribute, value in attributes:
        if attribute == PARAMETER:
            _, ordinal, offset, last = struct.unpack("<IHHI", value)
            slots.append((ordinal, offset, last >> SIZE_SHIFT))
        elif attribute == PARAMETER_2:
            _, ordinal, offset, size, _ = struct.unpack("<IHHHH", value)
            slots.append((ordinal, offset, size))
    return tuple(ParameterSlot(offset, size) for _, offset, size in sorted(slots))


def pack(cubin: Cubin, function: str, arguments: Sequence[bytes]) -> np.void:
    """Return the parameter buffer for a launch; raise ProgramFailed if the arguments do not fit the function.

    PyCUDA packs arguments as plain C would. Parameters with larger alignment, such as a CUtensorMap, have other
    offsets, which only the cubin knows.
    """
    if function not in cubin.kernels:
        raise ProgramFailed(
            f"the compiled source has no kernel {function}", "the variant's name must match its function's"
        )
    slots = cubin.attributes(function).parameters
    sizes = [slot.size for slot in slots]
    given_sizes = [len(argument) for argument in arguments]
    if sizes != given_sizes:
        raise ProgramFailed(
            f"{function} takes parameters of {sizes} bytes, but family.toml describes {given_sizes}",
            "describe every parameter of the kernel as an [[argument]], in order",
        )
    buffer = bytearray(max((slot.offset + slot.size for slot in slots), default=0))
    for slot, argument in zip(slots, arguments, strict=True):
        buffer[slot.offset : slot.offset + slot.size] = argument
    return np.void(bytes(buffer))


MOST = 8  # variants of one family, opened once: a sweep emulates each at many sizes


def open_cubin(data: bytes, name: str) -> Cubin:
    """Return the cubin; raises what Cubin raises. Threads do not share one: it is read through a stream."""
    return _opened(data, name, threading.get_ident())


@lru_cache(maxsize=MOST)
def _opened(data: bytes, name: str, thread: int) -> Cubin:  # noqa: ARG001 - the thread is part of the key
    return Cubin(data, name)


# The cubins and PTX in files: programs, libraries, objects, archives, wheels, and fat binaries themselves.
#
# A program's section .nv_fatbin holds one fat binary per translation unit. A fat binary is a header of 16 bytes
# (magic, version, header's size, size of the rest) and entries: each a header with its kind, its own size, the size
# of its data, the architecture and the compression, and then the cubin or PTX. The layout is undocumented; it was
# read off files that nvcc 13.0 writes.

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER, ENTRY = 16, 64  # bytes; an entry's header may be longer
PTX, ELF = 1, 2
LZ4, ZSTD = 0x2000, 0x8000  # of an entry's flags
MOST_BYTES = 1 << 30  # of an entry, unpacked
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
DATA = ".data"  # of a file without these: cuFFT has its fat binaries there
REBUILD = "build it again"
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
            raise DamagedFile(f"the device code is damaged: {error}", REBUILD) from error
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
        raise DamagedFile("the device code is damaged: zstd cannot read it", REBUILD)
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
        raise DamagedFile(f"the device code is damaged: {error}", REBUILD) from error
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
        raise DamagedFile(f"{path} cannot be read: {brief(error)}", REBUILD) from error


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
