"""What tensor cores compute: HMMA, IMMA, DMMA and QMMA on fragments in registers, HGMMA and its like on tiles.

Products of integers are exact. For floating-point ones, published measurements of an H100 say: the products of one
instruction and its summand are aligned to the largest exponent, cut off behind some bits, added, and the sum is cut
off, or rounded for halves (Xie et al., "MMA-Sim", arXiv:2511.10909; Khattak and Mikaitis, "Accurate Models of NVIDIA
Tensor Cores", arXiv:2512.07004). We have not measured that ourselves, so these results count as not bit-exact.

Where elements lie in the registers of lanes: PTX ISA, "Matrix Fragments" of mma and wgmma.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import MEMORY, REG, Operand, SassInstruction
from ncu_swizzle.emulate.copies import values_of_rows
from ncu_swizzle.emulate.effects import operand_number
from ncu_swizzle.emulate.machine import LANES, Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.rounding import (
    BRAIN,
    F64,
    HALF,
    SINGLE,
    multiply_add_doubles,
    pack_bits,
    round_to_format,
    unpack_bits,
    words,
)
from ncu_swizzle.emulate.values import Bits, Value, join_halves
from ncu_swizzle.smem.descriptors import CHUNK, ROWS, WARPS, Descriptor
from ncu_swizzle.smem.operations import Bools, Ints

FRACTION, FRACTION_FP8 = 25, 13  # bits behind the largest exponent's that are added; the second in wgmma on e4m3, e5m2
NO_EXPONENT = -4096
WORD_BITS, OUT_BITS = 32, {True: 13, False: 23}  # of the sum's significand, whether the second
_SHAPE = re.compile(r"(?:64x(\d+)x|(16|8)(8))(\d+)")
_ROWS_OF_WARP = 16  # of the 64 of a warpgroup
_FP8 = ("E4M3", "E5M2")
GROUP, WITHIN = LANES // 4, LANES % 4  # of a fragment: which row or column a lane has, and which elements of it


@dataclass(frozen=True)
class Element:
    """A type of elements: bits, and what they are worth as float64 or int64."""

    bits: int
    decode: Callable[[Bits], Bits]
    least: int = 0  # exponent, which denormal numbers have too
    whole: bool = False


def _floats(exponent: int, mantissa: int, *, infinite: bool = True) -> Bits:
    """Return all numbers of a small format by their bits; without infinities, only the largest code is NaN."""
    codes = np.arange(1 << (1 + exponent + mantissa))
    sign = np.where(codes >> (exponent + mantissa), -1.0, 1.0)
    field, fraction = codes >> mantissa & (1 << exponent) - 1, codes & (1 << mantissa) - 1
    bias = (1 << exponent - 1) - 1
    values = np.where(
        field, np.ldexp(1 + fraction / (1 << mantissa), field - bias), np.ldexp(fraction / (1 << mantissa), 1 - bias)
    )
    top = (1 << exponent) - 1
    if infinite:
        values = np.where(field == top, np.where(fraction, np.nan, np.inf), values)
    else:
        values = np.where((field == top) & (fraction == (1 << mantissa) - 1), np.nan, values)
    return sign * values


@functools.cache
def _table(name: str) -> Bits:
    return _floats(4, 3, infinite=False) if name == "E4M3" else _floats(5, 2)


def _signed(bits: Bits, size: int) -> Bits:
    half = 1 << size - 1
    return (bits.astype(np.int64) ^ half) - half


KINDS: dict[str, Element] = {
    "F16": Element(16, functools.partial(unpack_bits, form=HALF), -14),
    "BF16": Element(16, functools.partial(unpack_bits, form=BRAIN), -126),
    "TF32": Element(32, lambda bits: (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64), -126),
    "E4M3": Element(8, lambda bits: _table("E4M3")[bits], -6),
    "E5M2": Element(8, lambda bits: _table("E5M2")[bits], -14),
    **{f"U{size}": Element(size, lambda bits: bits.astype(np.int64), whole=True) for size in (4, 8)},
    **{f"S{size}": Element(size, functools.partial(_signed, size=size), whole=True) for size in (4, 8)},
}


def _exponents(numbers: Bits, least: int) -> Bits:
    """Return the exponents of numbers whose format has none below `least`; of zeros, less than any sum of two."""
    up: Bits = np.where(numbers == 0, NO_EXPONENT, np.maximum(np.frexp(numbers)[1].astype(np.int16) - 1, least)).astype(
        np.int16
    )
    return up


def fused_sum(
    a: Bits, b: Bits, c: Bits, fraction: int, *, least: tuple[int, int] = (-14, -14), halves: bool = False
) -> Bits:
    """Return c + a b^T as the hardware adds it up: a (…, m, k), b (…, n, k), c (…, m, n) in float64, and the result.

    The exponents that are compared are the sums of the operands' ones; `least`: the least that a and b have.
    """
    products = a[..., :, None, :] * b[..., None, :, :]
    up_a, up_b = (_exponents(numbers, low) for numbers, low in zip((a, b), least, strict=True))
    with np.errstate(invalid="ignore", over="ignore"):
        plain = products.sum(axis=-1) + c
        top = (up_a[..., :, None, :] + up_b[..., None, :, :]).max(axis=-1)
        top = np.maximum(top, _exponents(c, -14 if halves else -126))
        scale = np.where(top > NO_EXPONENT // 2, fraction - top.astype(np.int64), 0)
        # Times a power of two, which is exact: no exponent is beyond float64's.
        unit = np.ldexp(1.0, scale)
        summed = np.trunc(products * unit[..., None]).sum(axis=-1) + np.trunc(c * unit)
        total = summed / unit
        if halves:
            result = round_to_format(total, HALF)
        else:
            last = np.maximum(np.frexp(total)[1] - 1, -126) - OUT_BITS[fraction == FRACTION_FP8]
            result = np.ldexp(np.trunc(np.ldexp(total, -last)), last)
    return np.where(np.isfinite(plain), result, plain)


# ---------------------------------------------------------------------------------------------- fragments


@dataclass(frozen=True)
class ProductShape:
    """The extents of a product, and the types of its matrices."""

    rows: int
    columns: int
    depth: int
    a: str
    b: str

    @classmethod
    def of(cls, instruction: SassInstruction) -> ProductShape | None:
        """Return the shape of an instruction; None if it is not modelled."""
        match = next((found for word in instruction.modifiers if (found := _SHAPE.fullmatch(word))), None)
        names = [word for word in instruction.modifiers if word in KINDS]
        if instruction.opcode.startswith("H"):  # F16 alone is the type of the sum
            names = [name for name in names if name != "F16"] or ["F16"]
        if match is None or not names or instruction.has("SP") or instruction.opcode not in MODELLED:
            return None
        columns = int(match[1] or match[3])
        return cls(int(match[2] or 64), columns, int(match[4]), names[0], names[-1])


MODELLED = ("HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA")


def exact(instruction: SassInstruction) -> bool:
    """Return whether a product's results are bit-exact: those of integers."""
    return instruction.opcode in ("IMMA", "IGMMA")


