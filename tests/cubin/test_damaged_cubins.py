"""Damaged cubins are DamagedFile or BadFile, whatever is damaged, within bounds of time and memory."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from elftools.elf.sections import Section

from ncu_swizzle.base.errors import DamagedFile, NcuSwizzleError
from ncu_swizzle.cubin import elf, symbols
from ncu_swizzle.cubin.demangled import demangle, distinct
from ncu_swizzle.cubin.elf import Cubin, open_elf
from ncu_swizzle.cubin.lines import LineTable, TableRow, line_table
from ncu_swizzle.engines import module_image

HEADER = 64  # bytes of the file's header, and of each section's
FIELDS = {"name": (0, 4), "type": (4, 4), "flags": (8, 8), "offset": (24, 8), "size": (32, 8), "link": (40, 4),
          "entry size": (56, 8)}  # fmt: skip
EXTREMES = (0, 1, 7, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1)


def read_everything(data: bytes) -> None:
    """Read what any command reads of a cubin."""
    cubin = Cubin(data, "x.cubin")
    for kernel in cubin.kernels:
        slots = cubin.attributes(kernel).parameters
        distinct([demangle(kernel)])
        module_image.constants(cubin, kernel)
        module_image.unknown_constants(cubin, kernel)
        module_image.initial(cubin)
        table = line_table(data, kernel)
        for offset in range(0, 4096, 16):
            table.stack(offset)
        elf.pack(cubin, kernel, [bytes(slot.size) for slot in slots])
    symbols.find(cubin, cubin.kernels[0])


def refused(data: bytes) -> str:
    """Return how reading is refused; empty if it is not. Anything else than our errors passes through."""
    try:
        read_everything(data)
    except NcuSwizzleError as error:
        return str(error)
    return ""


def sections(data: bytes) -> Iterator[tuple[int, Section]]:
    """Yield where the header of each section is, and the section."""
    start = struct.unpack_from("<Q", data, 40)[0]
    for number, section in enumerate(open_elf(data).iter_sections()):
        yield start + HEADER * number, section


def changed(data: bytes, at: int, width: int, value: int) -> bytes:
    return data[:at] + (value % (1 << 8 * width)).to_bytes(width, "little") + data[at + width :]


@pytest.mark.long
@pytest.mark.parametrize("field", FIELDS)
def test_any_header_of_a_section_may_be_wrong(field: str, recorded_cubin: bytes) -> None:
    at, width = FIELDS[field]
    answers = {
        refused(changed(recorded_cubin, head + at, width, value))
        for head, _ in sections(recorded_cubin)
        for value in EXTREMES
    }
    assert any(answers) == (field != "flags"), "flags are not read"
    assert all("x.cubin" in answer for answer in answers if answer)


@pytest.mark.long
def test_any_symbol_may_be_wrong(recorded_cubin: bytes) -> None:
    table = next(section for _, section in sections(recorded_cubin) if section.name == ".symtab")
    for number in range(table.num_symbols()):
        for at, width in ((0, 4), (6, 2), (8, 8), (16, 8)):
            for value in EXTREMES:
                refused(changed(recorded_cubin, table["sh_offset"] + 24 * number + at, width, value))


@pytest.mark.long
def test_any_attribute_or_line_may_be_wrong(recorded_cubin: bytes) -> None:
    for _, section in sections(recorded_cubin):
        if section.name.startswith((".nv.info", ".debug_line", ".rel", ".nv.constant")):
            for at in range(section["sh_offset"], section["sh_offset"] + section["sh_size"], 5):
                for byte in (0, 0x7F, 0x80, 0xFF):
                    refused(changed(recorded_cubin, at, 1, byte))


@pytest.mark.parametrize("seed", range(200))
def test_random_damage(seed: int, recorded_cubin: bytes) -> None:
    rng = random.Random(seed)
    data = bytearray(recorded_cubin)
    for _ in range(rng.choice((1, 2, 8, 64))):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at : at + 8] = struct.pack("<Q", rng.choice(EXTREMES))
            case 2:
                del data[at : at + rng.randrange(1, 64)]
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 64))
    refused(bytes(data))


def test_reserved_memory_of_any_size_is_not_allocated(recorded_cubin: bytes) -> None:
    """A section without contents in the file can claim any size."""
    for head, section in sections(recorded_cubin):
        if section.name.startswith(".nv.shared."):
            damaged = changed(recorded_cubin, head + FIELDS["size"][0], 8, 1 << 50)
            with pytest.raises(DamagedFile, match="static shared memory"):
                read_everything(damaged)
            return
    pytest.fail("the kernel has shared memory")


def test_a_line_table_with_cycles_or_without_an_end(recorded_cubin: bytes) -> None:
    rows = [TableRow(0, ("k.cu", 1), 2), TableRow(0, ("k.cu", 2), 1)] * 10_000
    table = LineTable(rows[:1], rows)
    assert len(table.stack(0)) <= 1000
    for at, section in sections(recorded_cubin):
        if section.name == ".debug_line":
            start, size = section["sh_offset"], section["sh_size"]
            program = 10 + struct.unpack_from("<I", recorded_cubin, start + 6)[0]
            endless = (
                recorded_cubin[: start + program]
                + b"\x02"
                + b"\x80" * (size - program - 1)
                + recorded_cubin[start + size :]
            )
            assert len(endless) == len(recorded_cubin), at
            assert line_table(endless, "any").rows == []
            return
    pytest.fail("the kernel has a line table")


def test_names_that_are_not_text(recorded_cubin: bytes) -> None:
    name = Cubin(recorded_cubin, "x").kernels[0].encode()
    refused(recorded_cubin.replace(name, b"\xff" * len(name)))
    assert demangle("_Z\udcff") == "_Z\udcff"
    assert demangle("_Z1f\udcffv")
