from numba import cuda, float32


@cuda.jit("void(float32[:,:], float32[:,:])")
def turn(x, y):
    tile = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    tile[j, i] = x[j, i]
    cuda.syncthreads()
    y[j, i] = tile[i, j]
