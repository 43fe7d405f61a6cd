"""Attention with the softmax computed on the way, so that no score leaves the chip."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    depth = tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + depth[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else length
    for start in range(0, end, BN):
        keys = start + tl.arange(0, BN)
        key = tl.load(k + head + keys[None, :] * D + depth[:, None])
        scores = tl.dot(query, key) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= keys[None, :], scores, -1e30)
        highest = tl.maximum(most, tl.max(scores, axis=1))
        weights = tl.exp2(scores - highest[:, None])
        shrunk = tl.exp2(most - highest)
        total = total * shrunk + tl.sum(weights, axis=1)
        value = tl.load(v + head + keys[:, None] * D + depth[None, :])
        result = tl.dot(weights.to(value.dtype), value, result * shrunk[:, None])
        most = highest
    result /= total[:, None]
    tl.store(out + head + rows[:, None] * D + depth[None, :], result.to(out.dtype.element_ty))


@triton.jit
def decode(q, k, v, out, length, scale, D: tl.constexpr, BN: tl.constexpr):
    """One query per program: the step that generates a token."""
    head = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, D)
    query = tl.load(q + head * D + depth).to(tl.float32)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    result = tl.zeros((D,), tl.float32)
    for start in range(0, length, BN):
        keys = start + tl.arange(0, BN)
        at = (head * length + keys[:, None]) * D + depth[None, :]
        scores = tl.sum(tl.load(k + at).to(tl.float32) * query[None, :], axis=1) * scale
        highest = tl.maximum(most, tl.max(scores, axis=0))
        weights = tl.exp2(scores - highest)
        shrunk = tl.exp2(most - highest)
        total = total * shrunk + tl.sum(weights, axis=0)
        result = result * shrunk + tl.sum(weights[:, None] * tl.load(v + at).to(tl.float32), axis=0)
        most = highest
    tl.store(out + head * D + depth, (result / total).to(out.dtype.element_ty))
