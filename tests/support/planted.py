"""A kernel with a planted conflict, for those who look for one through the tools."""

from __future__ import annotations

from typing import Any

TRANSPOSE = """\
__global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
"""
LAUNCH: dict[str, Any] = {
    "grid": "n//32,n//32",
    "block": "32,32",
    "args": ["in=float32[n,n]:random", "out=float32[n,n]:out", "n=int32:n"],
    "problem": {"n": 128},
}
ENTRY = """
[kernel.mine]
source = "t.cu"
problem = { n = 128 }
grid = "n//32,n//32"
block = "32,32"
args = ["in=float32[n,n]:random", "out=float32[n,n]:out", "n=int32:n"]
"""
EXCESSIVE = 16 * 32 * 31  # wavefronts: 16 blocks of 32 warps, each reads a column of 32 words of one bank
