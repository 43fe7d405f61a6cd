# Numba inlines these itself.
from numba import cuda


@cuda.jit(device=True, inline="always")
def put(tile, row, column, value):
    tile[row, column] = value


@cuda.jit(device=True, inline="always")
def through(tile, row, column, value):
    put(tile, row, column, value)
