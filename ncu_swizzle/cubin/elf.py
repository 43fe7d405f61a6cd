"""What a cubin holds about its kernels besides code: parameters, registers, shared memory, constants, symbols.

``cuobjdump -elf`` prints the attributes too, from the sections ``.nv.info`` and ``.nv.info.<function>``.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError, ProgramFailed
from ncu_swizzle.base.files import brief
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
