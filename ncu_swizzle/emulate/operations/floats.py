"""Floating-point numbers: one rule for each operation in all formats, and how each opcode reads and packs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ncu_swizzle.emulate.code import FLOAT, TRUE, Operand, SassInstruction
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, Reader, apply, operation, predicate, raw
from ncu_swizzle.emulate.operations.integers import both, combinations
from ncu_swizzle.emulate.operations.primitives import COMPARISONS, select
from ncu_swizzle.emulate.operations.rounding import (
    BRAIN,
    DOUBLE,
    E4M3,
    E5M2,
    F32,
    F64,
    HALF,
    LARGEST_E4M3,
    QUIET,
    ROUNDINGS,
    SINGLE,
    STEPS,
    TENSOR,
    Format,
    byte_numbers,
    flush_denormals,
    multiply_add,
    multiply_add_doubles,
    multiply_add_floats,
    pack_bits,
    round_directed,
    round_to_format,
    saturate,
    unpack_bits,
    words,
)
from ncu_swizzle.emulate.values import Bits, Value, all_known, computed, first_origin, join_halves, narrowed, unknown

# ---------------------------------------------------------------------------------------------- operands


Reals = Callable[[Machine], tuple[Bits, tuple[Value, ...]]]  # numbers, and the registers that they come from
UPPER, LOWER, SIGN = np.uint32(16), np.uint32(0xFFFF), np.uint32(1 << 31)
PLACES = {"H0_H0": (0, 0), "H1_H1": (1, 1), "": (0, 1)}  # which halves of a word are read as its two


def single(operand: Operand, plus: int = 0) -> Reals:
    """Return a reader of an operand as float32, `plus` registers further on."""
    read = raw(operand, plus)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = read(m)
        return _signed(value.bits.view(F32), operand), (value,)

    return reals


def double(operand: Operand) -> Reals:
    """Return a reader of an operand as float64; 1 in inactive lanes, whose leftovers may take long."""
    low, high = raw(operand, 0, single=False), raw(operand, 1, single=False)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        first, second = low(m), high(m)
        numbers = _signed(join_halves(first.bits, second.bits).view(F64), operand)
        return numbers if m.view.full or numbers.shape[1] == 1 else np.where(m.view.mask, numbers, 1.0), (first, second)

    return reals


def halves(operand: Operand, form: Format) -> Reals:
    """Return a reader of the two halves of a word as float64, the lower first: (2, warps, lanes)."""
    read = raw(operand)
    low, high = PLACES.get("".join(operand.suffixes), PLACES[""])
    used = (int(LOWER) if 0 in (low, high) else 0) | (int(LOWER) << 16 if 1 in (low, high) else 0)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = narrowed(read(m), used)
        parts = [value.bits & LOWER, value.bits >> UPPER]
        return _signed(np.stack([unpack_bits(parts[low], form), unpack_bits(parts[high], form)]), operand), (value,)

    return reals


def _readers(operands: Sequence[Operand], form: Format) -> list[Reals] | None:
    """Return readers of operands; of halves, two constants are one, and None if it is not known which ones are read."""
    if form is SINGLE:
        return [single(operand) for operand in operands]
    readers: list[Reals] = []
    rest = list(operands)
    while rest:
        first = rest.pop(0)
        if not PLACES.keys() >= set(first.suffixes):
            return None
        if first.kind == FLOAT and rest and rest[0].kind == FLOAT:
            high, low = (-constant.real if constant.negated else constant.real for constant in (first, rest.pop(0)))
            readers.append(_fixed(np.array([low, high])[:, None, None]))
        else:
            readers.append(halves(first, form))
    return readers


def _fixed(numbers: Bits) -> Reals:
    return lambda m: (numbers, ())


def _signed(numbers: Bits, operand: Operand) -> Bits:
    if operand.kind == FLOAT or not (operand.absolute or operand.negated):  # a constant's sign is in its bits
        return numbers
    nan = np.isnan(numbers)  # keeps its sign
    numbers = np.where(nan, numbers, np.abs(numbers)) if operand.absolute else numbers
    return np.where(nan, numbers, -numbers) if operand.negated else numbers


def _condition(operand: Operand) -> Reals:
    """Return a reader of a predicate."""
    read = predicate(operand)

    def truths(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = read(m)
        return value.bits, (value,)

    return truths


def calculation(
    readers: Sequence[Reals], function: Callable[..., Sequence[Bits]], registers: int = 1, like: type = np.uint32
) -> Callable[[Machine], Sequence[Value]]:
    """Return an instruction whose results, words or predicates, are a function of its operands' numbers."""

    def compute(m: Machine) -> Sequence[Value]:
        with np.errstate(all="ignore"):
            read = [reader(m) for reader in readers]
            sources = [value for _, values in read for value in values]
            if all_known(*sources) is False:
                # Nothing is computed; uniform if all sources are.
                shape = (1, 1 if all(source.bits.shape[1] == 1 for source in sources) else 32)
                return (Value(np.zeros(shape, like), False, first_origin(*sources)),) * registers
            results = function(*(numbers for numbers, _ in read))
        return [computed(bits, *sources) for bits in results]

    return compute


