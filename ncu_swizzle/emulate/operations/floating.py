"""Floating point as far as integer arithmetic needs it: IEEE single and double precision, and conversions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ncu_swizzle.emulate.effects import source_width
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import predicate, raw
from ncu_swizzle.emulate.operations.predicates import COMBINATIONS, COMPARISONS, negation
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.parse import FLOAT, Operand, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, computed, first_origin, high_half, joint, low_half, wide

F32, F64 = np.float32, np.float64
ROUNDINGS = ("RM", "RP", "RZ")

Reals = Callable[[Machine], tuple[Bits, tuple[Value, ...]]]


def single(operand: Operand) -> Reals:
    """Return a reader of an operand as float32."""
    read = raw(operand)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = read(m)
        numbers = value.bits.view(F32)
        if operand.kind == FLOAT:
            return numbers, (value,)
        if operand.absolute:
            numbers = np.abs(numbers)
        return -numbers if operand.negated else numbers, (value,)

    return reals


def double(operand: Operand) -> Reals:
    """Return a reader of an operand as float64."""
    low, high = raw(operand, 0, single=False), raw(operand, 1, single=False)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        first, second = low(m), high(m)
        numbers = wide(first.bits, second.bits).view(F64)
        if operand.kind == FLOAT:
            return numbers, (first, second)
        if operand.absolute:
            numbers = np.abs(numbers)
        return -numbers if operand.negated else numbers, (first, second)

    return reals


def nothing(*sources: Value, like: type = np.uint32) -> Value:
    """Return a value that is unknown because a source is; uniform if all sources are."""
    wide_enough = 1 if all(source.bits.shape[1] == 1 for source in sources) else 32
    return Value(np.zeros((1, wide_enough), like), False, first_origin(*sources))


def _flushed(numbers: Bits) -> Bits:
    tiny = np.abs(numbers) < np.finfo(F32).tiny
    return np.where(tiny, np.copysign(F32(0), numbers), numbers)


def _arithmetic(ins: SassInstruction, function: Callable[..., Bits]) -> Compute | None:
    if ins.has(*ROUNDINGS, "SAT"):
        return None
    readers = [single(operand) for operand in ins.operands[1:]]
    flush = ins.has("FTZ")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        read = [reader(m) for reader in readers]
        sources = [value for _, values in read for value in values]
        if joint(*sources) is False:
            return (nothing(*sources),)
        numbers = [_flushed(reals) if flush else reals for reals, _ in read]
        with np.errstate(all="ignore"):
            result = function(*numbers).astype(F32)
        return (computed((_flushed(result) if flush else result).view(np.uint32), *sources),)

    return compute


@operation("FADD", "UFADD")
def fadd(ins: SassInstruction) -> Compute | None:
    """a + b, rounded once: a double is precise enough for the sum."""
    return _arithmetic(ins, lambda a, b: a.astype(F64) + b.astype(F64))


@operation("FMUL", "UFMUL")
def fmul(ins: SassInstruction) -> Compute | None:
    """a * b."""
    return _arithmetic(ins, lambda a, b: a.astype(F64) * b.astype(F64))


@operation("FFMA", "UFFMA")
def ffma(ins: SassInstruction) -> Compute | None:
    """a * b + c, rounded once."""
    return _arithmetic(ins, fused)


def fused(a: Bits, b: Bits, c: Bits) -> Bits:
    """Return a * b + c, a double that rounds to the right float32: the error is kept in its last bit.

    The product of two floats is exact in a double. Its sum with c is not; if it is inexact, the result is made odd
    ("round to odd": Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums").
    """
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    lost = np.isfinite(total) & (error != 0) & even
    away = (error > 0) == (total > 0)
    return np.where(lost, np.where(away, bits + 1, bits - 1), bits).view(F64)


@operation("FSETP")
def fsetp(ins: SassInstruction) -> Compute | None:
    """A comparison of two floats; with a U (.LTU) also true for unordered operands."""
    relation = next((w for w in ins.modifiers if w in COMPARISONS or w.removesuffix("U") in COMPARISONS), None)
    combine = next((COMBINATIONS[word] for word in ins.modifiers if word in COMBINATIONS), None)
    if relation is None or combine is None:
        return None
    unordered = relation not in COMPARISONS
    compare = COMPARISONS[relation.removesuffix("U") if unordered else relation]
    a, b = (single(operand) for operand in ins.operands[2:4])
    with_this = predicate(ins.operands[4])
    flush = ins.has("FTZ")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        (first, sources), (second, others) = a(m), b(m)
        if flush:
            first, second = _flushed(first), _flushed(second)
        nan = np.isnan(first) | np.isnan(second)
        with np.errstate(invalid="ignore"):
            bits = np.where(nan, unordered, compare(first, second))
        result = computed(bits, *sources, *others)
        other = with_this(m)
        return combine(result, other), combine(negation(result), other)

    return compute


@operation("FMNMX")
def fmnmx(ins: SassInstruction) -> Compute | None:
    """The minimum of two floats if the predicate is true, else the maximum."""
    a, b = (single(operand) for operand in ins.operands[1:3])
    smaller = predicate(ins.operands[3])
    if len(ins.operands) > 4 or ins.has("FTZ", "NAN", "XORSIGN"):
        return None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        (first, sources), (second, others) = a(m), b(m)
        way = smaller(m)
        if joint(*sources, *others) is False:
            return (nothing(*sources, *others),)
        bits = np.where(way.bits, np.fmin(first, second), np.fmax(first, second)).astype(F32)
        return (computed(bits.view(np.uint32), *sources, *others, way),)

    return compute


@operation("DADD", "DMUL")
def dadd(ins: SassInstruction) -> Compute | None:
    """a + b and a * b in double precision."""
    if ins.has(*ROUNDINGS):
        return None
    a, b = (double(operand) for operand in ins.operands[1:3])
    add = ins.opcode == "DADD"

    def compute(m: Machine) -> tuple[Value | None, ...]:
        (first, sources), (second, others) = a(m), b(m)
        with np.errstate(all="ignore"):
            result = (first + second if add else first * second).view(np.uint64)
        return computed(low_half(result), *sources, *others), computed(high_half(result), *sources, *others)

    return compute


@operation("DFMA")
def dfma(ins: SassInstruction) -> Compute | None:
    """a * b + c in double precision, rounded once: computed exactly, number by number."""
    if ins.has(*ROUNDINGS):
        return None
    readers = [double(operand) for operand in ins.operands[1:4]]

    def compute(m: Machine) -> tuple[Value | None, ...]:
        read = [reader(m) for reader in readers]
        sources = [value for _, values in read for value in values]
        if joint(*sources) is False:
            return nothing(*sources), nothing(*sources)
        result = exactly_fused(*(reals for reals, _ in read)).view(np.uint64)
        return computed(low_half(result), *sources), computed(high_half(result), *sources)

    return compute


def exactly_fused(a: Bits, b: Bits, c: Bits) -> Bits:
    """Return a * b + c as float64, rounded once."""
    numbers = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        result: Bits = numbers[0] * numbers[1] + numbers[2]
    ordinary = np.isfinite(result) & (result != 0)
    for index in zip(*np.nonzero(ordinary), strict=True):
        x, y, z = (Fraction(float(array[index])) for array in numbers)
        result[index] = float(x * y + z)
    return result


# ---------------------------------------------------------------------------------------------- conversions


@operation("I2F", "I2FP", "UI2F", "UI2FP")
def i2f(ins: SassInstruction) -> Compute | None:
    """An integer as a float: rounded to nearest, up (.RP), down (.RM) or towards 0 (.RZ)."""
    source = ins.operands[1]
    if ins.has("F16", "BF16") or ins.has("U8", "S8", "U16", "S16"):
        return None
    to_double = ins.has("F64")
    is_wide = source_width(ins, 0) == 2
    low, high = raw(source), raw(source, 1)
    is_signed = _is_signed_source(ins)
    rounding = next((word for word in ins.modifiers if word in ROUNDINGS), "RN")
    minus = source.negated

    def compute(m: Machine) -> tuple[Value | None, ...]:
        values = (low(m), high(m)) if is_wide else (low(m),)
        whole: Bits = wide(values[0].bits, values[-1].bits) if is_wide else values[0].bits.astype(np.uint64)
        if is_signed:
            whole = whole.view(np.int64) if is_wide else values[0].bits.view(np.int32).astype(np.int64)
            whole = -whole if minus else whole
        if to_double:
            bits = whole.astype(F64).view(np.uint64)
            return computed(low_half(bits), *values), computed(high_half(bits), *values)
        return (computed(_rounded(whole, rounding).view(np.uint32), *values),)

    return compute


def _is_signed_source(ins: SassInstruction) -> bool:
    if ins.opcode.endswith("I2FP"):
        return ins.has("S32")
    return not ins.has("U32", "U64")


def _rounded(whole: Bits, rounding: str) -> Bits:
    """Return integers, int64 or uint64, as float32."""
    nearest = whole.astype(F32)  # NumPy rounds 64-bit integers to nearest, ties to even
    if rounding == "RN":
        return nearest
    exact = nearest.astype(np.longdouble) - whole.astype(np.longdouble)
    above, below = np.nextafter(nearest, F32(np.inf)), np.nextafter(nearest, F32(-np.inf))
    if rounding == "RZ":
        negative = whole < 0
        return np.where((exact > 0) & ~negative, below, np.where((exact < 0) & negative, above, nearest)).astype(F32)
    if rounding == "RP":
        return np.where(exact < 0, above, nearest).astype(F32)
    return np.where(exact > 0, below, nearest).astype(F32)


@operation("F2I", "F2IP")
def f2i(ins: SassInstruction) -> Compute | None:
    """A float as an integer: towards 0 (.TRUNC), down (.FLOOR), up (.CEIL) or to nearest; saturated out of range."""
    if ins.opcode == "F2IP" or ins.has("F16", "U8", "S8", "U16", "S16"):
        return None
    read = double(ins.operands[1]) if ins.has("F64") else single(ins.operands[1])
    unsigned, is_wide = ins.has("U32", "U64"), ins.has("S64", "U64")
    step = next((word for word in ("TRUNC", "FLOOR", "CEIL") if ins.has(word)), "")
    function = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "": np.rint}[step]

    def compute(m: Machine) -> tuple[Value | None, ...]:
        numbers, sources = read(m)
        with np.errstate(all="ignore"):
            whole = _whole(function(numbers.astype(F64)), unsigned, is_wide)
        first = computed(low_half(whole), *sources)
        return (first, computed(high_half(whole), *sources)) if is_wide else (first,)

    return compute


def _whole(numbers: Bits, unsigned: bool, is_wide: bool) -> Bits:
    size = 64 if is_wide else 32
    least, most = (0.0, 2.0**size) if unsigned else (-(2.0 ** (size - 1)), 2.0 ** (size - 1))
    inside = (numbers >= least) & (numbers < most)
    kept = np.where(inside, numbers, 0.0)
    whole = kept.astype(np.uint64) if unsigned else kept.astype(np.int64).view(np.uint64)
    end = np.uint64(int(most) - 1)
    start = np.uint64(int(least) % (1 << 64))
    result = np.where(numbers >= most, end, np.where(numbers < least, start, whole))
    return np.where(np.isnan(numbers), np.uint64(0x80000000 if size == 32 and unsigned is False else 0), result)


@operation("FRND")
def frnd(ins: SassInstruction) -> Compute | None:
    """A float rounded to an integer value."""
    if ins.has("F64", "F16") or ins.has("FTZ"):
        return None
    functions = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil}
    step = next((functions[word] for word in functions if ins.has(word)), np.rint)
    read = single(ins.operands[1])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        numbers, sources = read(m)
        return (computed(step(numbers).astype(F32).view(np.uint32), *sources),)

    return compute


@operation("HFMA2")
def hfma2(ins: SassInstruction) -> Compute | None:
    """Two half-precision constants: compilers load small integers this way."""
    sources = ins.operands[1:]
    zeros = [operand.number == 255 and operand.kind == "R" for operand in sources[:2]]
    constants = [operand for operand in sources[2:] if operand.kind == FLOAT]
    if not all(zeros) or len(constants) != 2:
        return None
    high, low = (_half(operand) for operand in constants)
    bits = np.array([[high << 16 | low]], np.uint32)
    fixed = Value(bits)
    return lambda m: (fixed,)


def _half(operand: Operand) -> int:
    real = -operand.real if operand.negated else operand.real
    return int(np.float16(real).view(np.uint16))


@operation("MUFU", "UMUFU")
def mufu(ins: SassInstruction) -> Compute | None:
    """1/x, 1/sqrt(x) and sqrt(x), which the hardware approximates: off by the machine's `ulps`."""
    function = next((word for word in ("RCP", "RSQ", "SQRT") if ins.has(word)), None)
    if function is None or ins.has("F16"):
        return None
    read = single(ins.operands[1])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        numbers, sources = read(m)
        with np.errstate(all="ignore"):
            exact = numbers.astype(F64)
            root = exact if function == "RCP" else np.sqrt(exact)
            result = (root if function == "SQRT" else 1 / root).astype(F32)
        off = m.ulps[m.view_blocks()][:, None].astype(np.int32)
        if off.any():
            ordinary = np.isfinite(result) & (np.abs(result) >= np.finfo(F32).tiny) & (not _power_of_two(numbers))
            result = np.where(ordinary, (result.view(np.int32) + off).view(F32), result)
        m.approximated = True
        return (computed(result.view(np.uint32), *sources),)

    return compute


def _power_of_two(numbers: Bits) -> bool:
    """Say whether all numbers are powers of two: their reciprocals are exact."""
    return bool((numbers.view(np.uint32) & np.uint32(0x7FFFFF) == 0).all())
