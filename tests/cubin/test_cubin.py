"""Cubins: what they say of their kernels equals what ncu said of the launches; damage is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, UnknownKernel
from ncu_swizzle.cubin import demangled, symbols
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.places import RECORDINGS
from tests.support.recordings import embedded

REPORTS = sorted(RECORDINGS.glob("*/*.ncu-rep"))
Recorded = type(lambda name: Profile)


@pytest.mark.parametrize("name", ["kernel2", "gemm-wide", "transpose-sudoku", "tma-128", "cute-8x8-plain"])
def test_registers_and_shared_memory_are_those_of_the_launch(name: str, recorded: Recorded) -> None:
    cubin, profile = embedded(name), recorded(name)
    known = cubin.attributes(symbols.only_kernel(cubin))
    assert cubin.sm == 90
    assert known.registers == profile.number("launch__registers_per_thread")
    assert known.static_shared == profile.number("launch__shared_mem_per_block_static")
    assert known.reserved_shared == profile.number("launch__shared_mem_per_block_driver")


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.stem)
def test_every_recorded_cubin_can_be_read(report: Path) -> None:
    result = container.inspect(report).results[0]
    cubin = Cubin(result.cubin, report.stem)
    assert result.function in cubin.kernels
    known = cubin.attributes(result.function)
    assert known.parameter_offset == 0x210
    assert known.parameter_bytes == max(place.offset + place.size for place in known.parameters)
    assert cubin.section(f".text.{result.function}")


def test_an_address_in_constant_memory_has_its_relocation() -> None:
    cubin = embedded("transpose-sudoku")
    (one,) = cubin.relocations(".nv.constant4")
    assert demangled.demangle(one.symbol).endswith("layout::kSquare")
    (square,) = (symbol for symbol in cubin.symbols if symbol.name == one.symbol)
    assert (square.section, square.size) == (".nv.global.init", 1024)
    assert set((cubin.section(".nv.global.init") or b"")[:32]) == set(range(32))


def test_of_several_kernels_one_has_to_be_named() -> None:
    with pytest.raises(UnknownKernel, match=r"has \d+ kernels") as caught:
        symbols.only_kernel(embedded("reference-attention"))
    assert "flash_fwd_kernel" in caught.value.hint
    assert symbols.only_kernel(embedded("kernel2")) == "kernel2"


def test_what_is_no_cubin_is_a_bad_file() -> None:
    for content in (b"", b"#include <x>", Path("/bin/sh").read_bytes()):
        with pytest.raises(BadFile, match="no"):
            Cubin(content, "x")


def test_damage_is_noticed_or_harmless() -> None:
    """Of truncated and altered copies each one is refused, or still tells what it told before."""
    whole = embedded("transpose-plain")
    before = whole.attributes(symbols.only_kernel(whole))
    random.seed(0)
    refused = 0
    for cut in range(0, len(whole.data) - 1, 371):
        with pytest.raises((BadFile, DamagedFile)):
            Cubin(whole.data[:cut], "cut")
    for _ in range(300):
        altered = bytearray(whole.data)
        altered[random.randrange(len(altered))] ^= 1 << random.randrange(8)
        try:
            cubin = Cubin(bytes(altered), "altered")
            after = [cubin.attributes(kernel) for kernel in cubin.kernels]
        except (BadFile, DamagedFile):
            refused += 1
        else:
            assert all(type(one) is type(before) for one in after)
    assert refused > 0
