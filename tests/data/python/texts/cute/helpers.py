from cutlass import cute


@cute.jit
def put(tile, row, column, value):
    tile[row, column] = value