def unpacked(words: Sequence[Bits], kind: Element, rows: int) -> Bits:
    """Return a matrix of a fragment, (G, rows, k), from its registers, (G, 32) each; of B, rows are its columns."""
    per_word = WORD_BITS // kind.bits
    down = rows // 8
    deep = len(words) // down * 4 * per_word
    matrix: Bits = np.zeros((len(words[0]), rows, deep), np.int64 if kind.whole else float)
    for register, word in enumerate(words):
        row = GROUP + 8 * (register % down)
        for k in range(per_word):
            bits = word >> np.uint32(kind.bits * k)
            bits = bits & np.uint32((1 << kind.bits) - 1) if kind.bits < WORD_BITS else bits
            matrix[:, row, register // down * 4 * per_word + WITHIN * per_word + k] = kind.decode(bits)
    return matrix


def _places(rows: int, columns: int) -> tuple[Ints, Ints]:
    """Return row and column of each element of a sum's fragment, (elements, 32): two neighbours, then 8 rows down."""
    element = np.arange(rows * columns // 32)[:, None]
    down = rows // 8
    return GROUP + 8 * (element // 2 % down), element // (2 * down) * 8 + WITHIN * 2 + element % 2


@dataclass(frozen=True, kw_only=True)
class Sum:
    """How an instruction adds up, and how it keeps sums in registers: as floats, two halves in each, or integers."""

    halves: bool
    integers: bool
    saturates: bool
    registers: int
    fraction: int
    least: tuple[int, int]

    @classmethod
    def of(cls, instruction: SassInstruction, shape: ProductShape, rows: int) -> Sum:
        """Return what an instruction does with the sums of so many rows."""
        integers = instruction.opcode.startswith("I")
        halves = not integers and instruction.has("F16") and not instruction.has("F32")
        return cls(
            halves=halves,
            integers=integers,
            saturates=instruction.has("SAT"),
            registers=rows * shape.columns // (64 if halves else 32),
            fraction=FRACTION_FP8 if instruction.opcode == "QGMMA" else FRACTION,
            least=(KINDS[shape.a].least, KINDS[shape.b].least),
        )

    def added(self, a: Bits, b: Bits, c: Bits) -> Bits:
        """Return c + a b^T, (G, m, n)."""
        if not self.integers:
            return fused_sum(a, b, c, self.fraction, least=self.least, halves=self.halves)
        total: Bits = np.einsum("gmk,gnk->gmn", a, b) + c
        return np.clip(total, -(1 << 31), (1 << 31) - 1) if self.saturates else total

    def unpacked(self, words: Sequence[Bits], rows: int, columns: int) -> Bits:
        """Return sums, (G, rows, columns), from their registers, (G, 32) each."""
        matrix: Bits = np.zeros((len(words[0]), rows, columns), np.int64 if self.integers else float)
        row, column = _places(rows, columns)
        for k in range(len(row)):
            if self.halves:
                value = KINDS["F16"].decode(words[k // 2] >> np.uint32(16 * (k % 2)) & np.uint32(0xFFFF))
            else:
                value = words[k].view(np.int32 if self.integers else np.float32)
            matrix[:, row[k], column[k]] = value
        return matrix

    def packed(self, result: Bits) -> list[Bits]:
        """Return the registers, (G, 32) each, of sums, (G, rows, columns)."""
        row, column = _places(*result.shape[1:])
        elements = [result[:, row[k], column[k]] for k in range(len(row))]
        if self.integers:
            return [(each & 0xFFFFFFFF).astype(np.uint32) for each in elements]
        if self.halves:
            bits = [pack_bits(each, HALF) for each in elements]
            return [low | high << np.uint32(16) for low, high in zip(bits[::2], bits[1::2], strict=True)]
        with np.errstate(over="ignore"):
            return [pack_bits(each, SINGLE) for each in elements]


def _known(values: Sequence[Value], shape: tuple[int, ...]) -> tuple[list[Bits], Bools]:
    """Return the values' bits, (G, 32) each, and in which warps all of them are known, (G,)."""
    bits = [np.ascontiguousarray(np.broadcast_to(value.bits, shape)) for value in values]
    sure = np.ones(shape[0], bool)
    for value in values:
        if value.known is not True:
            sure &= np.broadcast_to(np.asarray(value.known), shape).all(axis=1)
    return bits, sure


def _put(m: Machine, target: int, words: Sequence[Bits], sure: Bools, condition: Value | None) -> None:
    """Write registers, known in some warps of the view, (G,)."""
    known = True if sure.all() else np.broadcast_to(sure[:, None], m.view.mask.shape).copy()
    for k, word in enumerate(words):
        m.put(target + k, Value(word, known, m.now), condition)


def _registers(operand: Operand, count: int) -> list[operands.Reader]:
    return [operands.raw(operand, k) for k in range(count)]


def product_step(instruction: SassInstruction) -> Step | None:
    """Return the step of a matrix product; None if it is not one that is modelled."""
    if instruction.opcode == "DMMA":
        return _doubles(instruction)
    shape = ProductShape.of(instruction)
    if shape is None:
        return None
    return _tiles(instruction, shape) if instruction.opcode.endswith("GMMA") else _fragments(instruction, shape)


def _fragments(instruction: SassInstruction, shape: ProductShape) -> Step | None:
    """Return the step of a warp's product of fragments."""
    left, right = KINDS[shape.a], KINDS[shape.b]
    target = operand_number(instruction.operands[0])
    if target is None or any(each.negated for each in instruction.operands[1:4]):
        return None
    summed = Sum.of(instruction, shape, shape.rows)
    bits = (shape.rows * left.bits, shape.columns * right.bits)
    counts = (*(max(1, shape.depth * each // 1024) for each in bits), summed.registers)
    readers = [_registers(each, count) for each, count in zip(instruction.operands[1:4], counts, strict=True)]
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        size = m.view.mask.shape
        (a, sure_a), (b, sure_b), (c, sure_c) = (_known([read(m) for read in each], size) for each in readers)
        summand = summed.unpacked(c, shape.rows, shape.columns)
        result = summed.added(unpacked(a, left, shape.rows), unpacked(b, right, shape.columns), summand)
        _put(m, target, summed.packed(result), sure_a & sure_b & sure_c, guard(m) if guard else None)

    return step


def _doubles(instruction: SassInstruction) -> Step | None:
    """Return the step of a product of doubles, each added after the other; whether hardware does so is not measured."""
    shape = next((word for word in instruction.modifiers if _SHAPE.fullmatch(word)), "")
    target = operand_number(instruction.operands[0])
    if not shape or target is None or any(each.negated for each in instruction.operands[1:4]):
        return None
    rows, depth = (8, int(shape[2:])) if shape[0] == "8" else (16, int(shape[3:]))
    counts = (rows * depth // 16, 8 * depth // 16, rows * 8 // 16)
    readers = [_registers(each, count) for each, count in zip(instruction.operands[1:4], counts, strict=True)]
    guard, down, (row, column) = operands.guard_operands(instruction.guard), rows // 8, _places(rows, 8)

    def step(m: Machine) -> None:
        size = m.view.mask.shape
        read = [_known([reader(m) for reader in each], size) for each in readers]
        numbers = [
            [join_halves(*pair).view(F64) for pair in zip(bits[::2], bits[1::2], strict=True)] for bits, _ in read
        ]
        a, b, total = (np.zeros((size[0], *extents)) for extents in ((rows, depth), (8, depth), (rows, 8)))
        for k, part in enumerate(numbers[0]):
            a[:, GROUP + 8 * (k % down), k // down * 4 + WITHIN] = part
        for k, part in enumerate(numbers[1]):
            b[:, GROUP, k * 4 + WITHIN] = part
        for k, part in enumerate(numbers[2]):
            total[:, row[k], column[k]] = part
        for k in range(depth):
            total = multiply_add_doubles(a[:, :, None, k], b[:, None, :, k], total)
        halves = [half for k in range(len(row)) for half in words(np.ascontiguousarray(total[:, row[k], column[k]]))]
        _put(m, target, halves, read[0][1] & read[1][1] & read[2][1], guard(m) if guard else None)

    return step


# ---------------------------------------------------------------------------------------------- tiles


class _Tiles:
    """A wgmma: each warp of the four multiplies its 16 rows of A by B."""

    def __init__(self, instruction: SassInstruction, shape: ProductShape, target: int, at: int) -> None:
        parts = instruction.operands
        self.instruction, self.shape, self.target = instruction, shape, target
        self.kinds = KINDS[shape.a], KINDS[shape.b]
        self.sum = Sum.of(instruction, shape, _ROWS_OF_WARP)
        self.left = _registers(parts[1], 4) if parts[1].kind == REG else []
        described = _registers(parts[at].terms[0], 4)
        self.described = {"A": described[:2], "B": described[2:]}
        flag = next((operand for operand in parts[at + 1 :] if operand.kind in operands.PREDICATES), None)
        self.adds = operands.predicate(flag) if flag is not None else None
        summand = next((operand for operand in parts[at + 1 :] if operand.kind == REG), None)
        self.added = _registers(summand, self.sum.registers) if summand is not None else []

    def step(self, m: Machine) -> None:
        size = m.view.mask.shape
        right, sure = self._operand(m, "B", self.kinds[1], self.shape.columns)
        if self.left:
            words, known = _known([read(m) for read in self.left], size)
            left = unpacked(words, self.kinds[0], _ROWS_OF_WARP)
        else:
            left, known = self._operand(m, "A", self.kinds[0], ROWS)
            first = m.view.warps % m.per_block % WARPS * _ROWS_OF_WARP
            left = left[np.arange(size[0])[:, None], first[:, None] + np.arange(_ROWS_OF_WARP)]
        sure = sure & known
        words, known = _known([read(m) for read in self.added], size)
        words = words or [np.zeros(size, np.uint32)] * self.sum.registers
        summand = self.sum.unpacked(words, _ROWS_OF_WARP, self.shape.columns)
        if self.adds is not None:
            truth = first_lane(self.adds(m), m.view.mask)
            keep, certain = (
                np.broadcast_to(np.asarray(part), (size[0], 1))[:, 0] for part in (truth.bits, truth.known)
            )
            summand, known, sure = np.where(keep[:, None, None], summand, 0), known | ~keep, sure & certain
        result = self.sum.added(left, right, summand)
        _put(m, self.target, self.sum.packed(result), sure & known, None)

    def _operand(self, m: Machine, side: str, kind: Element, rows: int) -> tuple[Bits, Bools]:
        """Return what descriptors name, (G, rows, k), and in which warps of the view that is known, (G,)."""
        low, high = (first_lane(read(m), m.view.mask) for read in self.described[side])
        every = np.arange(len(m.view.warps))
        bits = join_halves(values_of_rows(low, every), values_of_rows(high, every))
        tiles = np.zeros((len(every), rows, self.shape.depth), np.int64 if kind.whole else float)
        sure = np.full(len(every), low.certain and high.certain)
        # The warps of a warpgroup read the same.
        pairs, which = np.unique(np.stack([m.view_blocks().astype(np.uint64), bits]), axis=1, return_inverse=True)
        for number, (block, descriptor) in enumerate(pairs.T.tolist()):
            tile, known = self._tile(m, side, kind, rows, block, Descriptor.of_bits(descriptor))
            tiles[which == number] = tile
            sure[which == number] &= known
        return tiles, sure

    def _tile(
        self, m: Machine, side: str, kind: Element, rows: int, block: int, descriptor: Descriptor
    ) -> tuple[Bits, bool]:
        """Return the matrix in a block's shared memory, (rows, k), and whether it is known."""
        mn_major = f"tnsp{side}" in self.instruction.text
        places = descriptor.chunks(rows, mn_major, self.shape.depth)[..., None] + np.arange(CHUNK)
        if int(places.max()) >= m.shared.shape[1]:
            return np.zeros((rows, self.shape.depth)), False
        units: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
        unit = np.ascontiguousarray(m.shared[block][places]).view(units[kind.bits])
        # K-major: (rows, chunks along K, elements along K); else (chunks along the rows, k, elements along the rows).
        matrix = unit.transpose(0, 2, 1).reshape(rows, -1) if mn_major else unit.reshape(rows, -1)
        return kind.decode(matrix.astype(np.uint32)), bool(m.shared_known[block][places].all())


def _tiles(instruction: SassInstruction, shape: ProductShape) -> Step | None:
    """Return the step of a wgmma; None for one that only orders others."""
    parts = instruction.operands
    at = next((k for k, operand in enumerate(parts) if operand.kind == MEMORY and operand.terms), None)
    target = operand_number(parts[0])
    if at is None or target is None or parts[at].terms[0].text == "URZ":
        return None
    return _Tiles(instruction, shape, target, at).step
