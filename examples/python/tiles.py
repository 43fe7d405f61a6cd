"""Kernels of one program per tile of a matrix, and of one program per stretch of a vector."""

import triton
import triton.language as tl


@triton.jit
def transpose(x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    tile = tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(y + j[:, None] * rows + i[None, :], tl.trans(tile))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


@triton.jit
def column_sums(x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, rows, BM):
        i = start + tl.arange(0, BM)
        total += tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(y + j, tl.sum(total, axis=0))


@triton.jit
def row_sums(x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        j = start + tl.arange(0, BN)
        total += tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(y + i, tl.sum(total, axis=1))


@triton.jit
def column_scan(x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.arange(0, BM)
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    at = i[:, None] * columns + j[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), axis=0))


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.histogram(tl.load(x + offsets), BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), here)


@triton.jit
def dropout(x, y, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, offsets) > p
    values = tl.load(x + offsets, mask=offsets < n)
    tl.store(y + offsets, tl.where(kept, values / (1 - p), 0.0), mask=offsets < n)


@triton.jit
def rotary(x, cosine, sine, y, heads, BLOCK: tl.constexpr):
    """Rotates the halves of each head's vector: a program per position and head."""
    position, head = tl.program_id(0), tl.program_id(1)
    half = tl.arange(0, BLOCK)
    base = (position * heads + head) * BLOCK * 2
    low, high = tl.load(x + base + half), tl.load(x + base + BLOCK + half)
    c, s = tl.load(cosine + position * BLOCK + half), tl.load(sine + position * BLOCK + half)
    tl.store(y + base + half, low * c - high * s)
    tl.store(y + base + BLOCK + half, high * c + low * s)


@triton.jit
def gather_rows(table, index, y, columns, BM: tl.constexpr, BN: tl.constexpr):
    """An embedding: rows of a table by their numbers, then laid out for the columns' own programs."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    rows = tl.load(index + i)
    tile = tl.load(table + rows[:, None] * columns + j[None, :])
    tl.store(y + i[:, None] * columns + j[None, :], tile)


@triton.jit
def convolution(x, w, y, height, width, C: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """A 3x3 convolution as a matrix product, NHWC: BM pixels of a row times C channels, tap by tap."""
    row = tl.program_id(0)
    pixel = tl.program_id(1) * BM + tl.arange(0, BM)
    out = tl.program_id(2) * BN + tl.arange(0, BN)
    channel = tl.arange(0, C)
    total = tl.zeros((BM, BN), tl.float32)
    for tap in range(9):
        i, j = row + tap // 3 - 1, pixel + tap % 3 - 1
        inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
        taken = tl.load(x + (i * width + j)[:, None] * C + channel[None, :], mask=inside[:, None], other=0.0)
        weights = tl.load(w + (tap * C + channel)[:, None] * K + out[None, :])
        total = tl.dot(taken, weights, total)
    tl.store(y + (row * width + pixel)[:, None] * K + out[None, :], total.to(tl.float16))
