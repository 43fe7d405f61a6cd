"""The product of two matrices in float64, and as cuBLAS does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ROWS_CHECKED = 256  # of all n; each costs 2 n^2 operations


def expected(
    inputs: Mapping[str, np.ndarray], problem: Mapping[str, int], rng: np.random.Generator
) -> dict[str, tuple[Any, np.ndarray]]:
    """Return rows of A B^T in float64, with their index into c.

    All rows of a small problem. Of a large one a random row of every so many, over all columns: some of every block
    of C, so that a fault in any block shows.
    """
    n = problem["n"]
    if n <= ROWS_CHECKED:
        rows = np.arange(n)
    else:
        step = n // ROWS_CHECKED
        rows = np.arange(0, n, step) + rng.integers(step, size=len(range(0, n, step)))
    b = inputs["b"].astype(np.float64)
    return {"c": (rows, inputs["a"][rows].astype(np.float64) @ b.T)}


def library(problem: Mapping[str, int]) -> Callable[[], object]:
    """Return a call of torch.matmul, which is cuBLAS, on random inputs."""
    import torch

    a, b = (torch.randn((problem["n"],) * 2, dtype=torch.float16, device="cuda") for _ in range(2))
    return lambda: torch.matmul(a, b.T)
