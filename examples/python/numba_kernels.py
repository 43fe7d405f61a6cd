"""Numba's classics, with shared memory: transposes, a tiled product, a reduction, a histogram, a stencil."""

from numba import cuda, float32, int32

TILE, PADDED = 32, 33
WIDE = 16
BINS = 256


@cuda.jit
def transpose_plain(x, y):
    tile = cuda.shared.array((TILE, TILE), float32)
    i = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    j = cuda.blockIdx.y * TILE
    for row in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        tile[row, cuda.threadIdx.x] = x[j + row, i]
    cuda.syncthreads()
    i = cuda.blockIdx.y * TILE + cuda.threadIdx.x
    j = cuda.blockIdx.x * TILE
    for row in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        y[j + row, i] = tile[cuda.threadIdx.x, row]


@cuda.jit
def transpose_padded(x, y):
    tile = cuda.shared.array((TILE, PADDED), float32)
    i = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    j = cuda.blockIdx.y * TILE
    for row in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        tile[row, cuda.threadIdx.x] = x[j + row, i]
    cuda.syncthreads()
    i = cuda.blockIdx.y * TILE + cuda.threadIdx.x
    j = cuda.blockIdx.x * TILE
    for row in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        y[j + row, i] = tile[cuda.threadIdx.x, row]


@cuda.jit
def tiled_matmul(a, b, c):
    a_tile = cuda.shared.array((WIDE, WIDE), float32)
    b_tile = cuda.shared.array((WIDE, WIDE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], WIDE):
        a_tile[ty, tx] = a[row, start + tx]
        b_tile[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for depth in range(WIDE):
            total += a_tile[ty, depth] * b_tile[depth, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def block_sums(x, sums):
    part = cuda.shared.array(256, float32)
    thread = cuda.threadIdx.x
    part[thread] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < 256:
        if thread % (2 * step) == 0:
            part[thread] += part[thread + step]
        step *= 2
        cuda.syncthreads()
    if thread == 0:
        sums[cuda.blockIdx.x] = part[0]


@cuda.jit
def histogram(x, counts):
    here = cuda.shared.array(BINS, int32)
    thread = cuda.threadIdx.x
    here[thread] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        cuda.atomic.add(here, x[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(counts, thread, here[thread])


@cuda.jit
def stencil(x, y, scale):
    line = cuda.shared.array(258, float32)
    i, thread = cuda.grid(1), cuda.threadIdx.x
    line[thread + 1] = x[i]
    if thread == 0:
        line[0] = x[max(i - 1, 0)]
        line[257] = x[min(i + 256, x.shape[0] - 1)]
    cuda.syncthreads()
    y[i] = scale * (line[thread] + line[thread + 1] + line[thread + 2])
