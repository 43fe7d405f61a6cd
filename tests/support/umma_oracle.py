"""What a GEMM of tests/data/emulate/umma.cu computes, byte by byte: independent of what it judges, and of its modules.

Nothing is imported from the package. No Blackwell was at hand: the layouts are CUTLASS's canonical ones for
tcgen05 (mma_sm100_desc.hpp, mma_traits_sm100_frag.hpp), written down here a second time, element by element.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.tile_oracle import Array, TensorMap, encoded, values_of

ELEMENT = {"f16": 2, "tf32": 4, "f8": 1, "i8": 1, "mxf8": 1}
VALUES = {"f16": "f16", "tf32": "tf32", "f8": "e4m3", "i8": "s8", "mxf8": "e4m3"}  # as tile_oracle names them
FORMATS = {"f16": {0: "f16"}, "tf32": {2: "tf32"}, "f8": {0: "e4m3"}, "i8": {1: "s8"}, "mxf8": {0: "e4m3"}}
RESULTS = {"f16": (1,), "tf32": (1,), "f8": (1,), "i8": (2,), "mxf8": (0, 1, 2, 3)}  # mxf8: scale-factor bits are there
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
class Umma:
    """A launch: C = A * B^T by one block, or pair, of `m` x `n`; A and B have twice as many rows."""

    kind: str
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
    scales_a: int = 0
    scales_b: int = 0
    commits: int = 1
    waits: int = 1

    @property
    def k(self) -> int:
        return self.tiles * self.steps * 32 // ELEMENT[self.kind]

    @property
    def bytes_a(self) -> int:
        return 2 * self.m * self.k * ELEMENT[self.kind]

    @property
    def bytes_b(self) -> int:
        return 2 * self.n * self.k * ELEMENT[self.kind]

    @property
    def brought(self) -> int:
        return self.group * (self.a.boxes * self.map_a.copied + self.b.boxes * self.map_b.copied)


def outcome(g: Umma) -> str:
    """Return right or wrong, or what else becomes of it."""
    if fate := _fate(g):
        return fate
    m, n, a_mn, b_mn, _ = _decoded(g.instruction)
    if (m, n) != (g.m, g.n):
        return "wrong"  # what it was made for is not what it computes
    a, b = _matrices(g)
    buffers = [_buffer(g, matrix, how) for matrix, how in zip((a, b), g.arrangements, strict=True)]
    expected = a @ b.T
    found = _pair(g, buffers, (a_mn, b_mn), 0, 0)
    return "right" if np.array_equal(found, _spread(g, expected[: g.m, : g.n]), equal_nan=True) else "wrong"


def _decoded(bits: int) -> tuple[int, int, bool, bool, tuple[int, int, int]]:
    formats = bits >> 7 & 7, bits >> 10 & 7, bits >> 4 & 3
    return (bits >> 24 & 31) * 16, (bits >> 17 & 63) * 8, bool(bits >> 15 & 1), bool(bits >> 16 & 1), formats


def _valid(g: Umma) -> bool:
    """Return whether the instruction is one (PTX ISA, "tcgen05.mma"; CUTLASS's assertions where it allows more)."""
    m, n, _, _, (a, b, d) = _decoded(g.instruction)
    if a not in FORMATS[g.kind] or b not in FORMATS[g.kind] or d not in RESULTS[g.kind] or g.instruction >> 2 & 1:
        return False
    if g.group == 2:
        return m in (128, 256) and n % 16 == 0 and 16 <= n <= 256
    return m in ((128,) if g.kind == "mxf8" else (64, 128)) and n % 8 == 0 and 8 <= n <= 256


def _fate(g: Umma) -> str:
    """Return what keeps the results from being computed at all, or from being the same every time."""
    places = list(_places(g))
    right = g.column + _columns(*_decoded(g.instruction)[:2], g.group)
    sides = (g.a, g.b)
    fates = {
        "refused": g.map_a.refused or g.map_b.refused,
        "allocation": g.allocated not in (32, 64, 128, 256, 512) or g.freed != g.allocated,
        "hang": g.expected > g.brought or bool(g.waits and not g.commits),
        "wrong": g.expected < g.brought,  # bytes that nobody waits for
        "invalid": not _valid(g) or any(s.version != 1 or s.layout not in LAYOUTS for s in sides),
        "atoms": any(s.layout == 1 for s in sides) and not _atoms(g),
        "columns": right > g.allocated or g.column + g.loaded > g.allocated or _scales_beyond(g),
        "unread": _not_all_read(g),
        "fault": any(first % 128 for first, _ in places),
    }
    return next((fate for fate, holds in fates.items() if holds), "")


def timed(g: Umma) -> bool:
    """Return whether time decides the result: a box ends up over another, or over one that an MMA may still read."""
    places = sorted(_places(g))
    return any(before[1] > after[0] for before, after in itertools.pairwise(places))


def _atoms(g: Umma) -> bool:
    _, _, a_mn, b_mn, _ = _decoded(g.instruction)
    return g.kind == "tf32" and all(mn for s, mn in ((g.a, a_mn), (g.b, b_mn)) if s.layout == 1)


def _scales_beyond(g: Umma) -> bool:
    return g.kind == "mxf8" and max(g.scales_a + 4, g.scales_b + 8) > g.allocated


def _columns(m: int, n: int, group: int) -> int:
    return n // 2 if group == 2 and m == 128 else n


def _not_all_read(g: Umma) -> bool:
    """Return whether threads load columns that no MMA writes: more than D has."""
    return g.loaded > _columns(*_decoded(g.instruction)[:2], g.group)


def _places(g: Umma) -> Iterator[tuple[int, int]]:
    spans = {0: 16, 1: 32, 2: 64}
    for side, tensor in ((g.a, g.map_a), (g.b, g.map_b)):
        row = tensor.extents[0] * _map_bytes(tensor)
        pitch = max(row, spans.get(tensor.swizzle, 128) if tensor.swizzle else 0)
        length = math.prod(tensor.extents[1:]) * pitch
        for box, stage in itertools.product(range(side.boxes), range(g.stages)):
            first = g.base + side.at + stage * side.stage + box * side.apart
            yield first, first + length


def _map_bytes(tensor: TensorMap) -> int:
    return tensor.copied // math.prod(tensor.extents)


def _matrices(g: Umma) -> tuple[Array, Array]:
    choose = np.random.default_rng(1)
    return choose.integers(-8, 9, (2 * g.m, g.k)), choose.integers(-8, 9, (2 * g.n, g.k))


def _buffer(g: Umma, matrix: Array, arrangement: str) -> Array:
    kind = VALUES[g.kind]
    content = encoded(kind, matrix if arrangement == "k" else matrix.T).reshape(-1)
    behind = encoded(kind, np.random.default_rng(9).integers(-8, 9, (1 << 20) // ELEMENT[g.kind])).reshape(-1)
    return np.concatenate([content, behind])


def _spread(g: Umma, wanted: Array) -> Array:
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
    d = np.zeros((g.m, g.n))
    for t in range(g.tiles):
        for rank in range(g.group):
            _fill(g, g.a, g.map_a, buffers[0], shared[rank], y, rank, t)
            _fill(g, g.b, g.map_b, buffers[1], shared[rank], x, rank, t)
        for step in range(g.steps):
            a = np.concatenate(
                [_operand(g, g.a, shared[r], g.m // g.group, across[0], t, step) for r in range(g.group)]
            )
            b = np.concatenate(
                [_operand(g, g.b, shared[r], g.n // g.group, across[1], t, step) for r in range(g.group)]
            )
            with np.errstate(all="ignore"):
                d = d + a @ b.T
    return _spread(g, d)


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


def _operand(g: Umma, side: Side, shared: Array, rows: int, across: bool, t: int, step: int) -> Array:
    start = g.base + side.at + t % g.stages * side.stage + side.start
    start += step % side.per * side.pair + step // side.per * side.further
    at = operand_bytes(side, start, rows, across, ELEMENT[g.kind])
    inside = (at >= 0) & (at < len(shared))
    return values_of(VALUES[g.kind], np.where(inside, shared[np.where(inside, at, 0)], POISON).astype(np.uint8))
