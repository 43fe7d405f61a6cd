"""What a GEMM of tests/data/emulate/umma.cu computes, byte by byte: independent of what it judges, and of its modules.

Nothing is imported from the package. No Blackwell was at hand: the layouts are CUTLASS's canonical ones for
tcgen05 (mma_sm100_desc.hpp, mma_traits_sm100_frag.hpp), written down here a second time, element by element.
"""

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.oracles.narrow_types import FLOATS, PackedMap, bits_of, codes_of, packed, table
from bench.oracles.tile_oracle import Array, TensorMap, encoded, values_of

# By type of an operand: bytes of an element in shared memory, and its code in the instruction descriptor. `fp4` is
# e2m1, two in a byte; types narrower than a byte take 16 bytes for 16 values otherwise.
ELEMENT = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, **dict.fromkeys(FLOATS, 1), "fp4": 1}
CODED = (*FLOATS, "fp4")
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "s8": 1, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "fp4": 1}
# By block-scaled kind: the scale factors of a row that an instruction takes, and their type.
FACTORS = {"mxf8": (1, "ue8m0"), "mxf4": (2, "ue8m0"), "nvf4": (4, "e4m3")}
# By layout: bytes of a row, rows of the pattern, and the address bits that its XOR takes and changes.
LAYOUTS = {0: (16, 8, 0, 4), 1: (128, 4, 2, 5), 2: (128, 8, 3, 4), 4: (64, 8, 2, 4), 6: (32, 8, 1, 4)}
COLUMNS, LANES, SHARED, POISON = 512, 128, 227 << 10, 0x7F


@dataclass(frozen=True)
class Side:
    """What a kernel is told of one operand: tests/data/emulate/umma.cu says what the fields mean."""

    boxes: int = 1
    apart: int = 0
    at: int = 0
    stage: int = 0
    start: int = 0
    pair: int = 0
    further: int = 0
    per: int = 1
    box: tuple[int, ...] = (0, 0)
    block: tuple[int, ...] = (0, 0)
    peer: tuple[int, ...] = (0, 0)
    depth: tuple[int, ...] = (0, 0)
    origin: tuple[int, ...] = (0, 0)
    leading: int = 0
    stride: int = 0
    version: int = 1
    base_offset: int = 0
    absolute: int = 0
    layout: int = 0


@dataclass(frozen=True)
class Scales:
    """What a kernel is told of one operand's scale factors: tests/data/emulate/umma.cu says what the fields mean."""

    at: int = 0
    stage: int = 0
    start: int = 0
    rows: int = 0
    deep: int = 0
    total: int = 0
    further: int = 0
    column: int = 0
    reads: int = 0
    stride: int = 128
    version: int = 1
    layout: int = 0

    @property
    def boxes(self) -> int:
        return self.rows * self.deep


