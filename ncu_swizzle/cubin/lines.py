"""The call stack of inlined code, from the cubin's line table; which of its files are headers of a library.

``nvcc -lineinfo`` maps each instruction to a line in the innermost inlined function: for an ``ldmatrix``, that is the
helper around the PTX, the same in every kernel. The call sites are in the line table too, as an extended opcode of
NVIDIA's: for the rows that follow, it names the row that they were inlined at. (Reverse-engineered from line tables
and ``nvdisasm --print-line-info-inline``; tests compare the two.)
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from ncu_swizzle.base.validate import Count
from ncu_swizzle.cubin.elf import open_elf

# Which source files are headers of CUDA or of a library, and not the user's own, judged by their path alone.
#
# A report may come from another machine, so nothing is looked up here.

_INSTALLED = (
    r"^/usr/(local/)?(include|lib\w*|share)/",
    r"^/nix/store/",
    r"(^|/)(site|dist)-packages/",
    r"(^|/)\w*conda\d?/(envs/[^/]+/|pkgs/[^/]+/)?(include|lib)/",
    r"^/(usr/local|opt)/(nvidia/([^/]+/){0,8})?cuda[^/]*/([^/]+/){0,8}include/",
    r"(^|/)cuda(-|/v?)\d+(\.\d+)*(-\w+)*/([^/]+/){0,8}include/",  # cuda-12.4, CUDA/v12.4, cuda/12.3
    r"(^|/)targets/[\w-]+/include/",
)
# CUDA's own headers with device code, and those of libraries, wherever a copy of them lies.
_KNOWN = (
    r"(^|/)crt/\w+\.(h|hpp)$",
    r"(^|/)(device_(atomic_|double_)?functions|math_functions|vector_functions)\.(h|hpp)$",
    r"(^|/)cuda_(fp\d+|bf16|pipeline\w*|awbarrier\w*)\.(h|hpp)$",
    r"(^|/)sm_\d\d_\w+\.(h|hpp)$",
    r"(^|/)cooperative_groups(/\w+){0,8}\.(h|hpp)$",
    r"(^|/)(include|cccl|libcudacxx)/(cub|thrust|cute|cutlass|cccl|cuda/(std|__\w+))/",
    r"(^|/)cutlass/(include|tools)/",
    r"^(cute|cutlass)/",  # below an installed package's root
    r"^<",  # <built-in>
)
_LIBRARY = re.compile("|".join((*_INSTALLED, *_KNOWN)), re.IGNORECASE)
_WMMA = re.compile(r"(^|/)crt/mma\.hpp?$")


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Return whether a source file belongs to CUDA or an installed or vendored library."""
    return bool(_LIBRARY.search(_plain_path(file)))


def is_wmma(file: str) -> bool:
    """Return whether a source file is the header of ``nvcuda::wmma``."""
    return bool(_WMMA.search(_plain_path(file)))


def _plain_path(file: str) -> str:
    """Return the path with slashes, without the ``bin/..`` that nvcc writes."""
    parts: list[str] = []
    for part in file.replace("\\", "/").split("/"):
        if part == ".." and parts and parts[-1] not in ("", ".", ".."):
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


# ---------------------------------------------------------------------------------------------- line tables

Location = tuple[str, Count]  # file and line of a source

SOURCE, PTX = ".debug_line", ".nv_debug_line_sass"  # the lines of sources; the same of the PTX that the cubin keeps
_EXTENDED, _COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 0, 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS, _INLINED_AT = 1, 2, 0x90
_MOST_ROWS = 1 << 21
_MOST_LINES = 1 << 31  # of a file
_MOST_SHIFT = 63  # bits of a number, before its last byte
_BEYOND_ASCII = re.compile(rb"\\([23][0-7]{2})")  # a byte as nvcc writes it in octal digits: \303
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}  # bytes that nvcc escapes by a letter
_MOST_KEPT = 8  # tables: a sweep asks for the same ones at each of its sizes
_DEEPEST = 1000  # nested inlined calls; a damaged table may have cycles


