"""Kernel parameters: where the cubin says that they lie, and arguments that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.build import tensor_map as tensormap
from ncu_swizzle.cubin import parameters
from ncu_swizzle.errors import ProgramFailed
from ncu_swizzle.ncurep import container


def test_parameters_lie_where_the_cubin_wants_them(report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    places = parameters.layout(result.cubin, "kernel2")
    assert places == [(0, 8), (8, 8), (16, 8), (24, 8), (32, 4)]
    values = [bytes([number]) * size for number, (_, size) in enumerate(places)]
    assert bytes(parameters.pack(result.cubin, "kernel2", values)) == b"".join(values)


def test_an_aligned_parameter_lies_further_on(recorded_file: Callable[[str], Path]) -> None:
    (result,) = container.inspect(recorded_file("tma-128")).results
    (tensor_map, out, n) = parameters.layout(result.cubin, "tma_128")
    assert tensor_map[1] == tensormap.BYTES
    assert out == (tensor_map[0] + tensormap.BYTES, 8)
    packed = bytes(parameters.pack(result.cubin, "tma_128", [b"m" * 128, b"o" * 8, b"n" * 4]))
    assert packed[tensor_map[0] : out[0]] == b"m" * 128
    assert packed[n[0] :] == b"n" * 4


@pytest.mark.parametrize("sizes", [(8, 8, 8, 8), (8, 8, 8, 8, 8), ()])
def test_arguments_that_do_not_fit_the_kernel_are_told(sizes: tuple[int, ...], report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    with pytest.raises(ProgramFailed, match=r"kernel2 takes parameters of \[8, 8, 8, 8, 4\] bytes"):
        parameters.pack(result.cubin, "kernel2", [b"x" * size for size in sizes])


def test_a_kernel_that_is_not_in_the_cubin_is_told(report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    with pytest.raises(ProgramFailed, match="no kernel kernel9"):
        parameters.layout(result.cubin, "kernel9")