@dataclass(frozen=True)
class Umma:
    """A launch: C = A * B^T by one block, or pair, of `m` x `n`; A and B have twice as many rows."""

    kind: str
    types: tuple[str, str]
    group: int
    m: int
    n: int
    a: Side
    b: Side
    map_a: TensorMap
    map_b: TensorMap
    instruction: int
    arrangements: str = "kk"  # how the matrices are in global memory
    base: int = 0
    expected: int = 0
    tiles: int = 3
    steps: int = 4
    stages: int = 2
    allocated: int = 128
    freed: int = 128
    column: int = 0
    loaded: int = 64
    scales_a: Scales = Scales()
    scales_b: Scales = Scales()
    commits: int = 1
    waits: int = 1
    stored: bool = False  # threads store the tiles, one at a time, as the maps would

    @property
    def factors(self) -> int:
        """Scale factors of a row that an instruction takes; 0 without."""
        return FACTORS[self.kind][0] if self.kind in FACTORS else 0

    @property
    def k(self) -> int:
        return self.tiles * self.steps * 32 // ELEMENT[self.types[0]] * (2 if self.types[0] == "fp4" else 1)

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes of A and B in global memory."""
        a, b = (2 * n * self.k * map_bits(one) // 8 for n, one in zip((self.m, self.n), self.types, strict=True))
        return a, b

    @property
    def brought(self) -> int:
        scales = BOX * (self.scales_a.boxes + self.scales_b.boxes)
        return self.group * (self.a.boxes * self.map_a.copied + self.b.boxes * self.map_b.copied + scales)


BOX = 512  # bytes of scale factors: four of 128 rows


def map_bits(kind: str) -> int:
    """Return the bits of an element in global memory."""
    return 4 if kind == "fp4" else bits_of(kind) if kind in FLOATS else 8 * ELEMENT[kind]


def outcome(g: Umma) -> str:
    """Return right or wrong, or what else becomes of it."""
    if fate := _fate(g):
        return fate
    m, n, a_mn, b_mn, _ = _decoded(g.instruction)
    if (m, n) != (g.m, g.n):
        return "wrong"  # what it was made for is not what it computes
    a, b = _matrices(g)
    buffers = [_buffer(g, matrix, which) for which, matrix in enumerate((a, b))]
    expected = a @ b.T
    if g.factors:
        scales = [_factors(g, n, seed) for seed, n in enumerate((g.m, g.n))]
        buffers += [_scale_buffer(g, factors) for factors in scales]
        vector = g.k // scales[0].shape[1]
        a, b = (x * np.repeat(scale, vector, axis=1)[: len(x)] for x, scale in zip((a, b), scales, strict=True))
        expected = a @ b.T
    found = _pair(g, buffers, (a_mn, b_mn), 0, 0)
    return "right" if np.array_equal(found, spread(g, expected[: g.m, : g.n]), equal_nan=True) else "wrong"


def _decoded(bits: int) -> tuple[int, int, bool, bool, tuple[int, int, int]]:
    formats = bits >> 7 & 7, bits >> 10 & 7, bits >> 4 & 3
    return (bits >> 24 & 31) * 16, (bits >> 17 & 63) * 8, bool(bits >> 15 & 1), bool(bits >> 16 & 1), formats


def _valid(g: Umma) -> bool:
    """Return whether the instruction is one (PTX ISA, "tcgen05.mma"; CUTLASS's assertions where it allows more)."""
    m, n, a_mn, b_mn, (a, b, d) = _decoded(g.instruction)
    if (a, b) != tuple(CODES[one] for one in g.types) or g.instruction >> 2 & 1:
        return False
    if not g.factors and d != (2 if g.kind == "i8" else 1):
        return False
    if g.factors and (g.instruction >> 23 & 1) != (FACTORS[g.kind][1] == "ue8m0"):
        return False
    if "fp4" in g.types and (a_mn or b_mn):
        return False
    if g.group == 2:
        return m in (128, 256) and n % 16 == 0 and 16 <= n <= 256
    return m in ((128,) if g.factors else (64, 128)) and n % 8 == 0 and 8 <= n <= 256


def _fate(g: Umma) -> str:
    """Return what keeps the results from being computed at all, or from being the same every time."""
    places = list(_places(g))
    right = g.column + _columns(*_decoded(g.instruction)[:2], g.group)
    sides = (g.a, g.b)
    fates = {
        "refused": not g.stored and (g.map_a.refused or g.map_b.refused),
        "allocation": g.allocated not in (32, 64, 128, 256, 512) or g.freed != g.allocated,
        "hang": not g.stored and (g.expected > g.brought or bool(g.waits and not g.commits)),
        "wrong": not g.stored and g.expected < g.brought,  # bytes that nobody waits for
        "invalid": not _valid(g) or any(s.version != 1 or s.layout not in LAYOUTS for s in (*sides, *_scales(g))),
        "atoms": any(s.layout == 1 for s in sides) and not _atoms(g),
        "columns": right > g.allocated or g.column + g.loaded > g.allocated or _scales_collide(g, right),
        "unread": _not_all_read(g),
        "fault": not g.stored and any(first % 128 for first, _ in places),
    }
    return next((fate for fate, holds in fates.items() if holds), "")


def timed(g: Umma) -> bool:
    """Return whether time decides the result: a box ends up over another, or over one that an MMA may still read."""
    places = sorted(_places(g))
    return any(before[1] > after[0] for before, after in itertools.pairwise(places))


def _atoms(g: Umma) -> bool:
    _, _, a_mn, b_mn, _ = _decoded(g.instruction)
    return g.kind == "tf32" and all(mn for s, mn in ((g.a, a_mn), (g.b, b_mn)) if s.layout == 1)


def _scales(g: Umma) -> tuple[Scales, ...]:
    return (g.scales_a, g.scales_b) if g.factors else ()


def _scales_collide(g: Umma, right: int) -> bool:
    """Return whether scale factors go where D or others are, or beyond what is allocated."""
    ends = sorted((s.column, s.column + 4 * s.boxes) for s in _scales(g))
    taken = [(g.column, right), *ends, (g.allocated, COLUMNS + 1)]
    return bool(ends) and any(before[1] > after[0] for before, after in itertools.pairwise(taken))


def _columns(m: int, n: int, group: int) -> int:
    return n // 2 if group == 2 and m == 128 else n


def _not_all_read(g: Umma) -> bool:
    """Return whether threads load columns that no MMA writes: more than D has."""
    return g.loaded > _columns(*_decoded(g.instruction)[:2], g.group)


def _places(g: Umma) -> Iterator[tuple[int, int]]:
    spans = {0: 16, 1: 32, 2: 64}
    for side, tensor in ((g.a, g.map_a), (g.b, g.map_b)):
        row = tensor.row_bytes if isinstance(tensor, PackedMap) else tensor.extents[0] * _map_bytes(tensor)
        pitch = max(row, spans.get(tensor.swizzle, 128) if tensor.swizzle else 0)
        length = math.prod(tensor.extents[1:]) * pitch
        for box, stage in itertools.product(range(side.boxes), range(g.stages)):
            first = g.base + side.at + stage * side.stage + box * side.apart
            yield first, first + length
    for scales in _scales(g):
        for stage in range(g.stages):
            first = g.base + scales.at + stage * scales.stage
            yield first, first + BOX * scales.boxes


def _map_bytes(tensor: TensorMap) -> int:
    return tensor.copied // math.prod(tensor.extents)


def _matrices(g: Umma) -> tuple[Array, Array]:
    choose = np.random.default_rng(1)
    most = 4 if any(map_bits(one) < 8 for one in g.types) else 8  # what all of the types have
    return choose.integers(-most, most + 1, (2 * g.m, g.k)), choose.integers(-most, most + 1, (2 * g.n, g.k))


def _factors(g: Umma, n: int, seed: int) -> Array:
    """Return the scale factors of a matrix, (128 rows or more, K / vector): 2^-3 to 2^3."""
    deep = g.tiles * g.steps * g.factors
    return np.asarray(2.0 ** np.random.default_rng(seed).integers(-3, 4, (max(128, 2 * n), deep)))


def _stored(kind: str, matrix: Array) -> Array:
    """Return rows as they are in global memory, bytes."""
    if kind in CODED:
        named = "e2m1" if kind == "fp4" else kind
        return packed(codes_of(named, matrix), bits_of(named)).reshape(-1)
    return encoded(kind, matrix).reshape(-1)


def _buffer(g: Umma, matrix: Array, which: int) -> Array:
    kind = g.types[which]
    content = _stored(kind, matrix if g.arrangements[which] == "k" else matrix.T)
    behind = np.random.default_rng(9).integers(-8, 9, 1 << 18)
    return np.concatenate([content, behind.astype(np.uint8) if kind in CODED else _stored(kind, behind)])


def _scale_buffer(g: Umma, factors: Array) -> Array:
    """Return scale factors as bytes in global memory: 512 for 128 rows by four, those of the same rows in a row."""
    codes = codes_of(FACTORS[g.kind][1], factors)
    codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 4)))  # rows end with whole words
    rows, deep = codes.shape
    # (rows / 128, four parts of 32 rows, 32, K / 4, 4): word w of 16 bytes is of rows 32 w to 32 w + 31.
    content = codes.reshape(rows // 128, 4, 32, deep // 4, 4).transpose(0, 3, 2, 1, 4).reshape(-1)
    return np.concatenate([content, np.full(1 << 16, POISON, np.uint8)])


def spread(g: Umma, wanted: Array) -> Array:
    """Return D, (m, n), as the lanes and columns of tensor memory have it, (blocks, 128, loaded)."""
    memory = np.full((g.group, LANES, COLUMNS), np.nan)
    row, column = (index.ravel() for index in np.indices(wanted.shape))
    if g.group == 1:
        block, lane = row * 0, row if g.m == 128 else row // 16 * 32 + row % 16
    else:
        half = g.m // 2
        block, lane = row // half, row % half
        if g.m == 128:  # 64 rows of a block: the second half of N is in the upper lanes
            lane, column = lane + column // (g.n // 2) * 64, column % (g.n // 2)
    memory[block, lane, column] = wanted.ravel()
    return memory[:, :, : g.loaded]


def _pair(g: Umma, buffers: Sequence[Array], across: tuple[bool, bool], y: int, x: int) -> Array:
    shared = np.full((g.group, 2 * SHARED), POISON, np.uint8)
    factors = np.full((g.group, 32, COLUMNS, 4), POISON, np.uint8)  # as a quarter of the lanes has them
    d = np.zeros((g.m, g.n))
    for t in range(g.tiles):
        for rank in range(g.group):
            _fill(g, g.a, g.map_a, buffers[0], shared[rank], y, rank, t)
            _fill(g, g.b, g.map_b, buffers[1], shared[rank], x, rank, t)
            for which, one in enumerate(_scales(g)):
                first = y * g.group + rank if which == 0 else x * one.rows
                _take_scales(g, one, buffers[2 + which], shared[rank], factors[rank], first, t)
        for step in range(g.steps):
            a = [_operand(g, 0, shared[r], g.m // g.group, across[0], t, step) for r in range(g.group)]
            b = [_operand(g, 1, shared[r], g.n // g.group, across[1], t, step) for r in range(g.group)]
            with np.errstate(all="ignore"):
                d = d + _product(g, a, np.concatenate(b), factors, step)
    return spread(g, d)


def _product(g: Umma, a: Sequence[Array], b: Array, factors: Array, step: int) -> Array:
    """Return what an instruction adds, (m, n): rows of A by the block that has them, all of B."""
    if not g.factors:
        return np.asarray(np.concatenate(a) @ b.T)
    parts = []
    for rank, rows in enumerate(a):
        of_a, of_b = (
            _read_scales(g, one, factors[rank], len(matrix), step, g.instruction >> bit & 3)
            for one, matrix, bit in zip(_scales(g), (rows, b), (29, 4), strict=True)
        )
        vector = rows.shape[1] // g.factors
        parts.append((rows * np.repeat(of_a, vector, axis=1)) @ (b * np.repeat(of_b, vector, axis=1)).T)
    return np.concatenate(parts)


def _take_scales(g: Umma, one: Scales, content: Array, shared: Array, factors: Array, first: int, t: int) -> None:
    """Copy a tile's scale factors of one operand to shared memory, and on to tensor memory."""
    at = g.base + one.at + t % g.stages * one.stage
    for i in range(one.boxes):
        box = (first + i // one.deep) * one.total + t * one.further + i % one.deep
        shared[at + BOX * i :][:BOX] = content[BOX * box :][:BOX]
    row, byte = np.arange(32)[:, None], np.arange(16)
    for i in range(one.boxes):
        plain = at + one.start + BOX * i + row // 8 * one.stride + row % 8 * 16 + byte
        bits, first_bit = LAYOUTS[one.layout][2:]
        place = plain ^ ((plain >> 7) & ((1 << bits) - 1)) << first_bit
        column = one.column + 4 * (i % one.deep * one.rows + i // one.deep)
        factors[:, column : column + 4] = shared[place].reshape(32, 4, 4)


def _read_scales(g: Umma, one: Scales, factors: Array, rows: int, step: int, flipped: int) -> Array:
    """Return the scale factors that an instruction takes, (rows, their number)."""
    factor = step * g.factors
    row, column = np.arange(rows), one.column + one.reads + factor // 4 * 4 * one.rows
    byte = (factor % 4 ^ flipped) + np.arange(g.factors)
    codes = factors[row[:, None] % 32, column + row[:, None] // 32, byte % 4]
    return np.asarray(table(FACTORS[g.kind][1])[codes])


def _fill(g: Umma, side: Side, tensor: TensorMap, buffer: Array, shared: Array, block: int, rank: int, t: int) -> None:
    target = g.base + side.at + t % g.stages * side.stage
    for box in range(side.boxes):
        corner = [
            side.origin[axis]
            + box * side.box[axis]
            + block * side.block[axis]
            + rank * side.peer[axis]
            + t * side.depth[axis]
            for axis in range(len(tensor.box))
        ]
        tensor.copy(buffer, corner, shared, target + box * side.apart)


def operand_bytes(side: Side, start: int, rows: int, across: bool, element: int) -> Array:
    """Return the address of each byte of each element, (rows, K, bytes)."""
    span, high, bits, first = LAYOUTS[side.layout]
    r, k = np.arange(rows)[:, None, None], np.arange(32 // element)[None, :, None]
    byte = np.arange(element)[None, None, :]
    if not across:
        along = k * element + byte
        if span == 16:
            at = start + r // 8 * side.stride + r % 8 * 16 + along // 16 * side.leading + along % 16
        else:
            at = start + r // 8 * side.stride + r % 8 * span + along
    else:
        along = r * element + byte
        if span == 16:
            at = start + along // 16 * side.stride + along % 16 + k // 8 * side.leading + k % 8 * 16
        else:
            at = start + along // span * side.leading + along % span + k // high * side.stride + k % high * span
    row = ((at >> 7) - side.base_offset) & ((1 << bits) - 1)
    result: Array = at ^ (row << first)
    return result


def _operand(g: Umma, which: int, shared: Array, rows: int, across: bool, t: int, step: int) -> Array:
    """Return the values of an operand, (rows, K)."""
    side, kind = (g.a, g.b)[which], g.types[which]
    start = g.base + side.at + t % g.stages * side.stage + side.start
    start += step % side.per * side.pair + step // side.per * side.further
    at = operand_bytes(side, start, rows, across, ELEMENT[kind])
    inside = (at >= 0) & (at < len(shared) - 16)
    at = np.where(inside, at, 0)
    if kind == "fp4":
        two = shared[at]
        return np.asarray(table("e2m1")[np.concatenate([two & 15, two >> 4], axis=2)].reshape(rows, -1))
    if kind in FLOATS:
        # Of 16 bytes, as many values are in the first 8, 12 or 16, whatever their width.
        bits, value = bits_of(kind), at % 16
        low = at - value + value * bits // 8
        words = shared[low] | shared[low + 1].astype(np.uint16) << 8
        codes = words >> value * bits % 8 & (1 << bits) - 1
        return np.asarray(np.where(inside, table(kind)[codes], np.nan)[..., 0])
    return values_of(kind, np.where(inside, shared[at], POISON).astype(np.uint8))
