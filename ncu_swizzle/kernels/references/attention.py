"""Attention in float64, and as PyTorch does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ROWS_CHECKED = 2048  # of all batch * heads * seq rows; each costs 4 * seq * d_head operations
TILE = 64  # rows that one block computes


def expected(
    inputs: Mapping[str, np.ndarray], problem: Mapping[str, int], rng: np.random.Generator
) -> dict[str, tuple[Any, np.ndarray]]:
    """Return rows of softmax(QK^T / sqrt(d)) V in float64, with their index (batch, head, row) into o.

    All rows of a small problem. Of a large one, a random row of every block of randomly chosen heads, so that
    a fault in any block of those heads shows.
    """
    heads = problem["batch"] * problem["heads"]
    if heads * problem["seq"] <= ROWS_CHECKED:
        chosen = np.arange(heads)
        rows = np.tile(np.arange(problem["seq"]), (heads, 1))
    else:
        blocks = np.arange(0, problem["seq"], TILE)
        chosen = rng.permutation(heads)[: max(1, ROWS_CHECKED // len(blocks))]
        rows = blocks + rng.integers(TILE, size=(len(chosen), len(blocks)))
    batch, head = np.divmod(chosen, problem["heads"])
    values = [_head(inputs, (b, h), own) for b, h, own in zip(batch, head, rows, strict=True)]
    return {"o": ((batch[:, None], head[:, None], rows), np.stack(values))}


def _head(inputs: Mapping[str, np.ndarray], index: tuple[int, int], rows: np.ndarray) -> np.ndarray:
    q, k, v = (inputs[name][index].astype(np.float64) for name in ("q", "k", "v"))
    return attend(q, k, v, rows)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return those rows of one head's output; q, k, v are (seq, d_head)."""
    scores = q[rows] @ k.T / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=-1, keepdims=True))


def library(problem: Mapping[str, int]) -> Callable[[], object]:
    """Return a call of PyTorch's scaled_dot_product_attention, FLASH_ATTENTION backend, on random inputs."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (problem["batch"], problem["heads"], problem["seq"], 128)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def attention() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return attention
