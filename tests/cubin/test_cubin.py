"""Cubins: what they say of their kernels equals what ncu said of the launches; damage is noticed."""

from collections.abc import Callable
from pathlib import Path

import ncu_report
import pytest

from ncu_swizzle.base.errors import BadFile, ProgramFailed, UnknownKernel
from ncu_swizzle.cubin import elf, lines, names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import check
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.places import DATA, RECORDINGS
from tests.support.recordings import embedded

Recorded = type(lambda name: Profile)


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


def test_an_ldmatrix_leads_back_to_its_kernel(recorded: Callable[[str], Profile]) -> None:
    profile = recorded("kernel2")
    source = profile.sources[BODY].splitlines()
    stacks = [i.stack for i in profile.instructions if i.opcode == "LDSM.16.MT88.4"]
    assert len(stacks) == 32
    for stack in stacks:
        assert stack[-1][0] == "kernels/attention/2_swizzled.cu"
        (line,) = (line for file, line in stack if file == BODY and "ldmatrix_x4_trans" in source[line - 1])
        assert line
