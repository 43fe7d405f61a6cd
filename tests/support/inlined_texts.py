"""Kernels of Numba and CuTe DSL that write shared memory in a function of another file."""

NUMBA = """from numba import cuda, float32
from helpers import put


@cuda.jit
def turn(x, y):
    tile = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    for row in range(j, 32, 8):
        put(tile, i, row, x[cuda.blockIdx.y * 32 + row, cuda.blockIdx.x * 32 + i])
    cuda.syncthreads()
    for row in range(j, 32, 8):
        y[cuda.blockIdx.x * 32 + row, cuda.blockIdx.y * 32 + i] = tile[row, i]
"""
NUMBA_NESTED = """from numba import cuda, float32
from helpers import through


@cuda.jit
def turn(x, y):
    tile = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y

    def back(row):
        return tile[row, i]

    for row in range(j, 32, 8):
        through(tile, i, row, x[cuda.blockIdx.y * 32 + row, cuda.blockIdx.x * 32 + i])
    cuda.syncthreads()
    for row in range(j, 32, 8):
        y[cuda.blockIdx.x * 32 + row, cuda.blockIdx.y * 32 + i] = back(row)
"""
NUMBA_INLINED = """# Numba inlines these itself.
from numba import cuda


@cuda.jit(device=True, inline="always")
def put(tile, row, column, value):
    tile[row, column] = value


@cuda.jit(device=True, inline="always")
def through(tile, row, column, value):
    put(tile, row, column, value)
"""
NUMBA_HELPERS = """from numba import cuda


@cuda.jit(device=True)
def put(tile, row, column, value):
    tile[row, column] = value
"""
CUTE = """import cutlass
from cutlass import cute
from helpers import put


@cute.kernel
def turned(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((32, 32)), 16)
    for row in cutlass.range_constexpr(32):
        put(tile, row, thread, x[row, thread])
    cute.arch.sync_threads()
    for row in cutlass.range_constexpr(32):
        y[row, thread] = tile[thread, row]


@cute.jit
def turn(x: cute.Tensor, y: cute.Tensor):
    turned(x, y).launch(grid=(1, 1, 1), block=(32, 1, 1))
"""
CUTE_HELPERS = """from cutlass import cute


@cute.jit
def put(tile, row, column, value):
    tile[row, column] = value
"""
