"""What a GEMM of tests/data/emulate/tiles.cu computes, byte by byte: independent of what it judges, and of its modules.

Nothing is imported from the package. Where wgmma reads and TMA writes is as tests/data/descriptor_reads_h100.csv.gz and
boxes_h100.csv.gz have it.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
READ_SPANS = {0: 16, 1: 128, 2: 64, 3: 32}  # bytes of a row, by the descriptor's mode
WRITE_SPANS = {0: 16, 1: 32, 2: 64, 3: 128, 4: 128}  # the same by CUtensorMapSwizzle; of 4, atoms have 32 bytes
MAP_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # of an element, by CUtensorMapDataType
FLOATS = (6, 7, 8, 9, 10, 11, 12)


def exchanged(address: Array, span: int, base: int = 0, atom: int = 16) -> Array:
    """Return addresses with bits 4 to 6 XORed by bits 7 to 9, as many as the span has."""
    row = ((address >> 7) - base) & (span // atom - 1)
    result: Array = address ^ (row * atom)
    return result


def operand_bytes(
    start: int, leading: int, stride: int, base: int, mode: int, rows: int, across: bool, element: int
) -> Array:
    """Return the address of each byte of each element, (rows, K, bytes); `across`: MN-major, 16 bits."""
    r = np.arange(rows)[:, None, None]
    k = np.arange(32 // element)[None, :, None]
    byte = np.arange(element)[None, None, :]
    span = READ_SPANS[mode]
    if not across:
        along = k * element + byte
        if mode == 0:
            at = start + r // 8 * stride + r % 8 * 16 + along // 16 * leading + along % 16
        else:
            at = start + r // 8 * stride + r % 8 * span + along
    elif mode == 0:
        at = start + r // 8 * stride + r % 8 * 2 + k // 8 * leading + k % 8 * 16 + byte
    else:
        wide = span // 2  # elements of a row
        at = start + r // wide * leading + r % wide * 2 + k // 8 * stride + k % 8 * span + byte
    return exchanged(at, span, base)


@dataclass(frozen=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled, innermost dimension first; the address is an offset into a buffer."""

    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    offset: int = 0
    interleave: int = 0
    fill: int = 0
    steps: tuple[int, ...] = ()

    @property
    def refused(self) -> bool:
        element, span = MAP_BYTES[self.dtype], WRITE_SPANS[self.swizzle]
        row = self.box[0] * element
        return (
            row % 16 != 0
            or (self.swizzle > 0 and row > span)
            or self.offset % 16 != 0
            or any(stride % 16 for stride in self.strides)
            or max(self.box) > 256
            or (self.interleave > 0 and len(self.sizes) < 3)
            or (self.fill > 0 and self.dtype not in FLOATS)
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements a copy moves in each dimension."""
        steps = self.steps or (1,) * len(self.box)
        return tuple(-(-size // step) for size, step in zip(self.box, steps, strict=True))

    @property
    def copied(self) -> int:
        return math.prod(self.extents) * MAP_BYTES[self.dtype]

    def copy(self, buffer: Array, corner: Sequence[int], shared: Array, target: int) -> None:
        """Write a box at a corner to shared memory, bytes both."""
        element, span = MAP_BYTES[self.dtype], WRITE_SPANS[self.swizzle]
        steps = self.steps or (1,) * len(self.box)
        extents = self.extents
        index = np.indices(extents[::-1])[::-1]  # innermost first
        at = [corner[axis] + index[axis] * steps[axis] for axis in range(len(extents))]
        inside = np.ones(extents[::-1], bool)
        for axis, size in enumerate(self.sizes):
            inside &= (at[axis] >= 0) & (at[axis] < size)
        source = self.offset + at[0] * element
        for axis, stride in enumerate(self.strides):
            source = source + at[axis + 1] * stride
        outer = np.zeros_like(index[0])
        factor = 1
        for axis in range(1, len(extents)):
            outer = outer + index[axis] * factor
            factor *= extents[axis]
        pitch = max(extents[0] * element, span if self.swizzle else 0)
        to = target + outer * pitch + index[0] * element
        within = np.arange(element)
        values = buffer[np.where(inside, source, 0)[..., None] + within]
        filled = np.full(element, 0xFF if self.fill else 0, np.uint8)
        values = self._rounded(np.where(inside[..., None], values, filled))
        places = exchanged(to[..., None] + within, span, atom=32 if self.swizzle == 4 else 16)
        shared[places] = values

    def _rounded(self, values: Array) -> Array:
        if self.dtype not in (10, 11, 12):
            return values
        words = np.ascontiguousarray(values).view(np.uint32)
        if self.dtype in (11, 12):
            words = words & np.uint32(0xFFFFE000)
        if self.dtype in (10, 12):
            words = np.where(words & np.uint32(0x7F800000), words, words & np.uint32(0x80000000))
        return words.astype(np.uint32).view(np.uint8)


def _e4m3() -> Array:
    """Return the value of each byte of type e4m3."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    size = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
    size[(code & 0x7F) == 0x7F] = np.nan
    return np.asarray(np.where(code >> 7, -size, size))


E4M3 = _e4m3()
ELEMENT = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "s8": 1}


