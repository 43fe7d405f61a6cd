"""What tensor cores compute: HMMA, IMMA, DMMA and QMMA on fragments in registers, HGMMA and its like on tiles.

Products of integers and doubles are exact. Floating-point ones add up as an H100's, bit by bit, in sums.c
(docs/results.md; also Xie et al., "MMA-Sim", arXiv:2511.10909; Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor
Cores", arXiv:2512.07004).

Where elements lie in the registers of lanes: PTX ISA, "Matrix Fragments" of mma and wgmma.
"""

from __future__ import annotations

import ctypes
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
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.rounding import (
    E4M3,
    E5M2,
    F32,
    F64,
    HALF,
    SINGLE,
    byte_numbers,
    compiled,
    multiply_add_doubles,
    with_nan_of,
)
from ncu_swizzle.emulate.values import Bits, Value, high_half, join_halves, low_half
from ncu_swizzle.smem.descriptors import CHUNK, ROWS, WARPS, Descriptor
from ncu_swizzle.smem.operations import Bools

WORD_BITS = 32
MATRIX_BYTES = 64 << 20  # of matrices that were read from registers
UNITS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SHAPE = re.compile(r"(?:64x(\d+)x|(16|8)x?8x?)(\d+)")
_ROWS_OF_WARP = 16  # of the 64 of a warpgroup


# ---------------------------------------------------------------------------------------------- elements


@dataclass(frozen=True)
class Element:
    """A type of elements: bits, and what they are worth, as float32; whole numbers and doubles as float64."""

    bits: int
    decode: Callable[[Bits], Bits]
    least: int = 0  # exponent, which denormal numbers have too
    whole: bool = False


def _signed(bits: Bits, size: int) -> Bits:
    half = 1 << size - 1
    return ((bits.astype(np.int64) ^ half) - half).astype(F64)


KINDS: dict[str, Element] = {
    "F16": Element(16, lambda bits: bits.astype(np.uint16).view(np.float16).astype(F32), -14),
    "BF16": Element(16, lambda bits: (bits.astype(np.uint32) << np.uint32(16)).view(F32), -126),
    "TF32": Element(32, lambda bits: (bits & np.uint32(0xFFFFE000)).view(F32), -126),
    "E4M3": Element(8, lambda bits: byte_numbers(E4M3)[bits], E4M3.least),
    "E5M2": Element(8, lambda bits: byte_numbers(E5M2)[bits], E5M2.least),
    "F64": Element(64, lambda bits: bits.view(F64), whole=True),
    **{f"U{size}": Element(size, lambda bits: bits.astype(F64), whole=True) for size in (4, 8)},
    **{f"S{size}": Element(size, functools.partial(_signed, size=size), whole=True) for size in (4, 8)},
}


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
        if not instruction.opcode.startswith("I"):  # F16 alone, or before the operands' types, is the type of the sum
            names = [name for name in names if name != "F16"] or ["F64" if instruction.opcode == "DMMA" else "F16"]
        if match is None or not names or instruction.has("SP") or instruction.opcode not in MODELLED:
            return None
        return cls(int(match[2] or 64), int(match[1] or 8), int(match[3]), names[0], names[-1])


MODELLED = ("HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA")


def exact(instruction: SassInstruction) -> bool:
    """Return whether a product's results are bit-exact: all that an H100 has; QMMA was not measured."""
    return instruction.opcode != "QMMA"


