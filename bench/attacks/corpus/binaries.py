"""Cubins and PTX with one thing changed that their format gives a meaning to."""

import re
import struct
from dataclasses import dataclass
from random import Random

_SECTIONS, _SECTION_SIZE, _SECTION_COUNT, _NAMES = 0x28, 0x3A, 0x3C, 0x3E
_HEADER_FIELDS = ((0x10, "<H"), (0x12, "<H"), (0x14, "<I"), (0x18, "<Q"), (0x20, "<Q"), (0x28, "<Q"), (0x30, "<I"),
                  (0x34, "<H"), (0x36, "<H"), (0x38, "<H"), (0x3A, "<H"), (0x3C, "<H"), (0x3E, "<H"))  # fmt: skip
_SECTION_FIELDS = ((0, "<I"), (4, "<I"), (8, "<Q"), (16, "<Q"), (24, "<Q"), (32, "<Q"), (40, "<I"), (44, "<I"), (48,
"<Q"),
                   (56, "<Q"))  # fmt: skip
_SYMBOL_FIELDS = ((0, "<I"), (4, "<B"), (5, "<B"), (6, "<H"), (8, "<Q"), (16, "<Q"))
SYMBOLS, RELOCATIONS, ADDENDS = 2, 9, 4  # section types
_ENTRY = {SYMBOLS: 24, RELOCATIONS: 16, ADDENDS: 24}


@dataclass(frozen=True)
class Section:
    """A section of an ELF file: its name, its type, where its header is and where its content."""

    name: str
    kind: int
    header: int
    start: int
    size: int


def sections(elf: bytes) -> list[Section]:
    """Return the sections of an intact 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, _SECTIONS)
    size, count, names = struct.unpack_from("<HHH", elf, _SECTION_SIZE)
    headers = [table + number * size for number in range(count)]
    (text,) = struct.unpack_from("<Q", elf, headers[names] + 24)
    found = []
    for header in headers:
        name, kind = struct.unpack_from("<II", elf, header)
        start, length = struct.unpack_from("<QQ", elf, header + 24)
        end = elf.index(b"\0", text + name)
        found.append(Section(elf[text + name : end].decode(), kind, header, start, 0 if kind == 8 else length))
    return found


def with_hostile_header(elf: bytes, chance: Random) -> bytes:
    """Return the file with one field of the ELF header changed."""
    return _field(elf, 0, *chance.choice(_HEADER_FIELDS), chance)


def with_hostile_section(elf: bytes, chance: Random) -> bytes:
    """Return the file with one field of a section's header changed."""
    return _field(elf, chance.choice(sections(elf)).header, *chance.choice(_SECTION_FIELDS), chance)


def with_hostile_symbol(elf: bytes, chance: Random) -> bytes:
    """Return the file with one field of a symbol or of a relocation changed."""
    tables = [section for section in sections(elf) if section.kind in _ENTRY and section.size]
    table = chance.choice(tables)
    size = _ENTRY[table.kind]
    entry = table.start + chance.randrange(max(1, table.size // size)) * size
    fields = (
        _SYMBOL_FIELDS if table.kind == SYMBOLS else ((0, "<Q"), (8, "<I"), (12, "<I"), (16, "<Q"))[: size // 8 + 1]
    )
    return _field(elf, entry, *chance.choice(fields), chance)


def with_damaged_section(elf: bytes, chance: Random, names: str) -> bytes:
    """Return the file with a few bytes changed in sections whose names match the expression."""
    matching = [section for section in sections(elf) if re.match(names, section.name) and section.size]
    if not matching:
        return with_hostile_section(elf, chance)
    section, changed = chance.choice(matching), bytearray(elf)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = section.start + chance.randrange(section.size)
        changed[place] = chance.choice(
            (changed[place] ^ 1 << chance.randrange(8), 0, 0xFF, 0x7F, chance.randrange(256))
        )
    return bytes(changed)


def with_hostile_names(elf: bytes, chance: Random) -> bytes:
    """Return the file with hostile letters in the names of its symbols, sections and source files."""
    text = chance.choice((b"\x1b[31m", b"\xe2\x80\xae", b"\x9b1m\xff", b"=cmd", b"<img ", b"\n::e", b"(<({", b"\0\0\0"))
    chosen = [
        s for s in sections(elf) if s.name in (".strtab", ".shstrtab", ".debug_line", ".debug_str") and s.size > 20
    ]
    section = chance.choice(chosen)
    place = section.start + chance.randrange(1, section.size - len(text))
    return elf[:place] + text + elf[place + len(text) :]


def _field(elf: bytes, base: int, offset: int, form: str, chance: Random) -> bytes:
    changed = bytearray(elf)
    most = (1 << 8 * struct.calcsize(form)) - 1
    (old,) = struct.unpack_from(form, elf, base + offset)
    new = chance.choice(
        (0, 1, most, most >> 1, (most >> 1) + 1, old + 1, old - 1, old * 2, len(elf), chance.getrandbits(64))
    )
    struct.pack_into(form, changed, base + offset, new & most)
    return bytes(changed)
