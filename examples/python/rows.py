"""Kernels of one program per row: softmax, normalisations, loss, reductions, scans."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + offsets, (powers / tl.sum(powers, axis=0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def online_softmax(x, y, columns, BLOCK: tl.constexpr):
    """Rows of any length, in two passes."""
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
        highest = tl.maximum(most, tl.max(values, axis=0))
        total = total * tl.exp(most - highest) + tl.sum(tl.exp(values - highest), axis=0)
        most = highest
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
        tl.store(y + row * columns + offsets, tl.exp(values - most) / total, mask=offsets < columns)


@triton.jit
def layer_norm(x, y, weight, bias, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(weight + offsets, mask=inside)
    b = tl.load(bias + offsets, mask=inside)
    tl.store(y + row * columns + offsets, (centred * scale * w + b).to(y.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm_backward(x, dy, weight, dx, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    slopes = tl.load(dy + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    plain = centred * scale
    weighted = slopes * tl.load(weight + offsets, mask=inside, other=0.0)
    along = tl.sum(plain * weighted, axis=0) / columns
    level = tl.sum(weighted, axis=0) / columns
    tl.store(dx + row * columns + offsets, (weighted - plain * along - level) * scale, mask=inside)


@triton.jit
def rms_norm(x, y, weight, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values, axis=0) / columns + eps)
    w = tl.load(weight + offsets, mask=inside)
    tl.store(y + row * columns + offsets, (values * scale * w).to(y.dtype.element_ty), mask=inside)


@triton.jit
def cross_entropy(logits, target, loss, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(logits + row * classes + offsets, mask=offsets < classes, other=-float("inf")).to(tl.float32)
    most = tl.max(values, axis=0)
    total = tl.log(tl.sum(tl.exp(values - most), axis=0)) + most
    right = tl.load(logits + row * classes + tl.load(target + row))
    tl.store(loss + row, total - right)


@triton.jit
def argmax(x, best, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * columns + tl.arange(0, BLOCK))
    tl.store(best + row, tl.argmax(values, axis=0))


@triton.jit
def cumsum(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * columns + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.cumsum(tl.load(x + offsets), axis=0))


@triton.jit
def sort(x, y, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.sort(tl.load(x + offsets)))


@triton.jit
def swiglu(gate, up, y, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    g = tl.load(gate + offsets).to(tl.float32)
    tl.store(y + offsets, (g * tl.sigmoid(g) * tl.load(up + offsets)).to(y.dtype.element_ty))
