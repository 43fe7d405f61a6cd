"""The launching program's parts that need no GPU: the check, and what happens without PyCUDA."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.ncurep import container
from ncu_swizzle.ncu import gpu
from ncu_swizzle.build import headers
from ncu_swizzle.launch import __main__
from ncu_swizzle.cubin import parameters
from ncu_swizzle.build import tensor_map as tensormap
from ncu_swizzle.errors import BadCatalog, EnvironmentLacking, ProgramFailed


@given(st.floats(1e-6, 0.5), st.integers(0, 2**32 - 1))
def test_one_wrong_row_counts_in_full(error: float, seed: int) -> None:
    reference = np.random.default_rng(seed).standard_normal((50, 16))
    out = reference.copy()
    out[7] *= 1 + error
    assert __main__.row_error(out, reference) == pytest.approx(error, rel=1e-6)


def test_the_right_output_has_no_error() -> None:
    reference = np.ones((3, 4))
    assert __main__.row_error(reference, reference) == 0


def test_without_a_gpu_the_facts_say_so(tmp_path: Path) -> None:
    if not gpu.absent():
        pytest.skip("there is a GPU here")
    facts = tmp_path / "facts.json"
    done = subprocess.run(
        [sys.executable, "-m", "ncu_swizzle.launch", "--facts", str(facts), "kernel2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    error = json.loads(facts.read_text(encoding="utf-8"))["error"]
    assert error["type"] == "EnvironmentLacking"
    assert error["hint"]


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


@pytest.mark.parametrize(
    ("dtype", "box", "swizzle"), [("float64", (64, 64), 0), ("float16", (64,), 0), ("float16", (64, 64), 16)]
)
def test_a_tensor_map_that_cannot_be_is_refused(dtype: str, box: tuple[int, ...], swizzle: int) -> None:
    with pytest.raises(BadCatalog, match="no tensor map of"):
        tensormap.encode(0, dtype, (64, 64), box, swizzle)


def test_headers_are_found_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someones_headers" / "include").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert headers.locate("someones_headers:include") == tmp_path / "someones_headers" / "include"
    with pytest.raises(EnvironmentLacking, match="someones_headers:lib are not installed"):
        headers.locate("someones_headers:lib")


def test_missing_cute_headers_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentLacking) as lacking:
        headers.locate("cutlass_library:source/include")
    assert lacking.value.hint == "pip install 'ncu-swizzle[cute]'"
