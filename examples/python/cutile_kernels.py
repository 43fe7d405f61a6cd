"""Kernels in cuTile. A launch's arrays say how they are copied: by tensor maps, or by threads (``allow_tma=False``)."""

import cuda.tile as ct

Size = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def copy(x, y, TILE: Size):
    block = ct.bid(0)
    ct.store(y, index=(block,), tile=ct.load(x, index=(block,), shape=(TILE,)))


@ct.kernel
def transpose(x, y, ROWS: Size, COLUMNS: Size):
    row, column = ct.bid(0), ct.bid(1)
    tile = ct.load(x, index=(row, column), shape=(ROWS, COLUMNS))
    ct.store(y, index=(column, row), tile=ct.transpose(tile))


@ct.kernel
def transpose_by_threads(x, y, ROWS: Size, COLUMNS: Size):
    row, column = ct.bid(0), ct.bid(1)
    tile = ct.load(x, index=(row, column), shape=(ROWS, COLUMNS), allow_tma=False)
    ct.store(y, index=(column, row), tile=ct.transpose(tile), allow_tma=False)


@ct.kernel
def matmul(a, b, c, BM: Size, BN: Size, BK: Size):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.full((BM, BN), 0, dtype=ct.float32)
    kind = ct.tfloat32 if a.dtype == ct.float32 else a.dtype
    for step in range(ct.num_tiles(a, axis=1, shape=(BM, BK))):
        left = ct.load(a, index=(row, step), shape=(BM, BK), padding_mode=ZERO).astype(kind)
        right = ct.load(b, index=(step, column), shape=(BK, BN), padding_mode=ZERO).astype(kind)
        total = ct.mma(left, right, total)
    ct.store(c, index=(row, column), tile=total.astype(c.dtype))


@ct.kernel
def matmul_by_threads(a, b, c, BM: Size, BN: Size, BK: Size):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.full((BM, BN), 0, dtype=ct.float32)
    for step in range(ct.num_tiles(a, axis=1, shape=(BM, BK))):
        left = ct.load(a, index=(row, step), shape=(BM, BK), padding_mode=ZERO, allow_tma=False)
        right = ct.load(b, index=(step, column), shape=(BK, BN), padding_mode=ZERO, allow_tma=False)
        total = ct.mma(left, right, total)
    ct.store(c, index=(row, column), tile=total.astype(c.dtype), allow_tma=False)


@ct.kernel
def matmul_turned(a, b, c, BM: Size, BN: Size, BK: Size):
    """C = A Bᵀ, of 8-bit numbers too: wgmma takes those with K innermost only."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.full((BM, BN), 0, dtype=ct.float32)
    for step in range(ct.num_tiles(a, axis=1, shape=(BM, BK))):
        left = ct.load(a, index=(row, step), shape=(BM, BK), padding_mode=ZERO)
        right = ct.load(b, index=(step, column), shape=(BK, BN), order=(1, 0), padding_mode=ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, index=(row, column), tile=total.astype(c.dtype))


@ct.kernel
def batched(a, b, c, BM: Size, BN: Size, BK: Size):
    batch, row, column = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.full((BM, BN), 0, dtype=ct.float32)
    for step in range(ct.num_tiles(a, axis=2, shape=(1, BM, BK))):
        left = ct.load(a, index=(batch, row, step), shape=(1, BM, BK)).reshape((BM, BK))
        right = ct.load(b, index=(batch, step, column), shape=(1, BK, BN)).reshape((BK, BN))
        total = ct.mma(left, right, total)
    ct.store(c, index=(batch, row, column), tile=total.astype(c.dtype).reshape((1, BM, BN)))


@ct.kernel
def softmax(x, y, COLUMNS: Size):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, COLUMNS), padding_mode=ct.PaddingMode.NEG_INF)
    powers = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(y, index=(row, 0), tile=powers / ct.sum(powers, axis=1, keepdims=True))


@ct.kernel
def row_sums(x, sums, ROWS: Size, COLUMNS: Size):
    block = ct.bid(0)
    total = ct.full((ROWS,), 0, dtype=ct.float32)
    for step in range(ct.num_tiles(x, axis=1, shape=(ROWS, COLUMNS))):
        total += ct.sum(ct.load(x, index=(block, step), shape=(ROWS, COLUMNS), padding_mode=ZERO), axis=1)
    ct.store(sums, index=(block,), tile=total)


@ct.kernel
def column_sums(x, sums, ROWS: Size, COLUMNS: Size):
    block = ct.bid(0)
    total = ct.full((COLUMNS,), 0, dtype=ct.float32)
    for step in range(ct.num_tiles(x, axis=0, shape=(ROWS, COLUMNS))):
        total += ct.sum(ct.load(x, index=(step, block), shape=(ROWS, COLUMNS), padding_mode=ZERO), axis=0)
    ct.store(sums, index=(block,), tile=total)


@ct.kernel
def running_sums(x, y, COLUMNS: Size):
    row = ct.bid(0)
    ct.store(y, index=(row, 0), tile=ct.cumsum(ct.load(x, index=(row, 0), shape=(1, COLUMNS)), axis=1))


@ct.kernel
def gather(x, places, y, TILE: Size):
    block = ct.bid(0)
    ct.store(y, index=(block,), tile=ct.gather(x, ct.load(places, index=(block,), shape=(TILE,))))


@ct.kernel
def layer_norm(x, weight, bias, y, columns: Size, COLUMNS: Size, EPS: ct.Constant[float]):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, COLUMNS), padding_mode=ZERO).astype(ct.float32)
    mean = ct.sum(values, axis=1, keepdims=True) / columns
    centred = ct.where(ct.arange(COLUMNS, dtype=ct.int32)[None, :] < columns, values - mean, 0)
    spread = ct.sum(centred * centred, axis=1, keepdims=True) / columns
    scale = ct.load(weight, index=(0,), shape=(COLUMNS,), padding_mode=ZERO)
    shift = ct.load(bias, index=(0,), shape=(COLUMNS,), padding_mode=ZERO)
    made = centred * ct.rsqrt(spread + EPS) * scale[None, :] + shift[None, :]
    ct.store(y, index=(row, 0), tile=made.astype(y.dtype))


@ct.kernel
def attention(q, k, v, out, scale: float, BM: Size, BN: Size, D: Size):
    head, block = ct.bid(1), ct.bid(0)
    query = ct.load(q, index=(head, block, 0), shape=(1, BM, D)).reshape((BM, D))
    highest = ct.full((BM, 1), float("-inf"), dtype=ct.float32)
    weight = ct.full((BM, 1), 0, dtype=ct.float32)
    total = ct.full((BM, D), 0, dtype=ct.float32)
    for step in range(ct.num_tiles(k, axis=1, shape=(1, BN, D))):
        keys = ct.load(k, index=(head, 0, step), shape=(1, D, BN), order=(0, 2, 1)).reshape((D, BN))
        scores = ct.mma(query, keys, ct.full((BM, BN), 0, dtype=ct.float32)) * scale
        now = ct.maximum(highest, ct.max(scores, axis=1, keepdims=True))
        powers = ct.exp2(scores - now)
        less = ct.exp2(highest - now)
        weight = weight * less + ct.sum(powers, axis=1, keepdims=True)
        values = ct.load(v, index=(head, step, 0), shape=(1, BN, D)).reshape((BN, D))
        total = ct.mma(powers.astype(q.dtype), values, total * less)
        highest = now
    ct.store(out, index=(head, block, 0), tile=(total / weight).astype(out.dtype).reshape((1, BM, D)))