@dataclass(frozen=True)
class TableRow:
    """One row of a line table: code from this offset in the function on comes from this location."""

    offset: int
    location: Location
    inlined_at: int  # row number of the call site, from 1; 0 for none


@dataclass
class LineTable:
    """The rows of one function, sorted by offset."""

    rows: list[TableRow] = field(default_factory=list)
    numbered: list[TableRow] = field(default_factory=list)  # all rows of its sequence, numbered as in `inlined_at`

    @classmethod
    def of_stacks(cls, stacks: Iterable[tuple[int, Sequence[Location]]]) -> LineTable:
        """Return the table in which code from each offset on, in their order, has this stack, innermost first."""
        table = cls()
        for offset, stack in stacks:
            caller = 0
            for location in reversed(stack):
                table.numbered.append(TableRow(offset, location, caller))
                caller = len(table.numbered)
            table.rows += table.numbered[-1:] if stack else []
        return table

    def stack(self, offset: int) -> tuple[Location, ...]:
        """Return the locations of the code at the offset, innermost first; empty if there are none."""
        index = bisect_right(self.rows, offset, key=lambda row: row.offset) - 1
        stack: list[Location] = []
        row = self.rows[index] if index >= 0 else None
        while row is not None and len(stack) < _DEEPEST:
            stack.append(row.location)
            number = row.inlined_at
            row = self.numbered[number - 1] if 0 < number <= len(self.numbered) else None
        return tuple(stack)


@lru_cache(maxsize=_MOST_KEPT)
def line_table(cubin: bytes, function: str, of: str = SOURCE) -> LineTable:
    """Return the line table of the function (mangled name); empty if the cubin has none, or a damaged one."""
    return _line_tables(cubin, of).get(function, LineTable())


@lru_cache(maxsize=2)
def _line_tables(cubin: bytes, of: str) -> dict[str, LineTable]:
    """Return the line tables of all functions: one section has them."""
    try:
        elf = open_elf(cubin)
        section = elf.get_section_by_name(of)
        if section is None or section.compressed:
            return {}
        start = section["sh_offset"]
        return _Program(cubin[start : start + section["sh_size"]], _relocations(elf, of)).run()
    except Exception:  # pyelftools raises whatever a damaged file causes
        return {}


def _relocations(elf: ELFFile, of: str) -> dict[int, str]:
    """Return the function whose address is stored at each offset of a line table."""
    section = elf.get_section_by_name(f".rela{of}") or elf.get_section_by_name(f".rel{of}")
    if not isinstance(section, RelocationSection):
        return {}
    symbols = elf.get_section(section["sh_link"])
    if not isinstance(symbols, SymbolTableSection):
        return {}
    return {r["r_offset"]: symbols.get_symbol(r["r_info_sym"]).name for r in section.iter_relocations()}


def _path(folder: str, name: str) -> str:
    """Return a file's path. nvcc writes bytes beyond ASCII in octal, and ends the folder at the last backslash, too."""
    path = _plain(folder)
    if "\udc80" <= path[-1:] <= "\udcff" and _BEYOND_ASCII.match(b"\\" + name.encode(errors="surrogateescape")):
        return _plain(f"{folder}\\{name}")  # a folder's name does not end with half a character
    return str(PurePosixPath(path, _plain(name)))


def _plain(text: str) -> str:
    encoded = text.encode(errors="surrogateescape")
    return _BEYOND_ASCII.sub(lambda found: bytes([int(found[1], 8)]), encoded).decode(errors="surrogateescape")


def as_listed(path: str) -> str:
    """Return how a line table lists the path of a source with unprintable characters.

    nvcc escapes them, as in C, and treats the last backslash as the end of the folder.
    """
    escaped = "".join(
        _SHORT.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in os.fsencode(path)
    )
    end = max(map(escaped.rfind, "/\\"))
    return _path(escaped[: max(end, 0)], escaped[end + 1 :])


