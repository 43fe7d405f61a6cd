"""A transpose in Gluon: the layout in shared memory is the author's, and decides whether it conflicts."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def transpose(x, y, rows, columns, BM: gl.constexpr, BN: gl.constexpr, PHASES: gl.constexpr):
    """Rows are written to shared memory, columns are read; PHASES rows are swizzled differently, 1 for no swizzle."""
    along: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    down: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, PHASES, [1, 0])
    first_i, first_j = gl.program_id(0) * BM, gl.program_id(1) * BN
    i = first_i + gl.arange(0, BM, layout=gl.SliceLayout(1, along))
    j = first_j + gl.arange(0, BN, layout=gl.SliceLayout(0, along))
    tile = gl.allocate_shared_memory(gl.float32, [BM, BN], shared, gl.load(x + i[:, None] * columns + j[None, :]))
    turned = tile.load(down)
    i = first_i + gl.arange(0, BM, layout=gl.SliceLayout(1, down))
    j = first_j + gl.arange(0, BN, layout=gl.SliceLayout(0, down))
    gl.store(y + j[None, :] * rows + i[:, None], turned)
