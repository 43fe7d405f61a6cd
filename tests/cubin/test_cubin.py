"""Cubins: what they say of kernels and shared arrays is what ncu said of the launches; damage is noticed."""

import itertools
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

import ncu_report
import pytest
from elftools.elf.sections import Section
from hypothesis import strategies as st

from bench.attacks.corpus import binaries, bytewise
from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError, ProgramFailed, UnknownKernel
from ncu_swizzle.cubin import elf, lines, names
from ncu_swizzle.cubin.elf import Cubin, open_elf
from ncu_swizzle.cubin.lines import LineTable, TableRow, line_table
from ncu_swizzle.cubin.names import demangle, distinct, find
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels import check
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain
from ncu_swizzle.reports import container
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA, RECORDINGS
from tests.support.properties import chances, examples, holds
from tests.support.recordings import Recorded, embedded


def test_registers_and_shared_memory_are_those_of_the_launch(recorded: Recorded) -> None:
    for name in ("kernel2", "transpose-sudoku", "tma-128"):
        cubin, profile = embedded(name), recorded(name)
        attributes = cubin.attributes(names.only_kernel(cubin))
        assert cubin.sm == 90
        assert attributes.registers == profile.number("launch__registers_per_thread")
        assert attributes.static_shared == profile.number("launch__shared_mem_per_block_static")
        assert attributes.reserved_shared == profile.number("launch__shared_mem_per_block_driver")


def test_every_recorded_cubin_can_be_read() -> None:
    for report in sorted(RECORDINGS.glob("*/*.ncu-rep")):
        result = container.inspect(report).results[0]
        cubin = Cubin(result.cubin, report.stem)
        assert result.function in cubin.kernels
        attributes = cubin.attributes(result.function)
        assert attributes.parameter_offset == 0x210, report
        ends = [place.offset + place.size for place in attributes.parameters]
        assert attributes.parameter_bytes == max(ends), report
        assert cubin.section(f".text.{result.function}"), report


def test_an_address_in_constant_memory_has_its_relocation() -> None:
    cubin = embedded("transpose-sudoku")
    (one,) = cubin.relocations(".nv.constant4")
    assert names.demangle(one.symbol).endswith("layout::kSquare")
    (square,) = (symbol for symbol in cubin.symbols if symbol.name == one.symbol)
    assert (square.section, square.size) == (".nv.global.init", 1024)
    assert set((cubin.section(".nv.global.init") or b"")[:32]) == set(range(32))


def test_of_several_kernels_one_has_to_be_named() -> None:
    with pytest.raises(UnknownKernel, match=r"has \d+ kernels") as caught:
        names.only_kernel(embedded("reference-attention"))
    assert "flash_fwd_kernel" in caught.value.hint
    assert names.only_kernel(embedded("kernel2")) == "kernel2"


def test_what_is_no_cubin_is_a_bad_file() -> None:
    for content in (b"", b"#include <x>", Path("/bin/sh").read_bytes()):
        with pytest.raises(BadFile, match="no"):
            Cubin(content, "x")


def test_an_aligned_parameter_lies_further_on(recorded_file: Callable[[str], Path]) -> None:
    (result,) = container.inspect(recorded_file("tma-128")).results
    cubin = Cubin(result.cubin, "tma-128")
    map_slot, out, n = cubin.attributes("tma_128").parameters
    assert map_slot.size == check.TENSOR_MAP_BYTES
    assert (out.offset, out.size) == (map_slot.offset + check.TENSOR_MAP_BYTES, 8)
    packed = bytes(elf.pack(cubin, "tma_128", [b"m" * 128, b"o" * 8, b"n" * 4]))
    assert packed[map_slot.offset : out.offset] == b"m" * 128
    assert packed[n.offset :] == b"n" * 4


