"""Cubins: what they say of their kernels equals what ncu said of the launches; damage is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, UnknownKernel
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.places import RECORDINGS
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