def _form(ins: SassInstruction) -> Format:
    return SINGLE if not ins.opcode.startswith("H") else BRAIN if ins.has("BF16_V2") else HALF


def _mode(ins: SassInstruction) -> str:
    return next((word for word in ins.modifiers if word in ROUNDINGS), "RN")


def _word(numbers: Bits, form: Format) -> tuple[Bits]:
    """Return the words of numbers that the format has; of halves, (2, warps, lanes), two are one."""
    bits = pack_bits(numbers, form)
    return (bits if form is SINGLE else bits[0] | bits[1] << UPPER,)


# ---------------------------------------------------------------------------------------------- sums and products


ONE = np.ones((1, 1), F32)
SCALES = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}  # of a product, before it is rounded
MODIFIERS = {
    SINGLE: frozenset({*ROUNDINGS, *SCALES, "FTZ", "SAT"}),
    **dict.fromkeys((HALF, BRAIN), frozenset({"FTZ", "SAT", "RELU", "BF16_V2", "MMA", "F32"})),
}
# Exact, or rounded so that rounding again is right.
ARITHMETIC: dict[str, Callable[..., Bits]] = {
    "ADD": lambda a, b, mode: multiply_add(a, ONE, b, mode),
    "MUL": lambda a, b, mode: np.multiply(a, b, dtype=F64),
    "FMA": multiply_add,
}
# Rounded once to the nearest float.
NEAREST: dict[str, Callable[..., Bits]] = {"ADD": np.add, "MUL": np.multiply, "FMA": multiply_add_floats}


@operation("FADD", "UFADD", "FMUL", "UFMUL", "FFMA", "UFFMA", "HADD2", "HMUL2", "HFMA2")
def ffma(ins: SassInstruction) -> Compute | None:
    """a + b, a * b or a * b + c, rounded once; HADD2.F32 gives one float of the lower halves."""
    form, name = _form(ins), ins.opcode.removeprefix("U")[1:4]
    function = ARITHMETIC[name]
    readers = _readers(ins.operands[1:], form)
    if readers is None or not MODIFIERS[form].issuperset(ins.modifiers):
        return None
    if scales := [SCALES[word] for word in ins.modifiers if word in SCALES]:
        function = _scaled(function, scales[0])
    mode, flush = _mode(ins), ins.has("FTZ")
    target = SINGLE if ins.has("F32") else form
    nearest = NEAREST[name] if form is SINGLE and mode == "RN" and not scales else None

    def result(*numbers: Bits) -> tuple[Bits]:
        used = [flush_denormals(number, form) for number in numbers] if flush else numbers
        if nearest:
            total = nearest(*used)
        else:
            exact = function(*used, mode)
            total = round_to_format(exact if target is form else exact[0], target, mode)
        total = flush_denormals(total, target) if flush else total
        total = saturate(total) if ins.has("SAT") else total
        return _word(np.where(total <= 0, 0.0, total) if ins.has("RELU") else total, target)

    return calculation(readers, result)


def _scaled(function: Callable[..., Bits], scale: float) -> Callable[..., Bits]:
    return lambda *numbers: scale * function(*numbers)


ENDS = {"LO": 0, "HI": 1}


