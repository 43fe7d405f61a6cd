"""Operators of PyTorch whose kernels follow data or conflict: sort, topk, histc, cumsum, attention, convolution, norms.

Inputs are made on the CPU and copied, so that every launch is an operator's own.
"""

from __future__ import annotations

import sys

import torch
from torch.nn import functional


def numbers(*shape: int) -> torch.Tensor:
    """Return numbers of 12 bits each, so that a capture of them compresses."""
    return (torch.randint(0, 4096, shape) / 4096).cuda()


def halves(*shape: int) -> torch.Tensor:
    return (torch.randint(-8, 8, shape) / 8).half().cuda()


def main(size: int) -> None:
    """`size`: elements of what is sorted; other operators take as many, or a fixed part."""
    torch.manual_seed(7)
    torch.backends.cudnn.benchmark = False
    rows = max(size // 2048, 2)
    flat, table = numbers(size), numbers(rows, min(size // 2, 2048))
    done = [
        torch.sort(flat)[0],
        torch.sort(table, dim=1)[0],
        torch.sort(table[:, :200].contiguous(), dim=1)[1],
        torch.topk(flat, 32)[0],
        torch.topk(table, 16, dim=1)[0],
        torch.histc(flat, bins=64, min=0.0, max=1.0),
        torch.cumsum(flat, 0),
        torch.cumsum(table, 1),
        torch.cumsum(table, 0),
        torch.softmax(table, 1),
        torch.unique(flat[: size // 4]),
    ]
    heads, length = (4, 512) if size >= 1 << 15 else (1, 128)
    query, key, value = (halves(1, heads, length, 64) for _ in range(3))
    done.append(functional.scaled_dot_product_attention(query, key, value, is_causal=True))
    edge = 512 if size >= 1 << 15 else 128
    left, right = halves(edge, edge), halves(edge, edge)
    done.append(left @ right)
    done.append(functional.layer_norm(left, (edge,)))
    image, weights = halves(4, 32, 28, 28), halves(64, 32, 3, 3)
    done.append(functional.conv2d(image, weights, padding=1))
    done.append(table.t().contiguous())
    done.append(table.sum(1))
    torch.cuda.synchronize()
    print(f"torch_operators: {len(done)} operators, {sum(each.numel() for each in done):,} elements", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 16)
