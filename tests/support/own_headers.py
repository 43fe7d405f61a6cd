"""A kernel that hands its tile to a function of a header in another folder."""

from __future__ import annotations

from pathlib import Path

TURNED = """
template <typename T>
__device__ void turned(T (&tile)[32][32], T *out) {
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""
KERNEL = """#include "turned.cuh"

__global__ void NAME(float *out, const float *in) {
    __shared__ float ARRAY[32][32];
    ARRAY[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    turned(ARRAY, out);
}
"""
BODY = """
__device__ void NAME(float *out, const float *in) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""
DESCRIBED = """
[kernel.{name}]
source = "{source}"
entry = "{name}"
grid = 1
block = "32, 32"
include = ["include"]
args = ["out=float32[1024]:out", "in=float32[1024]:random"]
"""


def source(project: Path, name: str, array: str) -> Path:
    made = project / "src" / f"{name}.cu"
    made.write_text(KERNEL.replace("NAME", name).replace("ARRAY", array))
    return made
