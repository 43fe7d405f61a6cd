from numba import cuda, float32
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
