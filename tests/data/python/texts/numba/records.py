import numpy as np
from numba import cuda, from_dtype

particle = np.dtype([("x", "f4"), ("mass", "f8")])
Particle = from_dtype(particle)


@cuda.jit
def back(p, out):
    tile = cuda.shared.array(32, Particle)
    t = cuda.threadIdx.x
    tile[t] = p[t]
    cuda.syncthreads()
    out[t] = tile[31 - t].x
