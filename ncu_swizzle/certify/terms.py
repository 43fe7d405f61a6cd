"""Bit vectors as terms: each is made once, so that equal terms are the same object, and folded as it is made.

A sum is kept as ``linear``: coefficients of terms and a constant, modulo 2^width. What is known of a value beyond that
is the solver's. The leaves are *atoms*, values that are not computed here (a thread's index, a parameter, what a load
returns), and *applications* of functions that are not followed, such as ``add.f32``; equal arguments give equal
results, and nothing else is known of them.

A shared array is an atom that starts with ``sym:``, 32 bits wide: the address at which the compiler places it. Generic
addresses are modelled as if the shared window began at 0, so that ``cvta`` is the identity: what could tell the
difference, such as a comparison with another pointer, is an escape (`symbolic`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

ATOM, APPLY, CONST, LINEAR = "atom", "apply", "const", "linear"
SHARED = "sym:"  # the address of a shared array
OBJECT = "obj:"  # … of a local object, or of a parameter
GLOBAL = "glob:"  # … of a variable in global or constant memory


class Term:
    """A bit vector. `args` are terms, and numbers or names, by operation."""

    __slots__ = ("args", "atoms", "id", "op", "symbols", "width")

    op: str
    args: tuple[object, ...]
    width: int
    id: int
    atoms: frozenset[Term]  # its leaves, applications among them, but not what those are applied to
    symbols: frozenset[Term]  # the shared arrays among its atoms

    @property
    def name(self) -> str:
        """An atom's name, or the function that an application applies."""
        return str(self.args[0])

    @property
    def value(self) -> int:
        """A constant's value, without a sign."""
        assert isinstance(self.args[0], int)
        return self.args[0]

    @property
    def is_const(self) -> bool:
        return self.op == CONST

    def terms(self) -> Iterator[Term]:
        """Yield the terms that it is made of."""
        if self.op == LINEAR:
            yield from (term for term, _ in self.coefficients())
        else:
            yield from (arg for arg in self.args if isinstance(arg, Term))

    def coefficients(self) -> Iterator[tuple[Term, int]]:
        """Yield the terms of a sum and their coefficients; any other term counts once."""
        if self.op == LINEAR:
            pairs = self.args[0]
            assert isinstance(pairs, tuple)
            yield from pairs
        elif self.op != CONST:
            yield self, 1

    @property
    def constant(self) -> int:
        """The constant of a sum, or the value of a constant."""
        if self.op == LINEAR:
            assert isinstance(self.args[1], int)
            return self.args[1]
        return self.value if self.op == CONST else 0

    def __repr__(self) -> str:
        return show(self)

    def __add__(self, other: Term) -> Term:
        return add(self, other)

    def __sub__(self, other: Term) -> Term:
        return add(self, other, -1)

    def __and__(self, other: Term) -> Term:
        return bitwise("and", self, other)

    def __or__(self, other: Term) -> Term:
        return bitwise("or", self, other)

    def __xor__(self, other: Term) -> Term:
        return bitwise("xor", self, other)

    def __invert__(self) -> Term:
        return invert(self)


_MADE: dict[tuple[object, ...], Term] = {}


def forget() -> None:
    """Drop all terms: those made before are not to be used with those made after."""
    _MADE.clear()


def _make(op: str, width: int, *args: object) -> Term:
    key: tuple[object, ...] = (op, width, *args)
    if (known := _MADE.get(key)) is not None:
        return known
    term = Term()
    term.op, term.width, term.args, term.id = op, width, args, len(_MADE)
    parts = list(term.terms())
    term.atoms = frozenset((term,)) if op in (ATOM, APPLY) else frozenset().union(*(part.atoms for part in parts))
    symbols: frozenset[Term] = frozenset().union(*(part.symbols for part in parts))
    term.symbols = frozenset((term,)) if op == ATOM and term.name.startswith(SHARED) else symbols
    _MADE[key] = term
    return term