def encoded(kind: str, values: Array) -> Array:
    """Return small integers as the bytes of a type, along a new last axis."""
    if kind == "e4m3":
        order = np.argsort(E4M3[:127])
        codes = order[np.searchsorted(E4M3[:127][order], np.abs(values))]
        return np.asarray((codes | (values < 0) << 7).astype(np.uint8)[..., None])
    if kind == "s8":
        return np.asarray(values.astype(np.int8).view(np.uint8)[..., None])
    if kind == "bf16":
        return np.asarray(values.astype(np.float32)[..., None].view(np.uint8)[..., 2:])
    whole = values.astype(np.float16 if kind == "f16" else np.float32)
    return np.asarray(whole[..., None].view(np.uint8))


def values_of(kind: str, content: Array) -> Array:
    """Return the values of bytes along the last axis."""
    content = np.ascontiguousarray(content)
    if kind == "e4m3":
        return np.asarray(E4M3[content[..., 0]])
    if kind == "s8":
        return np.asarray(content.view(np.int8)[..., 0].astype(np.float64))
    if kind == "f16":
        return np.asarray(content.view(np.float16)[..., 0].astype(np.float64))
    words = np.zeros((*content.shape[:-1], 4), np.uint8)
    words[..., 4 - content.shape[-1] :] = content
    with np.errstate(invalid="ignore"):
        return np.asarray(words.view(np.float32)[..., 0].astype(np.float64))


@dataclass(frozen=True)
class Side:
    """What a kernel is told of one operand: tests/data/emulate/shapes.cu says what the fields mean."""

    boxes: int = 1
    apart: int = 0
    at: int = 0
    stage: int = 0
    start: int = 0
    group: int = 0
    pair: int = 0
    further: int = 0
    per: int = 1
    box: tuple[int, ...] = (0, 0)
    block: tuple[int, ...] = (0, 0)
    depth: tuple[int, ...] = (0, 0)
    origin: tuple[int, ...] = (0, 0)
    leading: int = 0
    stride: int = 0
    base_offset: int = 0
    mode: int = 0


@dataclass(frozen=True)
class Gemm:
    """A launch: C = A * B^T by a grid of 2 x 2 blocks."""

    kind: str
    columns: int
    a: Side
    b: Side
    map_a: TensorMap
    map_b: TensorMap
    across: tuple[bool, bool] = (False, False)  # whether A and B are read MN-major
    groups: int = 1
    base: int = 0
    expected: int = 0
    tiles: int = 4
    steps: int = 4
    stages: int = 2
    a_in_registers: bool = False
    multicast: bool = False

    @property
    def k(self) -> int:
        return self.tiles * self.steps * 32 // ELEMENT[self.kind]

    @property
    def brought(self) -> int:
        return (0 if self.a_in_registers else self.a.boxes * self.map_a.copied) + self.b.boxes * self.map_b.copied


SHARED = 227 << 10
SLACK = 1 << 20
BLOCKS = 2
POISON = 0x7F


