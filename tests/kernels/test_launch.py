"""The launching program's parts that need no GPU: the check, and what happens without PyCUDA."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.kernels import __main__, check, device
from tests.support.refusals import refused, unlike


@given(st.floats(1e-6, 0.5), st.integers(0, 2**32 - 1))
def test_one_wrong_row_counts_in_full(error: float, seed: int) -> None:
    reference = np.random.default_rng(seed).standard_normal((50, 16))
    out = reference.copy()
    out[7] *= 1 + error
    assert __main__.row_error(out, reference) == pytest.approx(error, rel=1e-6)


def test_without_a_gpu_the_facts_say_so(tmp_path: Path) -> None:
    if not device.absent():
        pytest.skip("there is a GPU here")
    facts = tmp_path / "facts.json"
    done = subprocess.run(
        [sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(facts), "kernel2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    error = json.loads(facts.read_text(encoding="utf-8"))["error"]
    assert error["type"] == "EnvironmentLacking"
    assert error["hint"]


def test_a_tensor_map_that_cannot_be_is_refused_without_a_driver() -> None:
    impossible = {
        ("float64", (64, 64), (64, 64), 0): "there is no tensor map for",
        ("float16", (64, 64), (64,), 0): "there is no tensor map for",
        ("float16", (64, 64), (64, 64), 16): "there is no tensor map for",
        ("float16", (64, 64), (64, 64), 64): "the driver rejects a tensor map of",
        ("float16", (64, 60), (8, 8), 0): "the driver rejects a tensor map of",
        ("float16", (64, 64), (8, 4), 0): "the driver rejects a tensor map of",
        ("float16", (512, 64), (512, 8), 0): "the driver rejects a tensor map of",
    }
    assert not unlike(impossible, lambda row: refused(check.tiled, 0, *row))


def test_a_map_of_several_matrices_has_three_dimensions() -> None:
    tile = check.tiled(0, "bfloat16", (2, 3, 192, 128), (64, 64), 128)
    assert (tile.sizes, tile.strides, tile.box) == ((128, 192, 6), (256, 192 * 256), (64, 64, 1))
    one = check.tiled(0, "bfloat16", (192, 128), (64, 64), 128)
    assert (one.sizes, one.strides, one.box) == ((128, 192), (256,), (64, 64))
