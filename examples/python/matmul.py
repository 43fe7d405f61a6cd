"""C = A B in Triton: one tile of C per program, operands through pointers and strides."""

import triton
import triton.language as tl


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul(
    a, b, c, m, n, k, stride_am, stride_ak, stride_bk, stride_bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr = "tf32", ACTIVATION: tl.constexpr = "", ACC: tl.constexpr = tl.float32,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_tile = a + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_tile = b + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BM, BN), ACC)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total, input_precision=PRECISION, out_dtype=ACC)
        a_tile += BK * stride_ak
        b_tile += BK * stride_bk
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def grouped_order(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """Programs walk C in groups of rows, so that the tiles of B stay in L2."""
    tiles_n = tl.cdiv(n, BN)
    program = tl.program_id(0)
    first = program // (GROUP * tiles_n) * GROUP
    rows_here = min(tl.cdiv(m, BM) - first, GROUP)
    inside = program % (GROUP * tiles_n)
    rows = (first + inside % rows_here) * BM + tl.arange(0, BM)
    columns = inside // rows_here * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left = depth[None, :] + start < k
        down = depth[:, None] + start < k
        x = tl.load(a + rows[:, None] * k + start + depth[None, :], mask=left, other=0.0)
        y = tl.load(b + (start + depth[:, None]) * n + columns[None, :], mask=down, other=0.0)
        total = tl.dot(x, y, total)
    inside_c = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=inside_c)


@triton.jit
def persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr):
    """As many programs as there are SMs, each with one tile of C after the other."""
    tiles_n = tl.cdiv(n, BN)
    depth = tl.arange(0, BK)
    for tile in range(tl.program_id(0), tl.cdiv(m, BM) * tiles_n, PROGRAMS):
        rows = tile // tiles_n * BM + tl.arange(0, BM)
        columns = tile % tiles_n * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            x = tl.load(a + rows[:, None] * k + start + depth[None, :])
            y = tl.load(b + (start + depth[:, None]) * n + columns[None, :])
            total = tl.dot(x, y, total)
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def descriptors(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles are copied by the tensor memory accelerator; the host made the descriptors."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def device_descriptors(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles are copied by the tensor memory accelerator; every program makes its descriptors."""
    of_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    of_b = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BK, BN])
    of_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(of_a.load([row, start]), of_b.load([start, column]), total)
    of_c.store([row, column], total.to(tl.float16))


@triton.jit
def split_k(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Several programs share a tile of C: each adds its part atomically."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.program_id(2) * BK + tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK * PARTS):
        x = tl.load(a + rows[:, None] * k + start + depth[None, :])
        y = tl.load(b + (start + depth[:, None]) * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], total, sem="relaxed")


@triton.jit
def batched(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product per program of the grid's third axis."""
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        x = tl.load(a + batch * m * k + rows[:, None] * k + start + depth[None, :])
        y = tl.load(b + batch * k * n + (start + depth[:, None]) * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + batch * m * n + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def dequantized(a, b, scales, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights of 8 bits, with a scale per column, times activations of 16 bits."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        x = tl.load(a + rows[:, None] * k + start + depth[None, :])
        y = tl.load(b + (start + depth[:, None]) * n + columns[None, :])
        total = tl.dot(x, y.to(tl.float16), total)
    total *= tl.load(scales + columns)[None, :]
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def grouped_gemm(a, b, c, starts, n, k, TILE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Several products in one launch: group g has the rows from starts[g] * TILE to starts[g + 1] * TILE of A."""
    group = tl.program_id(2).to(tl.int64)
    first = tl.load(starts + group) * TILE
    last = tl.load(starts + group + 1) * TILE
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    for row in range(first, last, BM):
        rows = row + tl.arange(0, BM)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            x = tl.load(a + rows[:, None] * k + start + depth[None, :])
            y = tl.load(b + group * k * n + (start + depth[:, None]) * n + columns[None, :])
            total = tl.dot(x, y, total)
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.autotune(
    configs=[
        triton.Config({"BM": 128, "BN": 128, "BK": 32}, num_warps=4, num_stages=3),
        triton.Config({"BM": 64, "BN": 128, "BK": 32}, num_warps=4, num_stages=4),
        triton.Config({"BM": 128, "BN": 128, "BK": 16}, num_warps=8, num_stages=3),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def tuned(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Row-major operands, and tile shapes to choose from."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        x = tl.load(a + rows[:, None] * k + start + depth[None, :])
        y = tl.load(b + (start + depth[:, None]) * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))