@operation("FADD2", "FMUL2", "FFMA2")
def ffma2(ins: SassInstruction) -> Compute | None:
    """Two sums, products or fused ones, of neighbouring registers; an operand may be one float for both (.F32)."""
    sources = ins.operands[1:]
    pairs_read = [_pair(operand) for operand in sources]
    if not all(pairs_read) or not {*ROUNDINGS, "FTZ"}.issuperset(ins.modifiers):
        return None
    function, mode, flush = ARITHMETIC[ins.opcode[1:4]], _mode(ins), ins.has("FTZ")
    readers = [pair[end] for end in (0, 1) for pair in pairs_read]

    def result(*numbers: Bits) -> tuple[Bits, ...]:
        pairs = [np.stack(np.broadcast_arrays(*pair)) for pair in zip(numbers, numbers[len(sources) :], strict=False)]
        exact = function(*[flush_denormals(pair) for pair in pairs] if flush else pairs, mode)
        total = round_to_format(exact, SINGLE, mode)
        return tuple(pack_bits(flush_denormals(total) if flush else total, SINGLE))

    return calculation(readers, result, registers=2)


def _pair(operand: Operand) -> tuple[Reals, ...]:
    """Return readers of the lower and the upper float of a pair, empty if it is not known; .NP negates the upper."""
    if operand.suffixes == ("F32",):
        return single(operand), single(operand)
    ends = operand.suffixes[1].partition("_")[::2] if operand.suffixes[:1] == ("F32x2",) else ()
    if len(ends) != 2 or not ENDS.keys() >= set(ends) or operand.suffixes[2:] not in ((), ("NP",)):
        return ()
    upper = replace(operand, negated=operand.negated != bool(operand.suffixes[2:]))
    return single(operand, ENDS[ends[1]]), single(upper, ENDS[ends[0]])


@operation("DADD", "DMUL", "DFMA")
def dfma(ins: SassInstruction) -> Compute | None:
    """a + b, a * b and a * b + c of doubles."""
    if not set(ROUNDINGS).issuperset(ins.modifiers):
        return None
    mode = _mode(ins)

    def result(a: Bits, b: Bits, *c: Bits) -> tuple[Bits, Bits]:
        if c:
            return words(multiply_add_doubles(a, b, c[0], mode), a, c[0], b)
        if mode == "RN":  # as NumPy rounds
            return words(a + b if ins.opcode == "DADD" else a * b, a, b)
        if ins.opcode == "DADD":
            return words(multiply_add_doubles(a, np.ones((1, 1)), b, mode), a, b)
        return words(multiply_add_doubles(a, b, np.copysign(np.zeros((1, 1)), a * b), mode), a, b)

    return calculation([double(operand) for operand in ins.operands[1:]], result, registers=2)


@operation("FCHK")
def fchk(ins: SassInstruction) -> Compute | None:
    """Whether a / b has to take the slow path: by the exponents alone, as measured for all pairs on an H100."""
    readers = [single(operand) for operand in ins.operands[1:3]]
    return calculation(readers, lambda a, b: (needs_slow_path(a, b),), like=bool)


def needs_slow_path(a: Bits, b: Bits) -> Bits:
    """Return where the fast path of a / b may not round right: operands or quotient near the range's ends."""
    over, under = (numbers.view(np.int32) >> 23 & 0xFF for numbers in (a, b))  # biased exponents
    difference = over - under
    near: Bits = (under <= 1) | (under >= 252) | (over <= 24) | (over == 255)
    return near | (difference >= 127) | (difference <= -125)


# ---------------------------------------------------------------------------------------------- comparisons


Truths = Callable[[Machine], Sequence[Value]]


def _comparison(ins: SassInstruction, readers: Sequence[Reals] | None, form: Format) -> Truths | None:
    """Return what computes the comparison that the modifiers name; of halves, both comparisons.

    With a U (.LTU), it is true if an operand is NaN.
    """
    relation = next((w for w in ins.modifiers if w.removesuffix("U") in COMPARISONS or w in ("NUM", "NAN")), None)
    if relation is None or not readers or len(readers) != 2:
        return None
    flush, unordered = ins.has("FTZ"), relation.endswith("U") or relation == "NAN"
    compare = COMPARISONS.get(relation.removesuffix("U"))

    def result(a: Bits, b: Bits) -> Sequence[Bits]:
        nan = np.isnan(a) | np.isnan(b)
        if compare is None:
            truths = nan if unordered else ~nan
        else:
            first, second = (flush_denormals(a, form), flush_denormals(b, form)) if flush else (a, b)
            truths = np.where(nan, unordered, compare(first, second))
        return (truths,) if form is SINGLE else tuple(truths)

    return calculation(readers, result, registers=1 if form is SINGLE else 2, like=bool)


