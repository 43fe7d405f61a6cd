"""Kernels unlike the catalogue's, each with a conflict that is worked out by hand, and how they are launched."""

from __future__ import annotations

from pathlib import Path

SOURCES = {
    # Columns of 16-bit elements in rows of 128 bytes: 32 lanes in one bank.
    "half.cu": """
extern "C" __global__ void half_columns(const unsigned short *x, unsigned short *y, int n) {
    __shared__ unsigned short tile[64][64];
    const int bx = blockIdx.x * 64, by = blockIdx.y * 64;
    for (int r = threadIdx.y; r < 64; r += 8)
        for (int c = threadIdx.x; c < 64; c += 32) tile[r][c] = x[(by + r) * n + bx + c];
    __syncthreads();
    for (int r = threadIdx.y; r < 64; r += 8)
        for (int c = threadIdx.x; c < 64; c += 32) y[(bx + r) * n + by + c] = tile[c][r];
}
""",
    # Columns of doubles in a tile that begins in the middle of a bank row, after another array: 16 lanes of a phase.
    "double.cu": """
extern "C" __global__ void double_columns(const double *x, double *y, int n) {
    __shared__ float before[16];
    __shared__ double tile[32][32];
    if (threadIdx.x < 16 && threadIdx.y == 0) before[threadIdx.x] = n;
    const int bx = blockIdx.x * 32, by = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = x[(by + r) * n + bx + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8)
        y[(bx + r) * n + by + threadIdx.x] = tile[threadIdx.x][r] + before[r & 15];
}
""",
    # Columns of float4 in rows of 256 bytes: 8 lanes of a phase. Swizzle<3,0,3> leaves 2, Swizzle<3,0,4> none.
    "wide.cu": """
extern "C" __global__ void wide_rows(const float4 *x, float4 *y) {
    __shared__ float4 tile[32][16];
    for (int i = threadIdx.x; i < 512; i += 128) tile[i / 16][i % 16] = x[i];
    __syncthreads();
    for (int c = threadIdx.x / 32; c < 16; c += 4) y[c * 32 + threadIdx.x % 32] = tile[threadIdx.x % 32][c];
}
""",
    # Columns in rows of 24 floats, in dynamic shared memory: lanes 24 words apart use 4 banks, 8 lanes each.
    "odd.cu": """
extern __shared__ volatile float tile[];  // loads of one float each
extern "C" __global__ void odd_rows(const float *x, float *y) {
    for (int r = 0; r < 32; ++r)
        if (threadIdx.x < 24) tile[r * PITCH + threadIdx.x] = x[r * 24 + threadIdx.x];
    __syncthreads();
    for (int c = 0; c < 24; ++c) y[c * 32 + threadIdx.x] = tile[threadIdx.x * PITCH + c];
}
""",
    "clean.cu": """
extern "C" __global__ void clean(const float *x, float *y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
""",
    # The columns of a tile, and reads of it at addresses that are loaded from global memory.
    "gather.cu": """
extern "C" __global__ void gather(const int *x, float *y) {
    __shared__ float tile[32][32];
    for (int r = 0; r < 32; ++r) tile[threadIdx.x][r] = r;
    __syncthreads();
    y[threadIdx.x] = tile[x[threadIdx.x] & 31][threadIdx.x];
}
""",
    "unshared.cu": """
extern "C" __global__ void unshared(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
""",
}  # fmt: skip


def launch(*arguments: str, grid: str = "1", block: str = "32") -> tuple[str, ...]:
    return ("--grid", grid, "--block", block, *(word for argument in arguments for word in ("--arg", argument)))


SQUARE = ("--problem", "n=128")
LAUNCHES = {
    "half.cu": (*SQUARE, *launch("uint16[n,n]:random", "uint16[n,n]:out", "int32:n", grid="n//64,n//64", block="32,8")),
    "double.cu": (
        *SQUARE,
        *launch("float64[n,n]:random", "float64[n,n]:out", "int32:n", grid="n//32,n//32", block="32,8"),
    ),
    "wide.cu": launch("float32[2048]:random", "float32[2048]:out", block="128"),
    "odd.cu": (*launch("float32[768]:random", "float32[768]:out"), "--shared", "4096"),
    "clean.cu": launch("float32[32]:random", "float32[32]:out"),
    "gather.cu": launch("int32[32]:random", "float32[32]:out"),
    "unshared.cu": launch("float32[32]:random", "float32[32]:out"),
}

PROJECT = """
[kernel.half]
source = "half.cu"
problem = { n = 128 }
grid = "n//64, n//64"
block = "32, 8"
args = ["uint16[n,n]:random", "uint16[n,n]:out", "int32:n"]

[kernel.odd]
source = "odd.cu"
grid = 1
block = 32
shared = 4096
args = ["float32[768]:random", "float32[768]:out"]
[kernel.odd.variant.plain]
defines = { PITCH = 24 }
[kernel.odd.variant.padded]
defines = { PITCH = 25 }
"""


def write(folder: Path) -> None:
    """Write all sources to a folder, and a project that describes two of them."""
    for name, text in SOURCES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "ncu-swizzle.toml").write_text(PROJECT, encoding="utf-8")