def test_arguments_and_kernels_that_do_not_fit_the_cubin_are_told(report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    for sizes in ((8, 8, 8, 8), (8, 8, 8, 8, 8), ()):
        with pytest.raises(ProgramFailed, match=r"kernel2 takes parameters of \[8, 8, 8, 8, 4\] bytes"):
            elf.pack(Cubin(result.cubin, "kernel2"), "kernel2", [b"x" * size for size in sizes])
    with pytest.raises(ProgramFailed, match="no kernel kernel9"):
        elf.pack(Cubin(result.cubin, "kernel2"), "kernel9", [])


BODY = "kernels/attention/attention.cuh"


def test_ncu_s_location_is_always_in_the_stack(report_file: Path) -> None:
    result = container.inspect(report_file).results[0]
    table = lines.line_table(result.cubin, result.function)
    action = ncu_report.load_report(str(report_file)).range_by_idx(0).action_by_idx(0)
    addresses = action["inst_executed"].correlation_ids()
    pcs = sorted(addresses.as_uint64(k) for k in range(action["inst_executed"].num_instances()))
    located = 0
    for pc in pcs:
        source = action.source_info(pc)
        if source:
            assert (source.file_name(), source.line()) in table.stack(pc - pcs[0])
            located += 1
    assert located > 1000


def test_each_kernel_of_a_unit_has_its_own_call_stacks() -> None:
    unit = f'#include "{DATA}/kernels/inlined_in_each.cu"\n'
    content = Toolchain().compile(unit, ["-lineinfo"], ARCH, [])
    for name, call in (("_Z5firstPf", 7), ("_Z6secondPf", 13)):
        table = lines.line_table(content, name)
        stacks = {tuple(line for _, line in table.stack(row.offset)) for row in table.rows}
        assert {stack[-1] for stack in stacks if stack[0] == 2} == {call}  # line 2 is that of `turned`


def test_an_ldmatrix_leads_back_to_its_kernel(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    source = profile.sources[BODY].splitlines()
    stacks = [i.stack for i in profile.instructions if i.opcode == "LDSM.16.MT88.4"]
    assert len(stacks) == 32
    for stack in stacks:
        assert stack[-1][0] == "kernels/attention/2_swizzled.cu"
        (line,) = (line for file, line in stack if file == BODY and "ldmatrix_x4_trans" in source[line - 1])
        assert line


SOURCE = (DATA / "kernels" / "shared_arrays.cu").read_text(encoding="utf-8")


@cache
def many() -> Cubin:
    return Cubin(Toolchain().compile(SOURCE, ["-lineinfo", "-O3", "-std=c++17"], "sm_90", []), "many.cubin")


def arrays(kernel: str) -> list[SharedArray]:
    return list(shared_arrays(many(), find(many(), kernel), 4096))


@NEEDS_ALL
def test_each_kernel_has_its_own_under_the_names_of_the_source() -> None:
    assert [(array.name, array.start, array.size) for array in arrays("other")] == [("z", 1024, 16)]
    found = arrays("ns::many<32, float>")
    assert {array.name for array in found} == {"everywhere", "inner", "odd", "tile", "q", "dynamic"}
    assert len([array for array in found if array.name == "q"]) == 2
    assert [array.name for array in found if array.dynamic] == ["dynamic"]


@NEEDS_ALL
def test_they_are_aligned_and_do_not_overlap() -> None:
    for kernel in ("ns::many<32, float>", "ns::many<16, double>"):
        found = arrays(kernel)
        assert all(array.start % array.align == 0 for array in found)
        assert all(one.start + one.size <= other.start for one, other in itertools.pairwise(found))
        assert next(array for array in found if array.name == "tile").align == 128


@NEEDS_ALL
def test_nothing_is_claimed_without_the_ptx() -> None:
    bare = Cubin(Toolchain().compile(SOURCE, ["-O3", "-std=c++17"], "sm_90", []), "bare.cubin")
    assert shared_arrays(bare, find(bare, "other")) == ()


HEADER, SIZE_AT = 64, 32  # bytes of the file's header and of each section's; where the section's size is


def read_everything(data: bytes) -> None:
    """Read what any command reads of a cubin."""
    cubin = Cubin(data, "x.cubin")
    for kernel in cubin.kernels:
        slots = cubin.attributes(kernel).parameters
        distinct([demangle(kernel)])
        emulated_launch.constants(cubin, kernel)
        emulated_launch.unknown_constants(cubin, kernel)
        emulated_launch.initial(cubin)
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


DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "a header field": binaries.with_hostile_header,
    "a section's header": binaries.with_hostile_section,
    "a symbol": binaries.with_hostile_symbol,
    "names": binaries.with_hostile_names,
    "the line table": lambda data, chance: binaries.with_damaged_section(data, chance, r"\.(nv_)?debug_"),
    "attributes": lambda data, chance: binaries.with_damaged_section(data, chance, r"\.nv\.|\.note"),
    **{name: lambda data, chance, name=name: bytewise.BINARY[name](data, data, chance) for name in bytewise.BINARY},
}


@pytest.fixture(scope="module")
def recorded_cubin() -> bytes:
    return embedded("transpose-xor").data


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
            at = head + SIZE_AT
            damaged = recorded_cubin[:at] + (1 << 50).to_bytes(8, "little") + recorded_cubin[at + 8 :]
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
