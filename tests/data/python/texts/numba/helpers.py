from numba import cuda


@cuda.jit(device=True)
def put(tile, row, column, value):
    tile[row, column] = value
