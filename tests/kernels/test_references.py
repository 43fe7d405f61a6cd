"""References, of families and of users; what the launching program compares with them, and says without a GPU."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.kernels import __main__, check, device, fills, naming, output, project, references
from ncu_swizzle.kernels.family import Family
from ncu_swizzle.kernels.project import specs
from tests.support.own_kernel import KERNEL, description, own
from tests.support.places import table
from tests.support.refusals import refused, unlike


def naive(q: Any, k: Any, v: Any) -> Any:
    out = np.zeros_like(q)
    for row in range(len(q)):
        weights = np.array([np.exp(np.dot(q[row], key) / np.sqrt(q.shape[1])) for key in k])
        out[row] = sum(weight * value for weight, value in zip(weights, v, strict=True)) / weights.sum()
    return out


def test_large_scores_do_not_overflow() -> None:
    q = np.full((2, 4), 1e3)
    assert np.isfinite(references.attend(q, q, q, np.arange(2))).all()


def inputs(problem: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shape = (problem["batch"], problem["heads"], problem["seq"], 8)
    return {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name in "qkv"}


def test_a_small_problem_is_checked_whole() -> None:
    problem = {"batch": 2, "heads": 3, "seq": 64}
    given_ = inputs(problem)
    index, values = references.attention(given_, problem, np.random.default_rng(2))["o"]
    whole = np.full((2, 3, 64, 8), np.nan)
    whole[index] = values
    assert np.isfinite(whole).all()
    wide = {name: array.astype(np.float64) for name, array in given_.items()}
    np.testing.assert_allclose(whole[1, 2], naive(wide["q"][1, 2], wide["k"][1, 2], wide["v"][1, 2]), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_problem_is_checked_in_every_block(seed: int) -> None:
    problem = {"batch": 2, "heads": 20, "seq": 1024}
    (batch, head, rows), values = references.attention(inputs(problem), problem, np.random.default_rng(seed))["o"]
    assert values.shape == (40, 16, 8)
    assert (rows // references.ATTENTION_TILE == np.arange(16)).all()
    assert len({(int(b), int(h)) for b, h in zip(batch[:, 0], head[:, 0], strict=True)}) == 40


@pytest.mark.long
@pytest.mark.parametrize("n", [256, 1024])
def test_the_product_is_checked_in_every_block(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    rows, values = references.gemm({"a": a, "b": b}, {"n": n}, rng)["c"]
    assert len(rows) == references.GEMM_ROWS_CHECKED
    assert set(rows // 16) == set(range(n // 16)), "every fragment of 16 rows has one"
    np.testing.assert_allclose(values, (a.astype(np.float64) @ b.astype(np.float64).T)[rows], rtol=1e-12)


def described(folder: Path, code: str, reference: str = "reference.py:fn") -> Family:
    """Return a family with the reference `code`."""
    own(folder, KERNEL.replace("block", f'reference = "{reference}"\nblock'))
    (folder / "reference.py").write_text(code, encoding="utf-8")
    (spec,) = specs(project.project_in(folder / "ncu-swizzle.toml"))
    return naming.family_of(folder / "my.cu", description(), (spec,))


def expected(family: Family) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    problem = family.problem()
    found = output.expected_outputs(family, problem, fills.inputs(family, problem, rng), rng)
    return {name: values for name, (_, values) in found.items()}


def test_a_reference_is_called_with_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def turn(x): return x.T", encoding="utf-8")
    for code in (
        "def fn(x): return x.T",
        "def fn(n, x): return {'y': x.reshape(n, n).T}",
        "def fn(inputs, problem, rng): return {'y': (..., inputs['x'].T)}",
        "import helper\ndef fn(x, unused=3): return helper.turn(x)",
    ):
        family = described(tmp_path, code)
        x = fills.inputs(family, family.problem(), np.random.default_rng(1))["x"]
        assert expected(family)["y"].tolist() == x.T.astype(float).tolist(), code


def test_a_module_s_expected_is_called_as_the_catalogue_s_are(tmp_path: Path) -> None:
    family = described(tmp_path, "def expected(i, p, r): return {'y': ((0,), i['x'][:, 0])}", "reference.py")
    assert expected(family)["y"].shape == (64,)
    shipped = "ncu_swizzle.kernels.references:transposed"
    said = refused(expected, replace(family, reference=shipped))
    assert said.startswith(f"UsageError: the reference {shipped} failed: KeyError: 'in'")


WRONG = table("kernels/descriptions.toml")["references"]


def test_a_reference_that_is_wrong_or_missing_is_told(tmp_path: Path) -> None:
    told = {code: rf"^UsageError: .*{said}(?s:.*)\n  try: ." for code, said in WRONG.items()}
    assert not unlike(told, lambda code: refused(lambda: expected(described(tmp_path, code))))
    family = described(tmp_path, "")
    (tmp_path / "reference.py").unlink()
    assert "reference.py does not exist" in refused(expected, family)


def test_rows_of_zeros_are_right_or_wrong_and_nan_is_never_right() -> None:
    for out, right, error in (
        ([0, 0], [0, 0], 0), ([0, 1], [0, 0], np.inf), ([0, np.nan], [0, 0], np.inf), ([1, 1], [1, np.nan], np.inf),
    ):  # fmt: skip
        assert __main__.row_error(np.array([out, [1, 1]], float), np.array([right, [1, 1]], float)) == error, out


# ----------------------------------------------------------------------------------------- the launching program


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
    program = [sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(facts), "kernel2"]
    assert subprocess.run(program, capture_output=True, check=False).returncode == 3
    error = json.loads(facts.read_text(encoding="utf-8"))["error"]
    assert error["type"] == "EnvironmentLacking"
    assert error["hint"]


def test_a_tensor_map_that_cannot_be_is_refused_without_a_driver() -> None:
    square, no_map, rejected = (64, 64), "there is no tensor map for", "the driver rejects a tensor map of"
    impossible = {
        ("float64", square, square, 0): no_map,
        ("float16", square, (64,), 0): no_map,
        ("float16", square, square, 16): no_map,
        ("float16", square, square, 64): rejected,
        ("float16", (64, 60), (8, 8), 0): rejected,
        ("float16", square, (8, 4), 0): rejected,
        ("float16", (512, 64), (512, 8), 0): rejected,
    }
    assert not unlike(impossible, lambda row: refused(check.tiled, 0, *row))


def test_a_map_of_several_matrices_has_three_dimensions() -> None:
    tile = check.tiled(0, "bfloat16", (2, 3, 192, 128), (64, 64), 128)
    assert (tile.sizes, tile.strides, tile.box) == ((128, 192, 6), (256, 192 * 256), (64, 64, 1))
    one = check.tiled(0, "bfloat16", (192, 128), (64, 64), 128)
    assert (one.sizes, one.strides, one.box) == ((128, 192), (256,), (64, 64))
