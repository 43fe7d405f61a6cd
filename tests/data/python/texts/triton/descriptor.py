from triton.experimental import gluon
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