@operation("FSETP", "UFSETP", "HSETP2", "DSETP")
def fsetp(ins: SassInstruction) -> Compute | None:
    """A comparison, combined with a predicate, and the opposite, combined too; of halves, the lower and the upper.

    DSETP with MIN and MAX: whether the first number is it, and whether both are NaN.
    """
    form, is_double = _form(ins), ins.opcode == "DSETP"
    sources = ins.operands[2 : 4 if form is SINGLE else -1]
    readers = [double(operand) for operand in sources] if is_double else _readers(sources, form)
    if is_double and ins.has("MIN", "MAX"):
        last = ins.operands[4]
        return _double_extreme(readers or (), ins.has("MIN")) if last.number == TRUE and not last.negated else None
    compare, combine = _comparison(ins, readers, form), combinations(ins)
    if compare is None or not combine:
        return None
    with_this = predicate(ins.operands[4 if form is SINGLE else -1])
    if form is SINGLE:
        return lambda m: both(combine[0], compare(m)[0], with_this(m))
    if ins.has("H_AND"):  # one comparison of both halves
        return None
    return lambda m: [combine[0](half, with_this(m)) for half in compare(m)]


def _double_extreme(readers: Sequence[Reals], smaller: bool) -> Compute:
    def result(a: Bits, b: Bits) -> tuple[Bits, Bits]:
        one, other = np.isnan(a), np.isnan(b)
        less = (a < b) | ((a == b) & np.signbit(a))
        return ~one & (other | (less == smaller)), one & other

    return calculation(readers, result, registers=2, like=bool)


@operation("FSET", "UFSET", "HSET2")
def fset(ins: SassInstruction) -> Compute | None:
    """Comparisons, of halves two, each combined with a predicate, as masks or as 1.0 (.BF)."""
    form = _form(ins)
    compare, combine = _comparison(ins, _readers(ins.operands[1:-1], form), form), combinations(ins)
    if compare is None or not combine:
        return None
    with_this = predicate(ins.operands[-1])
    one = pack_bits(ONE, form)[0, 0] if ins.has("BF") else np.uint32(0xFFFFFFFF if form is SINGLE else 0xFFFF)

    def masks(m: Machine) -> tuple[Value]:
        results = [combine[0](result, with_this(m)) for result in compare(m)]
        parts = [np.where(result.bits, one, np.uint32(0)) << np.uint32(16 * k) for k, result in enumerate(results)]
        return (computed(np.bitwise_or.reduce(np.stack(parts)), *results),)

    return masks


@operation("FMNMX", "UFMNMX", "FMNMX3", "HMNMX2")
def fmnmx(ins: SassInstruction) -> Compute | None:
    """The minimum of two or three floats if the predicate is true, else the maximum; of halves two of them.

    With XORSIGN it has the sign of their product.
    """
    form, crossed = _form(ins), ins.has("XORSIGN")
    readers = _readers(ins.operands[1:-1], form)
    count = 3 if ins.opcode == "FMNMX3" else 2
    if readers is None or len(readers) != count or not {"FTZ", "NAN", "BF16_V2", "XORSIGN"}.issuperset(ins.modifiers):
        return None
    if crossed:
        magnitudes = all(operand.absolute and not operand.negated for operand in ins.operands[1:-1])
        if form is not SINGLE or count != 2 or not magnitudes:
            return None
        readers = [single(replace(operand, absolute=False)) for operand in ins.operands[1:-1]]

    def result(*numbers_and_choice: Bits) -> tuple[Bits]:
        *numbers, smaller = numbers_and_choice
        numbers = [flush_denormals(number, form) for number in numbers] if ins.has("FTZ") else numbers
        magnitudes = [np.abs(number) for number in numbers] if crossed else numbers
        extreme = functools.reduce(lambda a, b: _extreme(a, b, smaller, ins.has("NAN")), magnitudes)
        if crossed:
            extreme = np.where(np.signbit(numbers[0]) ^ np.signbit(numbers[1]), -extreme, extreme)
        return _word(extreme, form)

    return calculation([*readers, _condition(ins.operands[-1])], result)


