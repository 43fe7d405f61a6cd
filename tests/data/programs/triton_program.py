"""A program that uses Triton: a matrix is turned tile by tile."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def turn_tiles(source, target, size, TILE: tl.constexpr):  # noqa: N803 - Triton's constants are written like this
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    tile = tl.load(source + rows[:, None] * size + columns[None, :])
    tl.store(target + columns[:, None] * size + rows[None, :], tl.trans(tile))


def main(size: int) -> None:
    data = torch.rand(size, size, device="cuda")
    turned = torch.empty_like(data)
    for tile in (32, 64):
        turn_tiles[(size // tile, size // tile)](data, turned, size, TILE=tile)
    torch.cuda.synchronize()
    assert torch.equal(turned, data.T), "the matrix was not turned"
    print(f"triton_program: turned {size} x {size}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