class _Program:
    """The interpreter of a DWARF 2 line-number program (DWARF 2.0.0, section 6.2)."""

    def __init__(self, data: bytes, functions: dict[int, str]) -> None:
        self.data = data
        self.functions = functions
        self.position = 0
        self.tables: dict[str, LineTable] = {}

    def run(self) -> dict[str, LineTable]:
        while self.position < len(self.data):
            self._unit()
        for table in self.tables.values():
            table.rows.sort(key=lambda row: row.offset)  # stable: the last row of equal offsets applies
        return self.tables

    def _unit(self) -> None:
        end = self._fixed(4) + self.position
        if self._fixed(2) > 4:
            raise ValueError("the line table is DWARF 5")
        program = self._fixed(4) + self.position
        self.minimum_length = self._fixed(1)
        self._fixed(1)  # default_is_stmt
        self.line_base = int.from_bytes(self._bytes(1), "little", signed=True)
        self.line_range, self.opcode_base = self._fixed(1), self._fixed(1)
        self.operands = list(self._bytes(self.opcode_base - 1))
        folders = ["", *iter(self._string, "")]
        self.files = [""]
        while name := self._string():
            folder = folders[self._unsigned()]
            self._unsigned(), self._unsigned()  # time and size
            self.files.append(_path(folder, name))
        self.position = program
        while self.position < end:
            self._sequence(end)

    def _sequence(self, end: int) -> None:
        self.address, self.file, self.line, self.context = 0, 1, 1, 0
        self.numbered: list[TableRow] = []  # each function's rows count from 1, however many a unit has
        self.table = LineTable(numbered=self.numbered)
        while self.position < end:
            opcode = self._fixed(1)
            if opcode >= self.opcode_base:  # a special one: both address and line advance
                # DWARF 2, 6.2.5.1: the quotient advances the address, the remainder the line.
                step = opcode - self.opcode_base
                self.address += step // self.line_range * self.minimum_length
                self.line += self.line_base + step % self.line_range
                self._emit()
            elif opcode == _EXTENDED:
                if self._extended() == _END_SEQUENCE:
                    return
            elif opcode == _COPY:
                self._emit()
            elif opcode == _ADVANCE_PC:
                self.address += self._unsigned() * self.minimum_length
            elif opcode == _ADVANCE_LINE:
                self.line += self._signed()
            elif opcode == _SET_FILE:
                self.file = self._unsigned()
            elif opcode == _CONST_ADD_PC:
                # Advances like special opcode 255, the largest step, but begins no row.
                self.address += (255 - self.opcode_base) // self.line_range * self.minimum_length
            elif opcode == _FIXED_ADVANCE_PC:
                self.address += self._fixed(2)
            else:
                for _ in range(self.operands[opcode - 1]):
                    self._unsigned()

    def _emit(self) -> None:
        if not 0 <= self.line < _MOST_LINES or len(self.numbered) >= _MOST_ROWS:
            raise ValueError("a row of the line table is implausible")
        row = TableRow(self.address, (self.files[self.file], self.line), self.context)
        self.numbered.append(row)
        self.table.rows.append(row)

    def _extended(self) -> int:
        length = self._unsigned()
        end = self.position + length
        opcode = self._fixed(1)
        if opcode == _SET_ADDRESS:
            function = self.functions.get(self.position, "")
            self.address = 0 if function else self._fixed(length - 1)
            self.table = self.tables.setdefault(function, LineTable(numbered=self.numbered))
        elif opcode == _INLINED_AT:
            self.context = self._unsigned()
        self.position = end
        return opcode

    def _bytes(self, count: int) -> bytes:
        start, self.position = self.position, self.position + count
        if self.position > len(self.data):
            raise ValueError("the line table ends too early")
        return self.data[start : self.position]

    def _fixed(self, count: int) -> int:
        return int.from_bytes(self._bytes(count), "little")

    def _string(self) -> str:
        end = self.data.index(0, self.position)
        text = self.data[self.position : end].decode(errors="surrogateescape")
        self.position = end + 1
        return text

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._bytes(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _MOST_SHIFT:
                raise ValueError("a number in the line table does not end")

    def _signed(self) -> int:
        start = self.position
        value = self._unsigned()
        # Signed LEB128: 7 bits a byte, the highest of the last byte is the sign.
        bits = 7 * (self.position - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value