def _extreme(a: Bits, b: Bits, smaller: Bits, propagate: bool) -> Bits:
    """Return the smaller or larger number, -0 below +0; of a number and NaN the number, unless NaN propagates."""
    first_is_less = (a < b) | ((a == b) & np.signbit(a))
    result = np.where(first_is_less == smaller, a, b)
    one, other = np.isnan(a), np.isnan(b)
    if propagate:
        return np.where(one | other, np.nan, result)
    return np.where(one, b, np.where(other, a, result))


@operation("FSEL", "UFSEL")
def fsel(ins: SassInstruction) -> Compute | None:
    """The first float if the predicate is true, else the second."""
    a, b, choice = ins.operands[1:4]
    if ins.has("FTZ"):
        return None
    return apply(lambda m, *values: (select(m, *values),), predicate(choice), _sign_changed(a), _sign_changed(b))


def _sign_changed(operand: Operand) -> Reader:
    """Return a reader of a float's bits, NaN or not, with its sign changed as the operand says."""
    read = raw(operand)
    if operand.kind == FLOAT:  # nvdisasm prints all NaN alike
        return (lambda m: unknown(m.now)) if np.isnan(operand.real) else read
    if not (operand.negated or operand.absolute):
        return read

    def bits(m: Machine) -> Value:
        value = read(m)
        number = value.bits & ~SIGN if operand.absolute else value.bits
        return computed(number ^ SIGN if operand.negated else number, value)

    return bits


# ---------------------------------------------------------------------------------------------- conversions


FORMATS = {"F16": HALF, "BF16": BRAIN, "F32": SINGLE}
INTEGERS = {f"{sign}{size}": (sign == "S", size) for sign in "SU" for size in (8, 16, 32, 64)}
BYTE_PLACES = {"": 0, "B1": 1, "B2": 2, "B3": 3}  # of an integer of 8 bits in its register
TO_INTEGER = {"TRUNC": "RZ", "FLOOR": "RM", "CEIL": "RP"}


def _modifiers(ins: SassInstruction, *known: str) -> bool:
    return {*known, *ROUNDINGS, *TO_INTEGER, "FTZ"}.issuperset(ins.modifiers)


def _formats(ins: SassInstruction) -> list[str]:
    """Return the names of the floating-point formats: the result's before the operand's."""
    return [word for word in ins.modifiers if word in FORMATS or word == "F64"]


def _integer_type(ins: SassInstruction) -> tuple[bool, int]:
    """Return whether the integer is signed, and its bits."""
    return next((INTEGERS[word] for word in ins.modifiers if word in INTEGERS), (True, 32))


def _step(ins: SassInstruction) -> Callable[[Bits], Bits]:
    """Return how a number is rounded to an integer: to nearest, towards 0 (.TRUNC), down (.FLOOR) or up (.CEIL)."""
    return STEPS[next((TO_INTEGER[word] for word in ins.modifiers if word in TO_INTEGER), "RN")]


