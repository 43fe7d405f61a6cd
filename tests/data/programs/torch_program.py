"""A program that uses PyTorch: softmax, a histogram with a real conflict, and a matrix product."""

from __future__ import annotations

import sys

import torch


def main(size: int) -> None:
    torch.manual_seed(7)
    data = torch.rand(size, size, device="cuda")
    shares = torch.softmax(data, dim=1)
    with torch.cuda.nvtx.range("histogram"):
        counts = torch.histc(data, bins=64, min=0.0, max=1.0)
    product = data.half() @ data.half()
    torch.cuda.synchronize()
    print(f"torch_program: {shares.sum().item():.1f} {int(counts.sum().item())} {product.shape}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