def buffer_of(kind: str, matrix: Array, arrangement: str) -> Array:
    """Return a matrix, (M, K), as bytes in global memory, and what is behind it; `m`: columns first."""
    content = encoded(kind, matrix if arrangement == "k" else matrix.T).reshape(-1)
    behind = np.random.default_rng(9).integers(-8, 9, SLACK // ELEMENT[kind])
    return np.concatenate([content, encoded(kind, behind).reshape(-1)])


def matrices(gemm: Gemm) -> tuple[Array, Array]:
    """Return A, (M, K), and B, (N, K)."""
    choose = np.random.default_rng(1)
    rows, columns = BLOCKS * 64 * gemm.groups, BLOCKS * gemm.columns
    return choose.integers(-8, 9, (rows, gemm.k)), choose.integers(-8, 9, (columns, gemm.k))


def outcome(gemm: Gemm, arrangements: str = "kk") -> str:
    """Return right or wrong, or what else becomes of it: refused, unknown, hang, fault, race."""
    if fate := _fate(gemm):
        return fate
    a, b = matrices(gemm)
    buffers = [buffer_of(gemm.kind, matrix, how) for matrix, how in zip((a, b), arrangements, strict=True)]
    expected = a @ b.T
    rows = 64 * gemm.groups
    for y, x in itertools.product(range(BLOCKS), repeat=2):
        found = _block(gemm, buffers, a, y, x)
        if not np.array_equal(found, expected[y * rows : (y + 1) * rows, x * gemm.columns : (x + 1) * gemm.columns]):
            return "wrong"
    return "right"


def _fate(gemm: Gemm) -> str:
    """Return what keeps the results from being computed at all, or from being the same every time."""
    used = [(gemm.b, gemm.map_b), *([] if gemm.a_in_registers else [(gemm.a, gemm.map_a)])]
    fates = {
        "refused": any(tensor.refused for _, tensor in used),
        "unknown": any(tensor.interleave for _, tensor in used),
        "hang": gemm.expected > gemm.brought,
        "wrong": gemm.expected < gemm.brought,  # bytes that nobody waits for
        "fault": any(first % 128 for first, _ in _places(gemm, used)),
        "race": any(before[1] > after[0] for before, after in itertools.pairwise(sorted(_places(gemm, used)))),
    }
    return next((fate for fate, holds in fates.items() if holds), "")


def _places(gemm: Gemm, used: Sequence[tuple[Side, TensorMap]]) -> Iterator[tuple[int, int]]:
    """Yield where the boxes of all stages begin and end in shared memory."""
    for side, tensor in used:
        element, span = MAP_BYTES[tensor.dtype], WRITE_SPANS[tensor.swizzle]
        length = math.prod(tensor.extents[1:]) * max(tensor.extents[0] * element, span if tensor.swizzle else 0)
        for box, stage in itertools.product(range(side.boxes), range(gemm.stages)):
            first = gemm.base + side.at + stage * side.stage + box * side.apart
            yield first, first + length


def _block(gemm: Gemm, buffers: Sequence[Array], a: Array, y: int, x: int) -> Array:
    shared = np.full(2 * SHARED, POISON, np.uint8)
    result = np.zeros((64 * gemm.groups, gemm.columns))
    deep = 32 // ELEMENT[gemm.kind]
    for t in range(gemm.tiles):
        if not gemm.a_in_registers:
            _fill(gemm, gemm.a, gemm.map_a, buffers[0], shared, y, t)
        _fill(gemm, gemm.b, gemm.map_b, buffers[1], shared, x, t)
        for group, step in itertools.product(range(gemm.groups), range(gemm.steps)):
            b = _operand(gemm, gemm.b, shared, gemm.columns, gemm.across[1], t, 0, step)
            if gemm.a_in_registers:
                first = (t * gemm.steps + step) * deep
                left = a[y * 64 * gemm.groups + group * 64 :, first : first + deep][:64].astype(np.float64)
            else:
                left = _operand(gemm, gemm.a, shared, 64, gemm.across[0], t, group, step)
            with np.errstate(all="ignore"):
                result[group * 64 : group * 64 + 64] += left @ b.T
    return result


def _fill(gemm: Gemm, side: Side, tensor: TensorMap, buffer: Array, shared: Array, block: int, t: int) -> None:
    target = gemm.base + side.at + t % gemm.stages * side.stage
    for box in range(side.boxes):
        corner = [
            side.origin[axis] + box * side.box[axis] + block * side.block[axis] + t * side.depth[axis]
            for axis in range(len(tensor.box))
        ]
        tensor.copy(buffer, corner, shared, target + box * side.apart)


def _operand(gemm: Gemm, side: Side, shared: Array, rows: int, across: bool, t: int, group: int, step: int) -> Array:
    start = gemm.base + side.at + t % gemm.stages * side.stage + side.start + group * side.group
    start += step % side.per * side.pair + step // side.per * side.further
    at = operand_bytes(start, side.leading, side.stride, side.base_offset, side.mode, rows, across, ELEMENT[gemm.kind])
    inside = (at >= 0) & (at < len(shared))
    return values_of(gemm.kind, np.where(inside, shared[np.where(inside, at, 0)], POISON).astype(np.uint8))
