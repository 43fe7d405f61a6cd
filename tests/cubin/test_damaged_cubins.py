"""Damaged cubins are DamagedFile or BadFile, whatever is damaged, within bounds of time and memory."""

import struct
from collections.abc import Callable, Iterator
from random import Random

import pytest
from elftools.elf.sections import Section
from hypothesis import strategies as st

from bench.corpus import binaries, bytewise
from ncu_swizzle.base.errors import DamagedFile, NcuSwizzleError
from ncu_swizzle.cubin import elf, names
from ncu_swizzle.cubin.elf import Cubin, open_elf
from ncu_swizzle.cubin.lines import LineTable, TableRow, line_table
from ncu_swizzle.cubin.names import demangle, distinct
from ncu_swizzle.engines import module_image
from tests.support.properties import chances, examples, holds

HEADER = 64  # bytes of the file's header, and of each section's
FIELDS = {"name": (0, 4), "type": (4, 4), "flags": (8, 8), "offset": (24, 8), "size": (32, 8), "link": (40, 4),
          "entry size": (56, 8)}  # fmt: skip


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
    names.find(cubin, cubin.kernels[0])


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


DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "a header field": binaries.with_hostile_header,
    "a section's header": binaries.with_hostile_section,
    "a symbol": binaries.with_hostile_symbol,
    "names": binaries.with_hostile_names,
    "the line table": lambda data, chance: binaries.with_damaged_section(data, chance, r"\.(nv_)?debug_"),
    "attributes": lambda data, chance: binaries.with_damaged_section(data, chance, r"\.nv\.|\.note"),
    **{name: lambda data, chance, name=name: bytewise.BINARY[name](data, data, chance) for name in bytewise.BINARY},
}


@pytest.mark.long
@examples
def test_a_damaged_cubin_is_read_or_refused(examples: int, recorded_cubin: bytes) -> None:
    def check(name: str, chance: Random) -> None:
        refused(DAMAGES[name](recorded_cubin, chance))

    holds(examples * 3, check, st.sampled_from(list(DAMAGES)), chances)


def test_a_cubin_that_ends_early_is_refused(recorded_cubin: bytes) -> None:
    lengths = range(0, len(recorded_cubin) - 1, 371)
    assert [length for length in lengths if not refused(recorded_cubin[:length])] == []


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
    for _, section in sections(recorded_cubin):
        if section.name == ".debug_line":
            start, size = section["sh_offset"], section["sh_size"]
            program = 10 + struct.unpack_from("<I", recorded_cubin, start + 6)[0]
            number = b"\x02" + b"\x80" * (size - program - 1)
            endless = recorded_cubin[: start + program] + number + recorded_cubin[start + size :]
            assert len(endless) == len(recorded_cubin)
            assert line_table(endless, "any").rows == []
            return
    pytest.fail("the kernel has a line table")


def test_what_is_no_cubin_has_no_stack() -> None:
    for content in (b"", b"\x7fELF", b"no ELF at all"):
        assert line_table(content, "kernel2").stack(0) == ()


def test_names_that_are_not_text(recorded_cubin: bytes) -> None:
    name = Cubin(recorded_cubin, "x").kernels[0].encode()
    refused(recorded_cubin.replace(name, b"\xff" * len(name)))
    assert demangle("_Z\udcff") == "_Z\udcff"
    assert demangle("_Z1f\udcffv")
