"""Python files that declare launches, hold CuPy's objects, and decorate with a signature."""

DECLARED = """import triton
import triton.language as tl

NCU_SWIZZLE = {
    "turn": {
        "problem": {"n": 256},
        "grid": "n // BM, n // BN",
        "args": ["x=float32[n,n]", "y=float32[n,n]:out", "n=n", "BM=32", "BN=32"],
        "variant": {"wide": {"options": {"num_warps": 8}}, "narrow": {"options": {"num_warps": 1}}},
    },
    "small": {
        "entry": "turn",
        "grid": (1, 1),
        "args": ("x=float32[32,32]", "y=float32[32,32]:out", "n=32", "BM=32", "BN=32"),
    },
}


@triton.jit
def turn(x, y, n, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    tile = tl.load(x + i[:, None] * n + j[None, :])
    tl.store(y + j[:, None] * n + i[None, :], tl.trans(tile))


@triton.jit
def shifted(x, y, sizes, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < sizes[0]) + sizes[1], mask=i < sizes[0])
"""

# Stands for CuPy's, which needs CUDA's libraries to be imported.
RAW = '''class RawKernel:
    def __init__(self, code, name, options=()):
        self.code, self.name, self.options = code, name, options


turn = RawKernel(r"""
extern "C" __global__ void turn(const float *x, float *y, int n) {
    __shared__ float tile[32][WIDTH];
    for (int row = threadIdx.y; row < 32; row += 8)
        tile[row][threadIdx.x] = x[(blockIdx.y * 32 + row) * n + blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8)
        y[(blockIdx.x * 32 + row) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][row];
}
extern "C" __global__ void other(float *y) { y[0] = 0; }
""", "turn", options=("-DWIDTH=32", "--use_fast_math"))
odd = RawKernel("__global__ void odd() {}", "odd", options=("--maxrregcount=32",))
'''

SIGNED = """from numba import cuda, float32


@cuda.jit("void(float32[:,:], float32[:,:])")
def turn(x, y):
    tile = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    tile[j, i] = x[j, i]
    cuda.syncthreads()
    y[j, i] = tile[i, j]
"""

# In Gluon, a descriptor's layout is that of the shared memory that it is copied to.
GLUON_DESCRIPTOR = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def through(a, x, y):
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(a.dtype, [64, 64], a.layout)
    i = gl.arange(0, 64, layout=gl.SliceLayout(1, rows))
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, rows))
    tile.store(gl.load(x + i[:, None] * 64 + j[None, :]))
    down: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    i = gl.arange(0, 64, layout=gl.SliceLayout(1, down))
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, down))
    gl.store(y + i[:, None] + j[None, :] * 64, tile.load(down))
"""
