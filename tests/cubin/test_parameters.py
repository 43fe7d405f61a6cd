"""Kernel parameters: where the cubin says that they lie, and arguments that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.cubin import elf
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import check
from ncu_swizzle.reports import container


def test_parameters_lie_where_the_cubin_wants_them(report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    cubin = Cubin(result.cubin, "kernel2")
    slots = cubin.attributes("kernel2").parameters
    assert [(slot.offset, slot.size) for slot in slots] == [(0, 8), (8, 8), (16, 8), (24, 8), (32, 4)]
    values = [bytes([number]) * slot.size for number, slot in enumerate(slots)]
    assert bytes(elf.pack(cubin, "kernel2", values)) == b"".join(values)


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