def of_rows(parts: Bits, rows: int) -> Bits:
    """Return a matrix, (G, rows, k), from the elements in registers, (n, G, 32 times those of one)."""
    # By chunks along K, eight rows each, the row and the place in it of a lane, and the elements of its register.
    split = parts.reshape(-1, rows // 8, parts.shape[1], 8, parts.shape[2] // 8)
    return np.ascontiguousarray(split.transpose(2, 1, 3, 0, 4)).reshape(parts.shape[1], rows, -1)


def unpacked(together: Bits, kind: Element, rows: int) -> Bits:
    """Return a matrix of a fragment, (G, rows, k), from its registers, (n, G, 32); of B, rows are its columns."""
    if kind.bits == 64:
        together = join_halves(together[::2], together[1::2])
    if kind.bits >= 8:
        return kind.decode(of_rows(together.view(UNITS[kind.bits]), rows))
    parts = together[..., None] >> np.arange(0, WORD_BITS, kind.bits, dtype=np.uint32)
    return kind.decode(of_rows((parts & np.uint32((1 << kind.bits) - 1)).reshape(*together.shape[:2], -1), rows))


def of_sums(registers: Bits, rows: int) -> Bits:
    """Return sums, (G, rows, columns), from registers with one each, (n, G, 32)."""
    # By chunks of 8 columns, eight rows each, the two elements of a lane, its row and columns.
    parts = registers.reshape(-1, rows // 8, 2, registers.shape[1], 8, 4)
    return np.ascontiguousarray(parts.transpose(3, 1, 4, 0, 5, 2)).reshape(registers.shape[1], rows, -1)


def in_registers(sums: Bits) -> Bits:
    """Return the registers that hold sums, as `of_sums` reads them."""
    warps, rows, columns = sums.shape
    parts = sums.reshape(warps, rows // 8, 8, columns // 8, 4, 2)
    return np.ascontiguousarray(parts.transpose(3, 1, 5, 0, 2, 4)).reshape(-1, warps, 32)


# ---------------------------------------------------------------------------------------------- sums


@dataclass(frozen=True, kw_only=True)
class Accumulation:
    """How floats are added up: the bits behind the largest exponent that are added, and what is kept."""

    fraction: int = 25
    kept: int = 23  # bits of the sum's fraction
    halves: bool = False  # whether the summand is a half, and the sum is rounded to one
    least: tuple[int, int] = (-14, -14)  # exponents of A and of B, which denormal numbers have


def fused_registers(a: Bits, b: Bits, c: Bits, how: Accumulation) -> Bits:
    """Return c + a b^T as the hardware adds it up: a (G, m, k), b (G, n, k), c and the result in registers, (n, G, 32).

    All products and the summand are aligned to the largest exponent, cut off behind `fraction` bits, and added, which
    is exact. The exponents that are compared are the sums of the operands' ones.
    """
    library = compiled()
    assert library is not None
    result = np.empty(c.shape, F32)
    arrays = [np.ascontiguousarray(each, F32) for each in (a, b, c)]
    arrays += [result, _product(a.shape[1], b.shape[1], a.shape[2], how)]
    library.fused_sums(*(ctypes.c_void_p(each.ctypes.data) for each in arrays), len(a))
    return result


@functools.cache
def _product(rows: int, columns: int, depth: int, how: Accumulation) -> Bits:
    """Return Product of sums.c."""
    least = HALF.least if how.halves else SINGLE.least
    return np.array([rows, columns, depth, how.fraction, how.kept, how.halves, *how.least, least], np.int32)


@dataclass(frozen=True, kw_only=True)
class Sum:
    """How an instruction adds up, and how it keeps sums in registers."""

    kind: str  # F32; F16, two in each register; F64, one in two; or S32
    saturates: bool
    registers: int
    how: Accumulation

    @classmethod
    def of(cls, instruction: SassInstruction, shape: ProductShape, rows: int) -> Sum:
        """Return what an instruction does with the sums of so many rows."""
        halves = instruction.has("F16") and not instruction.has("F32")
        kind = (
            "S32" if instruction.opcode.startswith("I") else "F64" if shape.a == "F64" else "F16" if halves else "F32"
        )
        bytes_in = {"fraction": 13, "kept": 13} if instruction.opcode == "QGMMA" else {}
        return cls(
            kind=kind,
            saturates=instruction.has("SAT"),
            registers=rows * shape.columns * int(kind[1:]) // 1024,
            how=Accumulation(halves=kind == "F16", least=(KINDS[shape.a].least, KINDS[shape.b].least), **bytes_in),
        )

    def added(self, a: Bits, b: Bits, c: Bits) -> Bits:
        """Return c + a b^T, numbers in the order of registers, (n, G, 32), as c."""
        if self.kind in ("F16", "F32"):
            return fused_registers(a, b, c, self.how)
        total = of_sums(c, a.shape[1])
        if self.kind == "S32":
            total = (a @ b.transpose(0, 2, 1)).astype(np.int64) + total
            return in_registers(np.clip(total, -(1 << 31), (1 << 31) - 1) if self.saturates else total)
        for k in range(a.shape[2]):  # one multiplication and addition, rounded once, after the other
            left, right = a[:, :, None, k], b[:, None, :, k]
            total = with_nan_of(multiply_add_doubles(left, right, total), left, total, right)
        return in_registers(total)

    def loaded(self, words: Bits) -> Bits:
        """Return the numbers in registers, (n, G, 32), those of a register with two halves one behind the other."""
        if self.kind == "F64":
            return join_halves(words[::2], words[1::2]).view(F64)
        if self.kind == "F16":
            parts = words.view(np.float16).reshape(*words.shape, 2).transpose(0, 3, 1, 2)
            return parts.astype(F32).reshape(-1, *words.shape[1:])
        return words.view(F32 if self.kind == "F32" else np.int32)

    def stored(self, numbers: Bits) -> Bits:
        """Return the registers that hold numbers, as `loaded` reads them."""
        if self.kind == "F16":
            pairs = numbers.reshape(-1, 2, *numbers.shape[1:]).transpose(0, 2, 3, 1)
            return np.ascontiguousarray(pairs.astype(np.float16)).view(np.uint32)[..., 0]
        if self.kind == "F64":
            bits = numbers.view(np.uint64)
            return np.stack([low_half(bits), high_half(bits)], axis=1).reshape(-1, *bits.shape[1:])
        return numbers.view(np.uint32) if self.kind == "F32" else (numbers & 0xFFFFFFFF).astype(np.uint32)


def _negative(numbers: Bits) -> Bits:
    """Return numbers with the other sign; NaN keeps its own."""
    return np.where(np.isnan(numbers), numbers, -numbers)


def _known(values: Sequence[Value], mask: Bools) -> tuple[Bits, Bools]:
    """Return registers, (n, G, 32), and in which warps all of them are known, (G,)."""
    bits = np.empty((len(values), *mask.shape), np.uint32)
    sure = np.ones(len(mask), bool)
    for k, value in enumerate(values):
        bits[k] = value.bits
        if value.known is not True:
            sure &= np.broadcast_to(np.asarray(value.known), mask.shape).all(axis=1)
    return bits, sure


def _matrix(m: Machine, values: Sequence[Value], kind: Element, rows: int) -> tuple[Bits, Bools]:
    """Return the matrix in registers, and in which warps it is known, (G,). It is kept: most are used several times."""
    key = (id(kind), rows, len(m.view.mask), *map(id, values))
    if key not in m.matrices:
        bits, sure = _known(values, m.view.mask)
        matrix = unpacked(bits, kind, rows)
        while len(m.matrices) * matrix.nbytes > MATRIX_BYTES:
            del m.matrices[next(iter(m.matrices))]
        m.matrices[key] = (values, matrix, sure)  # the values are kept so that no other ones have their ids
    return m.matrices[key][1:]


def _put(m: Machine, target: int, words: Bits, sure: Bools, condition: Value | None) -> None:
    """Write registers, (n, G, 32), known in some warps of the view, (G,)."""
    known = True if sure.all() else np.broadcast_to(sure[:, None], m.view.mask.shape).copy()
    for k, word in enumerate(words):
        m.put(target + k, Value(word, known, m.now), condition)


def _registers(operand: Operand, count: int) -> list[operands.Reader]:
    return [operands.raw(operand, k) for k in range(count)]


def product_step(instruction: SassInstruction) -> Step | None:
    """Return the step of a matrix product; None if it is not one that is modelled, or needs C, and there is none."""
    shape = ProductShape.of(instruction)
    if shape is None or not (KINDS[shape.a].whole or compiled()):
        return None
    return _tiles(instruction, shape) if instruction.opcode.endswith("GMMA") else _fragments(instruction, shape)


def _fragments(instruction: SassInstruction, shape: ProductShape) -> Step | None:
    """Return the step of a warp's product of fragments."""
    left, right = KINDS[shape.a], KINDS[shape.b]
    target, parts = operand_number(instruction.operands[0]), instruction.operands[1:4]
    if target is None or (shape.a != "F64" and any(each.negated for each in parts)):
        return None
    summed = Sum.of(instruction, shape, shape.rows)
    bits = (shape.rows * left.bits, shape.columns * right.bits)
    counts = (*(max(1, shape.depth * each // 1024) for each in bits), summed.registers)
    readers = [_registers(each, count) for each, count in zip(parts, counts, strict=True)]
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        values = [[read(m) for read in each] for each in readers]
        a, sure_a = _matrix(m, values[0], left, shape.rows)
        b, sure_b = _matrix(m, values[1], right, shape.columns)
        words, sure = _known(values[2], m.view.mask)
        matrices = (a, b, summed.loaded(words))
        signed = [_negative(each) if part.negated else each for each, part in zip(matrices, parts, strict=True)]
        _put(m, target, summed.stored(summed.added(*signed)), sure & sure_a & sure_b, guard(m) if guard else None)

    return step


# ---------------------------------------------------------------------------------------------- tiles


class _Tiles:
    """A wgmma: each warp of the four multiplies its 16 rows of A by B."""

    def __init__(self, instruction: SassInstruction, shape: ProductShape, target: int, at: int) -> None:
        parts = instruction.operands
        self.instruction, self.shape, self.target = instruction, shape, target
        self.kinds = KINDS[shape.a], KINDS[shape.b]
        self.negated = parts[1].negated or "negA" in parts[at].text, "negB" in parts[at].text
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
            words, known = _known([read(m) for read in self.left], m.view.mask)
            left = unpacked(words, self.kinds[0], _ROWS_OF_WARP)
        else:
            left, known = self._operand(m, "A", self.kinds[0], ROWS)
            first = m.view.warps % m.per_block % WARPS * _ROWS_OF_WARP
            left = left[np.arange(size[0])[:, None], first[:, None] + np.arange(_ROWS_OF_WARP)]
        left, right = (
            _negative(each) if negated else each for each, negated in zip((left, right), self.negated, strict=True)
        )
        sure = sure & known
        words, known = _known([read(m) for read in self.added], m.view.mask)
        if not self.added:
            words = np.zeros((self.sum.registers, *size), np.uint32)
        summand = self.sum.loaded(words)
        if self.adds is not None:
            truth = first_lane(self.adds(m), m.view.mask)
            keep, certain = (
                np.broadcast_to(np.asarray(part), (size[0], 1))[:, 0] for part in (truth.bits, truth.known)
            )
            summand, known, sure = (
                np.where(keep[:, None], summand, summand.dtype.type(0)),
                known | ~keep,
                sure & certain,
            )
        result = self.sum.added(left, right, summand)
        _put(m, self.target, self.sum.stored(result), sure & known, None)

    def _operand(self, m: Machine, side: str, kind: Element, rows: int) -> tuple[Bits, Bools]:
        """Return what descriptors name, (G, rows, k), and in which warps of the view that is known, (G,)."""
        low, high = (first_lane(read(m), m.view.mask) for read in self.described[side])
        every = np.arange(len(m.view.warps))
        bits = join_halves(values_of_rows(low, every), values_of_rows(high, every))
        tiles = np.zeros((len(every), rows, self.shape.depth), F64 if kind.whole else F32)
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
        unit = np.ascontiguousarray(m.shared[block][places]).view(UNITS[kind.bits])
        # K-major: (rows, chunks along K, elements along K); else (chunks along the rows, k, elements along the rows).
        matrix = unit.transpose(0, 2, 1).reshape(rows, -1) if mn_major else unit.reshape(rows, -1)
        return kind.decode(np.ascontiguousarray(matrix)), bool(m.shared_known[block][places].all())


def _tiles(instruction: SassInstruction, shape: ProductShape) -> Step | None:
    """Return the step of a wgmma; None for one that only orders others."""
    parts = instruction.operands
    at = next((k for k, operand in enumerate(parts) if operand.kind == MEMORY and operand.terms), None)
    target = operand_number(parts[0])
    if at is None or target is None or parts[at].terms[0].text == "URZ":
        return None
    return _Tiles(instruction, shape, target, at).step