def show(term: Term, depth: int = 0) -> str:
    """Return a term for messages and logs, deep parts left out."""
    if term.op == CONST:
        return str(signed(term.value, term.width))
    if term.op == ATOM:
        return term.name
    if depth > 5:
        return "…"
    if term.op == LINEAR:
        parts = [
            show(part, depth + 1) if factor == 1 else f"{signed(factor, term.width)}*{show(part, depth + 1)}"
            for part, factor in term.coefficients()
        ]
        return f"({' + '.join([*parts, *([str(signed(term.constant, term.width))] if term.constant else [])])})"
    inner = (show(arg, depth + 1) if isinstance(arg, Term) else str(arg) for arg in term.args)
    return f"{term.op}{term.width}({', '.join(inner)})"


def signed(value: int, width: int) -> int:
    """Return what a bit vector is as a signed number."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def const(value: int, width: int) -> Term:
    return _make(CONST, width, value & ((1 << width) - 1))


def atom(name: str, width: int) -> Term:
    return _make(ATOM, width, name)


def apply(function: str, width: int, *args: Term) -> Term:
    return _make(APPLY, width, function, *args)


def linear(coefficients: Mapping[Term, int], constant: int, width: int) -> Term:
    """Return a sum of terms of one width."""
    mask = (1 << width) - 1
    kept = sorted(((t, c & mask) for t, c in coefficients.items() if c & mask), key=lambda pair: pair[0].id)
    if not kept:
        return const(constant, width)
    if len(kept) == 1 and kept[0][1] == 1 and constant & mask == 0:
        return kept[0][0]
    return _make(LINEAR, width, tuple(kept), constant & mask)


def add(one: Term, other: Term, factor: int = 1) -> Term:
    """Return ``one + factor * other``."""
    total = dict(one.coefficients())
    for term, coefficient in other.coefficients():
        total[term] = total.get(term, 0) + factor * coefficient
    return linear(total, one.constant + factor * other.constant, one.width)


def scale(term: Term, factor: int) -> Term:
    return linear({part: c * factor for part, c in term.coefficients()}, term.constant * factor, term.width)


def mul(one: Term, other: Term) -> Term:
    if one.is_const:
        one, other = other, one
    if other.is_const:
        return scale(one, other.value)
    return _make("mul", one.width, *sorted((one, other), key=lambda term: term.id))


def zext(term: Term, width: int) -> Term:
    """Return the term with zeros in front."""
    if term.width == width:
        return term
    if term.is_const:
        return const(term.value, width)
    if term.op == "zext":
        return zext(_first(term), width)
    if term.width == 32 and width == 64 and (base := _base(term)) is not None:
        # A 32-bit shared address of an array: the array plus a signed offset, which does not wrap if the access is in
        # bounds. That is assumed of the old version, and shown of the new one with this very offset.
        wide = _first(base) if base.op == "low" else _make("zext", 64, base)
        return add(wide, sext(term - base, 64))
    return _make("zext", width, term)


def _base(term: Term) -> Term | None:
    """Return the one part of a sum that is a shared address, if it counts once and is all that is one."""
    based = [(part, factor) for part, factor in term.coefficients() if part.symbols]
    if len(based) != 1 or based[0][1] != 1 or not (based[0][0].op == "low" or based[0][0] in based[0][0].symbols):
        return None
    return based[0][0]


def sext(term: Term, width: int) -> Term:
    """Return the term with its sign in front."""
    if term.width == width:
        return term
    if term.is_const:
        return const(signed(term.value, term.width), width)
    if term.op == "sext":
        return sext(_first(term), width)
    if term.op == "zext":
        return zext(_first(term), width)
    return _make("sext", width, term)


def _first(term: Term) -> Term:
    first = term.args[0]
    assert isinstance(first, Term)
    return first


def _second(term: Term) -> Term:
    second = term.args[1]
    assert isinstance(second, Term)
    return second


def _bits(term: Term) -> tuple[int, int]:
    """Return the highest and the lowest bit that is extracted."""
    if term.op == "low":
        return 31, 0
    _, high, low = term.args
    assert isinstance(high, int)
    assert isinstance(low, int)
    return high, low


def extract(term: Term, high: int, low: int) -> Term:  # noqa: PLR0911, PLR0912 - one rule for each operation
    """Return bits ``high`` to ``low`` of a term."""
    width = high - low + 1
    if width == term.width:
        return term
    if term.is_const:
        return const(term.value >> low, width)
    if low == 0 and width == 32 and term.width == 64 and len(term.symbols) == 1:
        return _make("low", 32, term)  # `zext` gives back the 64-bit offset
    if term.op == "low":
        return extract(_first(term), high, low)
    if low == 0:
        if term.op == LINEAR:
            total = const(term.constant, width)
            for part, coefficient in term.coefficients():
                total = add(total, scale(extract(part, high, 0), coefficient))
            return total
        if term.op == "mul":
            return mul(extract(_first(term), high, 0), extract(_second(term), high, 0))
        if term.op in ("and", "or", "xor"):
            return bitwise(term.op, extract(_first(term), high, 0), extract(_second(term), high, 0))
        if term.op in ("zext", "sext"):
            inner = _first(term)
            extend = zext if term.op == "zext" else sext
            return extract(inner, high, 0) if width <= inner.width else extend(inner, width)
    if term.op == "concat":
        split = _second(term).width
        if high < split:
            return extract(_second(term), high, low)
        if low >= split:
            return extract(_first(term), high - split, low - split)
    if term.op == "extract":
        offset = _bits(term)[1]
        return extract(_first(term), high + offset, low + offset)
    return _make("extract", width, term, high, low)


def concat(high: Term, low: Term) -> Term:
    width = high.width + low.width
    if high.is_const and low.is_const:
        return const(high.value << low.width | low.value, width)
    if high.op == low.op == "extract" and high.args[0] is low.args[0]:
        (top, middle), (below, bottom) = _bits(high), _bits(low)
        if middle == below + 1:
            return extract(_first(high), top, bottom)
    return _make("concat", width, high, low)


_BITWISE: Mapping[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def bitwise(op: str, one: Term, other: Term) -> Term:
    """Return ``and``, ``or`` or ``xor`` of two terms."""
    width = one.width
    if one.is_const and other.is_const:
        return const(_BITWISE[op](one.value, other.value), width)
    if one.is_const:
        one, other = other, one
    if one is other:
        return const(0, width) if op == "xor" else one
    if other.is_const:
        ones = (1 << width) - 1
        if other.value == 0:
            return other if op == "and" else one
        if other.value == ones:
            return {"and": one, "or": other}.get(op) or invert(one)
    else:
        one, other = sorted((one, other), key=lambda term: term.id)
    return _make(op, width, one, other)


def invert(term: Term) -> Term:
    if term.is_const:
        return const(~term.value, term.width)
    return _first(term) if term.op == "not" else _make("not", term.width, term)


def both(terms: Iterable[Term]) -> Term:
    """Return whether all conditions hold."""
    result = const(1, 1)
    for term in terms:
        result = result & term
    return result


def either(terms: Iterable[Term]) -> Term:
    """Return whether one of the conditions holds."""
    result = const(0, 1)
    for term in terms:
        result = result | term
    return result


def shift(op: str, term: Term, count: Term) -> Term:
    """Return ``shl``, ``lshr`` or ``ashr``; a count of the width or more shifts everything out, as in PTX."""
    width = term.width
    if count.is_const:
        n = count.value
        if n == 0:
            return term
        if op == "shl":
            return const(0, width) if n >= width else scale(term, 1 << n)
        if term.is_const:
            value = signed(term.value, width) if op == "ashr" else term.value
            return const(value >> min(n, width), width)
    return _make(op, width, term, count)


def divide(op: str, one: Term, other: Term) -> Term:
    """Return ``udiv``, ``sdiv``, ``urem`` or ``srem``, rounded towards zero."""
    if other.is_const and other.value:
        if one.is_const:
            a, b = (signed(t.value, t.width) if op[0] == "s" else t.value for t in (one, other))
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return const(quotient if op.endswith("div") else a - quotient * b, one.width)
        if other.value == 1:
            return one if op.endswith("div") else const(0, one.width)
    return _make(op, one.width, one, other)


_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def compare(op: str, one: Term, other: Term) -> Term:
    """Return ``eq``, ``ult``, ``ule``, ``slt`` or ``sle`` of two terms, one bit wide."""
    if one.is_const and other.is_const:
        a, b = (signed(t.value, t.width) if op[0] == "s" else t.value for t in (one, other))
        return const(_COMPARED[op if op == "eq" else op[1:]](a, b), 1)
    if one is other:
        return const(op in ("eq", "ule", "sle"), 1)
    if op == "eq":
        difference = one - other
        if difference.is_const:
            return const(difference.value == 0, 1)
        if len(difference.atoms) < len(one.atoms | other.atoms):
            one, other = difference, const(0, one.width)
        one, other = sorted((one, other), key=lambda term: term.id)
    return _make(op, 1, one, other)


def equal(one: Term, other: Term) -> Term:
    return compare("eq", one, other)


def choose(condition: Term, one: Term, other: Term) -> Term:
    """Return one term if a condition holds, else the other."""
    if condition.is_const:
        return one if condition.value else other
    return one if one is other else _make("ite", one.width, condition, one, other)


def substituted(values: Mapping[Term, Term], of: Iterable[Term]) -> list[Term]:
    """Return terms with values in place of some of their leaves."""
    memo: dict[Term, Term] = {}
    return [rebuilt(term, lambda leaf: values.get(leaf, leaf), memo) for term in of]


def rebuilt(term: Term, replace: Callable[[Term], Term], memo: dict[Term, Term]) -> Term:
    """Return a term whose leaves are replaced, folded again."""
    if (known := memo.get(term)) is not None:
        return known
    if term.op in (ATOM, APPLY):
        result = replace(term)
    elif term.op == CONST:
        result = term
    elif term.op == LINEAR:
        result = const(term.constant, term.width)
        for part, coefficient in term.coefficients():
            result = add(result, scale(rebuilt(part, replace, memo), coefficient))
    else:
        parts = [rebuilt(part, replace, memo) for part in term.terms()]
        result = _remade(term, parts)
    memo[term] = result
    return result


def _remade(term: Term, parts: list[Term]) -> Term:  # noqa: PLR0911
    op, width = term.op, term.width
    if op in ("zext", "sext"):
        return (zext if op == "zext" else sext)(parts[0], width)
    if op in ("extract", "low"):
        return extract(parts[0], *_bits(term))
    if op in ("and", "or", "xor"):
        return bitwise(op, *parts)
    if op in ("shl", "lshr", "ashr"):
        return shift(op, *parts)
    if op in ("udiv", "sdiv", "urem", "srem"):
        return divide(op, *parts)
    if op in ("eq", "ult", "ule", "slt", "sle"):
        return compare(op, *parts)
    if op == "not":
        return invert(parts[0])
    return choose(parts[0], parts[1], parts[2]) if op == "ite" else (mul if op == "mul" else concat)(parts[0], parts[1])


def leaves(term: Term) -> set[Term]:
    """Return the atoms and applications of a term, and those that the applications are applied to."""
    found: set[Term] = set()
    waiting = list(term.atoms)
    while waiting:
        leaf = waiting.pop()
        if leaf not in found:
            found.add(leaf)
            if leaf.op == APPLY:
                waiting += [inner for argument in leaf.terms() for inner in argument.atoms]
    return found


def subterms(term: Term) -> Iterator[Term]:
    """Yield a term and all that it is made of, but not what applications are applied to."""
    seen, waiting = {term}, [term]
    while waiting:
        each = waiting.pop()
        yield each
        if each.op != APPLY:
            fresh = dict.fromkeys(part for part in each.terms() if part not in seen)  # a product has one twice
            seen.update(fresh)
            waiting += fresh