@operation("I2F", "I2FP", "UI2F", "UI2FP")
def i2f(ins: SassInstruction) -> Compute | None:
    """An integer as a float: rounded to nearest, up (.RP), down (.RM) or towards 0 (.RZ)."""
    operand = ins.operands[1]
    mode, name, (is_signed, size) = _mode(ins), (_formats(ins) or ["F32"])[0], _integer_type(ins)
    byte = BYTE_PLACES.get("".join(operand.suffixes))
    if not _modifiers(ins, *INTEGERS, *FORMATS, "F64") or byte is None or (byte and size != 8):
        return None
    low, high = raw(operand), raw(operand, 1)
    shift, below = np.uint64(64 - size), np.uint64(8 * byte)

    def integers(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        values = (low(m), high(m)) if size == 64 else (narrowed(low(m), (1 << size) - 1 << 8 * byte),)
        number = join_halves(values[0].bits, values[-1].bits) >> below << shift
        number = (number.view(np.int64) >> shift.astype(np.int64)).view(np.uint64) if is_signed else number >> shift
        return np.uint64(0) - number if operand.negated else number, values

    def result(number: Bits) -> tuple[Bits, ...]:
        minus = number.view(np.int64) < 0 if is_signed else np.zeros(number.shape, bool)
        magnitude = np.where(minus, np.uint64(0) - number, number)
        if name == "F64":
            return words(_as_double(magnitude, minus, mode))
        # At most 53 bits that round alike to 24 bits or fewer: the last one keeps what is lost.
        lost = (magnitude & np.uint64(0x7FF)) != 0
        cut = (magnitude & ~np.uint64(0x7FF)) | np.where(lost, np.uint64(0x800), np.uint64(0))
        odd = np.where(magnitude >> np.uint64(53) != 0, cut, magnitude).astype(F64)
        return (pack_bits(round_to_format(np.where(minus, -odd, odd), FORMATS[name], mode), FORMATS[name]),)

    return calculation([integers], result, registers=2 if name == "F64" else 1)


def _as_double(magnitude: Bits, minus: Bits, mode: str) -> Bits:
    nearest = magnitude.astype(F64)
    top = nearest >= 2.0**64
    back = np.where(top, 0.0, nearest).astype(np.uint64)
    smaller, larger = top | (back > magnitude), ~top & (back < magnitude)  # the exact magnitude, by the nearest
    above, below = np.where(minus, smaller, larger), np.where(minus, larger, smaller)
    return round_directed(np.where(minus, -nearest, nearest), above, below, mode)


@operation("F2I", "UF2I")
def f2i(ins: SassInstruction) -> Compute | None:
    """A float as an integer, saturated out of range."""
    if not _modifiers(ins, *INTEGERS, *FORMATS, "F64", "NTZ"):
        return None
    (is_signed, size), step = _integer_type(ins), _step(ins)
    least, most = (-(2.0 ** (size - 1)), 2.0 ** (size - 1)) if is_signed else (0.0, 2.0**size)
    start, end = np.uint64(int(least) % (1 << 64)), np.uint64(int(most) - 1)
    # NaN: 0 with .NTZ, else the smallest signed number.
    nan = np.uint64(0 if ins.has("NTZ") else 1 << size - 1)

    def result(reals: Bits) -> tuple[Bits, ...]:
        numbers = step(reals.astype(F64))
        inside = np.where((numbers >= least) & (numbers < most), numbers, 0.0)
        bits = inside.astype(np.int64).view(np.uint64) if is_signed else inside.astype(np.uint64)
        bits = np.where(numbers >= most, end, np.where(numbers < least, start, bits))
        bits = np.where(np.isnan(reals), nan, bits)
        return (bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32))[: 2 if size == 64 else 1]

    return calculation([real_operand(ins)], result, registers=2 if size == 64 else 1)


