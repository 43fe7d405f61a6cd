"""Device code is found in files of all kinds; a damaged one is an error."""

import contextlib
import io
import struct
import zipfile
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.cubin import elf


def test_damaged_device_code_is_an_error() -> None:
    entry = bytes([2, 0, 1, 1]) + (64).to_bytes(4, "little") + (100).to_bytes(8, "little") + bytes(48)
    sound = elf.MAGIC + bytes([1, 0, 16, 0]) + (164).to_bytes(8, "little") + entry + bytes(100)
    (binary,) = elf.fat_binaries(sound)
    assert [(one.kind, len(one.content())) for one in binary.entries] == [(2, 100)]
    for damaged in (sound[:80], sound[:24] + b"\xff" * 8 + sound[32:]):
        with pytest.raises(DamagedFile):
            list(elf.fat_binaries(damaged))
    for packed in (b"\xff", b"\x10A\x05\x00", b"\xf0\xff", b"\x00\x00\x00"):
        compressed = elf.FatEntry(kind=1, sm=90, flags=elf.LZ4, packed=packed, size=64)
        with contextlib.suppress(DamagedFile):
            assert len(compressed.content()) <= 64


def test_lz4_repeats_what_it_wrote() -> None:
    packed = b"\x32abc\x03\x00\x10!"
    assert elf.FatEntry(kind=1, sm=90, flags=elf.LZ4, packed=packed, size=10).content() == b"abcabcabc!"


ENTRY = bytes([2, 0, 1, 1]) + (64).to_bytes(4, "little") + (8).to_bytes(8, "little") + bytes(12) + b"\x5a\0\0\0"
BINARY = elf.MAGIC + bytes([1, 0, 16, 0]) + (72).to_bytes(8, "little") + ENTRY + bytes(32) + b"7 bytes."


def archive(*members: tuple[str, bytes]) -> bytes:
    """Return an archive as GNU's ar writes it, with names of more than 15 letters in a table."""
    table = b"".join(f"{name}/\n".encode() for name, _ in members)
    parts = [b"!<arch>\n", f"{'//':<48}{len(table):<10}`\n".encode(), table, b"\n" * (len(table) % 2)]
    at = 0
    for name, content in members:
        parts += [f"{f'/{at}':<48}{len(content):<10}`\n".encode(), content, b"\n" * (len(content) % 2)]
        at += len(name) + 2
    return b"".join(parts)


def wheel(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, content in members.items():
            written.writestr(f"folder/{name.replace('_', '.')}", content)
    return file.getvalue()


def host_object(**sections: bytes) -> bytes:
    """Return an x86-64 object file with these sections, whose names begin with a point."""
    names, contents = [f".{name}" for name in sections] + [".shstrtab"], list(sections.values())
    strings = b"\0" + b"".join(f"{name}\0".encode() for name in names)
    contents.append(strings)
    headers, at = [bytes(64)], 64
    for number, (name, content) in enumerate(zip(names, contents, strict=True)):
        kind, start = 3 if number == len(sections) else 1, strings.index(f"{name}\0".encode())  # SHT_STRTAB, PROGBITS
        headers.append(struct.pack("<IIQQQQIIQQ", start, kind, 0, 0, at, len(content), 0, 0, 1, 0))
        at += len(content)
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    file = struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, len(headers), len(headers) - 1)
    return ident + file + b"".join([*contents, *headers])


def test_code_is_found_in_data_of_a_file_without_a_section_for_it(tmp_path: Path) -> None:
    for sections, units in (
        ({"data": BINARY * 2}, 2),
        ({"nv_fatbin": BINARY, "data": BINARY * 2}, 1),
        ({"rodata": BINARY}, 0),
    ):
        (tmp_path / "library.so").write_bytes(host_object(**sections))
        found = elf.images(tmp_path / "library.so")
        assert [(each.unit, each.content()) for each in found] == [(unit, b"7 bytes.") for unit in range(units)]


def test_code_is_found_in_archives_and_wheels(tmp_path: Path) -> None:
    inner = archive(
        ("of_one_translation_unit.o", BINARY), ("notes.txt", b"odd"), ("of_another_translation_unit.o", BINARY)
    )
    for content, origins in (
        (BINARY, ["a.out"]),
        (inner, ["of_one_translation_unit.o", "of_another_translation_unit.o"]),
        (wheel(lib_a=inner, code_fatbin=BINARY, notes_txt=BINARY),
         ["of_one_translation_unit.o", "of_another_translation_unit.o", "folder/code.fatbin"]),
    ):  # fmt: skip
        (tmp_path / "a.out").write_bytes(content)
        found = elf.images(tmp_path / "a.out")
        assert [(each.origin, each.unit, each.sm, each.content()) for each in found] == [
            (origin, unit, 90, b"7 bytes.") for unit, origin in enumerate(origins)
        ]
        with contextlib.suppress(DamagedFile):
            (tmp_path / "half").write_bytes(content[: len(content) * 2 // 3])
            elf.images(tmp_path / "half")


def test_what_holds_no_code_is_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(BadFile, match="holds no device code"):
        elf.images(tmp_path / "text")
