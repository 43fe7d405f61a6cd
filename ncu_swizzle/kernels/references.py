"""What the shipped kernels must compute, in float64: a function per problem, and what a library calls for the same.

Each returns ``{output: (index, values)}``, see `output`. ``NAME_library(problem)`` returns a call on random inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Inputs = Mapping[str, np.ndarray]
References = dict[str, tuple[Any, np.ndarray]]


def copied(inputs: Inputs) -> References:
    """Return all of in."""
    return {"out": (..., inputs["in"].astype(np.float64))}


def transposed(inputs: Inputs) -> References:
    """Return all of in^T, (n, n)."""
    return {"out": (..., inputs["in"].T.astype(np.float64))}


def row_sums(inputs: Inputs) -> References:
    """Return the sum over the last axis, added up in float64."""
    return {"out": (..., inputs["in"].sum(axis=-1, dtype=np.float64))}


GEMM_ROWS_CHECKED = 256  # of all n; each costs 2 n^2 operations


def gemm(inputs: Inputs, problem: Mapping[str, int], rng: np.random.Generator) -> References:
    """Return rows of A B^T, (rows, n), with their index into c.

    All rows of a small problem. Of a large one a random row of every so many, over all columns: some of every block
    of C, so that a fault in any block shows.
    """
    n = problem["n"]
    if n <= GEMM_ROWS_CHECKED:
        rows = np.arange(n)
    else:
        step = n // GEMM_ROWS_CHECKED
        rows = np.arange(0, n, step) + rng.integers(step, size=len(range(0, n, step)))
    b = inputs["b"].astype(np.float64)
    return {"c": (rows, inputs["a"][rows].astype(np.float64) @ b.T)}


def mxf8(inputs: Inputs, problem: Mapping[str, int], rng: np.random.Generator) -> References:
    """Return rows of A B^T, each 32 values of a row times 2^(x - 127), (rows, n), with their index into c."""

    def scaled(name: str) -> np.ndarray:
        exponents = inputs[f"scales_{name}"].astype(np.int32) - 127
        return np.ldexp(inputs[name].astype(np.float64), exponents.repeat(32, axis=1))

    return gemm({"a": scaled("a"), "b": scaled("b")}, problem, rng)


def gemm_library(problem: Mapping[str, int]) -> Callable[[], object]:
    """Return a call of torch.matmul, which is cuBLAS."""
    import torch

    a, b = (torch.randn((problem["n"],) * 2, dtype=torch.float16, device="cuda") for _ in range(2))
    return lambda: torch.matmul(a, b.T)


ATTENTION_ROWS_CHECKED = 2048  # of all batch * heads * seq rows; each costs 4 * seq * d_head operations
ATTENTION_TILE = 64  # rows that one block computes


def attention(inputs: Inputs, problem: Mapping[str, int], rng: np.random.Generator) -> References:
    """Return rows of softmax(QK^T / sqrt(d)) V, (heads, rows, d_head), with their index (batch, head, row) into o.

    All rows of a small problem. Of a large one, a random row of every block of randomly chosen heads, so that
    a fault in any block of those heads shows.
    """
    heads = problem["batch"] * problem["heads"]
    if heads * problem["seq"] <= ATTENTION_ROWS_CHECKED:
        chosen = np.arange(heads)
        rows = np.tile(np.arange(problem["seq"]), (heads, 1))
    else:
        blocks = np.arange(0, problem["seq"], ATTENTION_TILE)
        chosen = rng.permutation(heads)[: max(1, ATTENTION_ROWS_CHECKED // len(blocks))]
        rows = blocks + rng.integers(ATTENTION_TILE, size=(len(chosen), len(blocks)))
    batch, head = np.divmod(chosen, problem["heads"])
    values: list[np.ndarray] = []
    for index in zip(batch, head, strict=True):
        q, k, v = (inputs[name][index].astype(np.float64) for name in ("q", "k", "v"))
        values.append(attend(q, k, v, rows[len(values)]))
    return {"o": ((batch[:, None], head[:, None], rows), np.stack(values))}


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return those rows of one head's output; q, k, v are (seq, d_head)."""
    scores = q[rows] @ k.T / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=-1, keepdims=True))


def attention_library(problem: Mapping[str, int]) -> Callable[[], object]:
    """Return a call of PyTorch's scaled_dot_product_attention, FLASH_ATTENTION backend."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (problem["batch"], problem["heads"], problem["seq"], 128)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def call() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return call