def real_operand(ins: SassInstruction) -> Reals:
    """Return a reader of the operand, in the last format named; a 16-bit one in the lower half, or where it says."""
    name, operand = (_formats(ins) or ["F32"])[-1], ins.operands[1]
    if name in ("F32", "F64"):
        read, flush = double(operand) if name == "F64" else single(operand), ins.has("FTZ")

        def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
            numbers, sources = read(m)
            return flush_denormals(numbers, DOUBLE if name == "F64" else SINGLE) if flush else numbers, sources

        return reals
    form, bits, upper = FORMATS[name], raw(operand), "H1" in "".join(operand.suffixes)
    flushes = form is BRAIN and ins.has("FTZ")

    def halves_of_words(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = narrowed(bits(m), int(LOWER) << 16 if upper else int(LOWER))
        numbers = unpack_bits(value.bits >> UPPER if upper else value.bits & LOWER, form)
        numbers = flush_denormals(numbers, form) if flushes else numbers
        numbers = np.abs(numbers) if operand.absolute else numbers
        return -numbers if operand.negated else numbers, (value,)

    return halves_of_words


@operation("F2F", "UF2F", "FRND", "UFRND")
def f2f(ins: SassInstruction) -> Compute | None:
    """A number in another format; FRND: rounded to an integer, in its own."""
    names, rounds = _formats(ins), ins.opcode.endswith("FRND")
    if rounds and (not _modifiers(ins, *FORMATS, "F64") or len(set(names)) > 1):
        return None
    if not rounds and (not _modifiers(ins, *FORMATS, "F64", "SAT") or len(names) != 2):
        return None
    name, mode = (names or ["F32"])[0], _mode(ins)
    step = _step(ins) if rounds else np.positive

    def result(numbers: Bits) -> tuple[Bits, ...]:
        exact = step(numbers.astype(F64))
        exact = saturate(exact) if ins.has("SAT") else exact
        if name == "F64":
            return words(exact, exact)
        form = FORMATS[name]
        total = round_to_format(exact, form, mode)
        word = pack_bits(flush_denormals(total) if ins.has("FTZ") and name == "F32" else total, form)
        return (np.where(np.isnan(exact), _shortened(exact, form), word) if "F64" in names else word,)

    return calculation([real_operand(ins)], result, registers=2 if name == "F64" else 1)


def _shortened(nan: Bits, form: Format) -> Bits:
    """Return NaN, float64, with as much of its payload as the format has, made quiet."""
    bits, size = nan.view(np.uint64) | QUIET, 32 if form is SINGLE else 16
    sign = bits >> np.uint64(63) << np.uint64(size - 1)
    rest = bits >> np.uint64(53 - form.precision) & np.uint64((1 << size - 1) - 1)
    return (sign | rest).astype(np.uint32)


BYTES = {"E4M3": E4M3, "E5M2": E5M2}
PACKED = {**FORMATS, **BYTES, "TF32": TENSOR}


@operation("F2FP", "UF2FP")
def f2fp(ins: SassInstruction) -> Compute | None:
    """Two numbers in another format: packed, the first one in the upper part; bytes as halves; a float as tf32.

    Before sm_89 no format stands for F16, and none behind it for F32.
    """
    names, mode, clamp = [word for word in ins.modifiers if word in PACKED], _mode(ins), ins.has("RELU")
    if ins.has("PACK_AB") and len(names) < 2:
        names = [*(names or ["F16"]), "F32"]
    how = {"RELU", "SATFINITE", "PACK_AB", "PACK_B", "UNPACK_B", "PACK_AB_MERGE_C", "UNPACK_B_MERGE_C", *ROUNDINGS}
    if len(names) != 2 or not how.union(PACKED).issuperset(ins.modifiers):
        return None
    form, sources = PACKED[names[0]], ins.operands[1:]
    kept: list[Reals] = []
    if ins.has("PACK_AB_MERGE_C", "UNPACK_B_MERGE_C"):
        kept = [] if sources[-1].text == "RZ" else [_lower_bits(sources[-1])]
        sources = sources[:-1]
    if names[0] in BYTES and not ins.has("SATFINITE"):
        return None
    match names[1], len(sources):
        case "F32", 1 | 2:
            readers = [single(operand) for operand in reversed(sources)]
        case "F16", 1:
            readers = [halves(sources[0], HALF)]
        case (("E4M3" | "E5M2"), 1):
            readers = [_two_bytes(sources[0], BYTES[names[1]])]
        case _:
            return None
    if names[1] == "F32" and (len(sources) == 1) != (form is TENSOR):
        return None

    def result(*operands: Bits) -> tuple[Bits]:
        numbers = operands[: len(readers)]
        both = np.stack(np.broadcast_arrays(*numbers)) if len(numbers) > 1 or form is TENSOR else numbers[0]
        total = round_to_format(both.astype(F64), form, mode)
        if names[0] in BYTES:
            most = LARGEST_E4M3 if form is E4M3 else form.largest
            total = np.clip(total, -most, most)
        bits = pack_bits(np.where(total <= 0, 0.0, total) if clamp else total, form)
        word = bits[0] if form is TENSOR else bits[0] | bits[1] << (np.uint32(8) if names[0] in BYTES else UPPER)
        return (word | operands[-1] << UPPER if kept else word,)

    return calculation([*readers, *kept], result)


def _lower_bits(operand: Operand) -> Reals:
    """Return a reader of a word's lower half, as bits."""
    read = raw(operand)

    def bits(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = narrowed(read(m), int(LOWER))
        return value.bits & LOWER, (value,)

    return bits


def _two_bytes(operand: Operand, form: Format) -> Reals:
    """Return a reader of the two bytes in a word's lower half, or in its upper one, as float64."""
    read, upper = raw(operand), "H1" in operand.suffixes

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = narrowed(read(m), int(LOWER) << 16 if upper else int(LOWER))
        pair = value.bits >> UPPER if upper else value.bits & LOWER
        numbers = byte_numbers(form)
        return np.stack([numbers[pair & np.uint32(0xFF)], numbers[pair >> np.uint32(8)]]), (value,)

    return reals
