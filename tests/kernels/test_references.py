"""The reference of each family, against a slower way to the same."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.kernels.references import attention, gemm


def naive(q: Any, k: Any, v: Any) -> Any:
    out = np.zeros_like(q)
    for row in range(len(q)):
        weights = np.array([np.exp(np.dot(q[row], key) / np.sqrt(q.shape[1])) for key in k])
        out[row] = sum(weight * value for weight, value in zip(weights, v, strict=True)) / weights.sum()
    return out


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_attend_is_softmax_of_scaled_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, 9, 4))
    np.testing.assert_allclose(attention.attend(q, k, v, np.arange(9)), naive(q, k, v), rtol=1e-12, atol=1e-14)


def test_large_scores_do_not_overflow() -> None:
    q = np.full((2, 4), 1e3)
    assert np.isfinite(attention.attend(q, q, q, np.arange(2))).all()


def inputs(problem: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shape = (problem["batch"], problem["heads"], problem["seq"], 8)
    return {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name in "qkv"}


def test_a_small_problem_is_checked_whole() -> None:
    problem = {"batch": 2, "heads": 3, "seq": 64}
    given_ = inputs(problem)
    index, values = attention.expected(given_, problem, np.random.default_rng(2))["o"]
    whole = np.full((2, 3, 64, 8), np.nan)
    whole[index] = values
    assert np.isfinite(whole).all()
    wide = {name: array.astype(np.float64) for name, array in given_.items()}
    np.testing.assert_allclose(whole[1, 2], naive(wide["q"][1, 2], wide["k"][1, 2], wide["v"][1, 2]), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_problem_is_checked_in_every_block(seed: int) -> None:
    problem = {"batch": 2, "heads": 20, "seq": 1024}
    (batch, head, rows), values = attention.expected(inputs(problem), problem, np.random.default_rng(seed))["o"]
    assert values.shape == (40, 16, 8)
    assert (rows // attention.TILE == np.arange(16)).all()
    assert len({(int(b), int(h)) for b, h in zip(batch[:, 0], head[:, 0], strict=True)}) == 40


@pytest.mark.long
@pytest.mark.parametrize("n", [256, 1024])
def test_the_product_is_checked_in_every_block(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    rows, values = gemm.expected({"a": a, "b": b}, {"n": n}, rng)["c"]
    assert len(rows) == gemm.ROWS_CHECKED
    assert set(rows // 16) == set(range(n // 16)), "every fragment of 16 rows has one"
    np.testing.assert_allclose(values, (a.astype(np.float64) @ b.astype(np.float64).T)[rows], rtol=1e-12)
