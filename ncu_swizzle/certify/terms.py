"""Bit vectors as terms: each is made once, so that equal terms are the same object, and folded as it is made.

A sum is kept as ``linear``: coefficients of terms and a constant, modulo 2^width. What is known of a value beyond that
is the solver's. The leaves are *atoms*, values that are not computed here (a thread's index, a parameter, what a load
returns), and *applications* of functions that are not followed, such as ``add.f32``; equal arguments give equal
results, and nothing else is known of them.

A shared array is an atom that starts with ``sym:``, 32 bits wide: the address at which the compiler places it. A
generic address is that of its space plus an atom that starts with ``window:``, where the space begins among generic
addresses, of which nothing is known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

ATOM, APPLY, CONST, LINEAR = "atom", "apply", "const", "linear"
SHARED = "sym:"  # the address of a shared array
OBJECT = "obj:"  # … of a local object, or of a parameter
GLOBAL = "glob:"  # … of a variable in global or constant memory
WINDOW = "window:"  # … at which a space begins among generic addresses, 64 bits wide; that of global memory is 0
UNIFORM = ("param:", "ctaid.", "nctaid.", "ntid.", SHARED, GLOBAL, WINDOW)  # atoms that all threads of a block share


@dataclass(frozen=True)
class TermOperation:
    """An operation on two terms: its name in SMT-LIB, its value for two constants, and which laws it obeys."""

    smt: str
    of: Callable[[int, int], int]
    signed: bool = False  # whether the constants have signs
    compares: bool = False  # whether the result has one bit, which is 1 if it holds
    commutes: bool = False


def _shifted(left: bool) -> Callable[[int, int], int]:
    """Return a shift; what is shifted by the width or more is shifted out, as in PTX: no width is over 128."""
    return lambda a, b: a << min(b, 128) if left else a >> min(b, 128)


def _quotient(a: int, b: int) -> int:
    """Return a quotient that is rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS = {
    "mul": TermOperation("bvmul", operator.mul, commutes=True),
    "and": TermOperation("bvand", operator.and_, commutes=True),
    "or": TermOperation("bvor", operator.or_, commutes=True),
    "xor": TermOperation("bvxor", operator.xor, commutes=True),
    "shl": TermOperation("bvshl", _shifted(left=True)),
    "lshr": TermOperation("bvlshr", _shifted(left=False)),
    "ashr": TermOperation("bvashr", _shifted(left=False), signed=True),
    "udiv": TermOperation("bvudiv", _quotient),
    "sdiv": TermOperation("bvsdiv", _quotient, signed=True),
    "urem": TermOperation("bvurem", lambda a, b: a - _quotient(a, b) * b),
    "srem": TermOperation("bvsrem", lambda a, b: a - _quotient(a, b) * b, signed=True),
    "eq": TermOperation("=", operator.eq, compares=True, commutes=True),
    "ult": TermOperation("bvult", operator.lt, compares=True),
    "ule": TermOperation("bvule", operator.le, compares=True),
    "slt": TermOperation("bvslt", operator.lt, signed=True, compares=True),
    "sle": TermOperation("bvsle", operator.le, signed=True, compares=True),
}


class Term:
    """A bit vector. `args` are terms, and numbers or names, by operation."""

    __slots__ = ("args", "atoms", "id", "op", "symbols", "width")

    op: str
    args: tuple[Any, ...]
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
        return int(self.args[0])

    @property
    def is_const(self) -> bool:
        return self.op == CONST

    def is_atom(self, *kinds: str) -> bool:
        """Return whether it is an atom, whose name begins with one of these if they are given."""
        return self.op == ATOM and (not kinds or self.name.startswith(kinds))

    def terms(self) -> Iterator[Term]:
        """Yield its operands."""
        if self.op == LINEAR:
            yield from (term for term, _ in self.coefficients())
        else:
            yield from (arg for arg in self.args if isinstance(arg, Term))

    @property
    def first(self) -> Term:
        """Its first operand."""
        return next(self.terms())

    def coefficients(self) -> Iterator[tuple[Term, int]]:
        """Yield the terms of a sum and their coefficients; any other term counts once."""
        if self.op == LINEAR:
            yield from self.args[0]
        elif self.op != CONST:
            yield self, 1

    @property
    def constant(self) -> int:
        """The constant of a sum, or the value of a constant."""
        return int(self.args[1] if self.op == LINEAR else self.args[0] if self.op == CONST else 0)

    def __add__(self, other: Term) -> Term:
        return add(self, other)

    def __sub__(self, other: Term) -> Term:
        return add(self, other, -1)

    def __and__(self, other: Term) -> Term:
        return binary("and", self, other)

    def __or__(self, other: Term) -> Term:
        return binary("or", self, other)

    def __xor__(self, other: Term) -> Term:
        return binary("xor", self, other)

    def __invert__(self) -> Term:
        if self.is_const:
            return const(~self.value, self.width)
        return self.first if self.op == "not" else _make("not", self.width, self)

    def windows(self) -> list[Term]:
        """Return the windows that an address adds, each once."""
        return [part for part, factor in self.coefficients() if factor == 1 and part.is_atom(WINDOW)]

    def scaled(self, factor: int) -> Term:
        return linear({part: c * factor for part, c in self.coefficients()}, self.constant * factor, self.width)

    def equals(self, other: Term) -> Term:
        return binary("eq", self, other)

    def zext(self, width: int) -> Term:
        """Return the term with zeros in front."""
        if self.width == width:
            return self
        if self.is_const:
            return const(self.value, width)
        if self.op == "zext":
            return self.first.zext(width)
        return _make("zext", width, self)

    def sext(self, width: int) -> Term:
        """Return the term with its sign in front."""
        if self.width == width:
            return self
        if self.is_const:
            return const(signed(self.value, self.width), width)
        if self.op in ("sext", "zext"):
            return self.first.sext(width) if self.op == "sext" else self.first.zext(width)
        return _make("sext", width, self)

    def narrowed(self, width: int) -> Term:
        """Return a term's low bits, or all of them with zeros in front."""
        return self.extract(width - 1, 0) if self.width > width else self.zext(width)

    def extract(self, high: int, low: int) -> Term:  # noqa: PLR0911 - one rule for each operation
        """Return bits ``high`` to ``low`` of a term."""
        width = high - low + 1
        if width == self.width:
            return self
        if self.is_const:
            return const(self.value >> low, width)
        if self.op == "extract":
            offset = self.args[2]
            return self.first.extract(high + offset, low + offset)
        if low == 0:
            if self.op == LINEAR and not any(leaf.is_atom(WINDOW) for leaf in self.atoms):  # whose bytes `concat` joins
                total = const(self.constant, width)
                for part, coefficient in self.coefficients():
                    total = add(total, part.extract(high, 0).scaled(coefficient))
                return total
            if self.op in ("mul", "and", "or", "xor"):
                return binary(self.op, *(part.extract(high, 0) for part in self.terms()))
            if self.op in ("zext", "sext"):
                inner = self.first
                if width <= inner.width:
                    return inner.extract(high, 0)
                return inner.zext(width) if self.op == "zext" else inner.sext(width)
        if self.op == "concat":
            above, below = self.terms()
            if high < below.width:
                return below.extract(high, low)
            if low >= below.width:
                return above.extract(high - below.width, low - below.width)
        return _make("extract", width, self, high, low)

    def leaves(self) -> set[Term]:
        """Return the atoms and applications of a term, and those that the applications are applied to."""
        reached: set[Term] = set()
        waiting = list(self.atoms)
        while waiting:
            leaf = waiting.pop()
            if leaf not in reached:
                reached.add(leaf)
                if leaf.op == APPLY:
                    waiting += [inner for argument in leaf.terms() for inner in argument.atoms]
        return reached

    def subterms(self) -> Iterator[Term]:
        """Yield a term and all its subterms, except the arguments of applications."""
        seen, waiting = {self}, [self]
        while waiting:
            each = waiting.pop()
            yield each
            if each.op != APPLY:
                fresh = dict.fromkeys(part for part in each.terms() if part not in seen)  # a product has one twice
                seen.update(fresh)
                waiting += fresh


_MADE: dict[tuple[object, ...], Term] = {}


def forget() -> None:
    """Drop all terms: earlier ones must not be used with later ones."""
    _MADE.clear()


def _make(op: str, width: int, *args: object) -> Term:
    key: tuple[object, ...] = (op, width, *args)
    if (existing := _MADE.get(key)) is not None:
        return existing
    term = Term()
    term.op, term.width, term.args, term.id = op, width, args, len(_MADE)
    parts = list(term.terms())
    term.atoms = frozenset((term,)) if op in (ATOM, APPLY) else frozenset().union(*(part.atoms for part in parts))
    symbols: frozenset[Term] = frozenset().union(*(part.symbols for part in parts))
    term.symbols = frozenset((term,)) if term.is_atom(SHARED) else symbols
    _MADE[key] = term
    return term


def signed(value: int, width: int) -> int:
    """Return a bit vector's value as a signed number."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def const(value: int, width: int) -> Term:
    return _make(CONST, width, value & ((1 << width) - 1))


def atom(name: str, width: int) -> Term:
    return _make(ATOM, width, name)


def window(space: str) -> Term:
    return atom(WINDOW + space, 64)


def apply(function: str, width: int, *args: Term) -> Term:
    return _make(APPLY, width, function, *args)


# Sums.


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


# Operations on two terms.


def binary(op: str, one: Term, other: Term) -> Term:
    """Return an operation on two terms of one width."""
    operation = OPERATIONS[op]
    width = 1 if operation.compares else one.width
    if one.is_const and other.is_const and (other.value or not op.endswith(("div", "rem"))):
        a, b = (signed(t.value, t.width) if operation.signed else t.value for t in (one, other))
        return const(operation.of(a, other.value if op == "ashr" else b), width)
    if operation.commutes:
        one, other = sorted((one, other), key=lambda term: (term.is_const, term.id))
    if (simpler := _simpler(op, one, other)) is not None:
        return simpler
    return _make(op, width, one, other)


def _simpler(op: str, one: Term, other: Term) -> Term | None:  # noqa: PLR0911 - one law after the other
    """Return the simplified term, or None if no law applies; a constant is the second operand."""
    width = one.width
    if one is other and op in ("and", "or", "xor", "eq", "ult", "ule", "slt", "sle"):
        result = {"xor": const(0, width), "and": one, "or": one}.get(op)
        return result or const(op in ("eq", "ule", "sle"), 1)
    if op == "eq":
        difference = one - other
        if difference.is_const:  # not 0: they would be one term
            return const(difference.value == 0, 1)
        if len(difference.atoms) < len(one.atoms | other.atoms):
            return _make("eq", 1, difference, const(0, width))
    if not other.is_const:
        return None
    value, ones = other.value, (1 << width) - 1
    if op == "mul" or (op == "shl" and value < width):
        return one.scaled(value if op == "mul" else 1 << value)
    if op in ("shl", "lshr") and value >= width:
        return const(0, width)
    if (op, value) in (("and", ones), ("or", 0), ("xor", 0), ("lshr", 0), ("ashr", 0), ("udiv", 1), ("sdiv", 1)):
        return one
    if (op, value) in (("and", 0), ("or", ones), ("urem", 1), ("srem", 1)):
        return const(ones if op == "or" else 0, width)
    return ~one if (op, value) == ("xor", ones) else None


def both(terms: Iterable[Term]) -> Term:
    """Return whether all conditions hold."""
    return reduce(operator.and_, terms, const(1, 1))


def either(terms: Iterable[Term]) -> Term:
    """Return whether one of the conditions holds."""
    return reduce(operator.or_, terms, const(0, 1))


def choose(condition: Term, one: Term, other: Term) -> Term:
    """Return one term if a condition holds, else the other."""
    if condition.is_const:
        return one if condition.value else other
    return one if one is other else _make("ite", one.width, condition, one, other)


# Widths.


def rebased(address: Term) -> Term:
    """Return an address with 32-bit shared ones that it adds to as an array plus a signed offset of 32 bits.

    Modulo 2^32, that is the same, and one offset for each address: any two accesses overlap if these offsets do. Which
    array is accessed is assumed of the old version, and shown of the new one with this very offset. So it holds of what
    is accessed, and not of any number.
    """
    total = const(address.constant, address.width)
    for part, factor in address.coefficients():
        sum_ = part.first if part.op == "zext" and factor == 1 else part
        bases = [leaf for leaf, count in sum_.coefficients() if leaf.is_atom(SHARED) and count == 1]
        if sum_ is not part and len(bases) == 1 and not (offset := sum_ - bases[0]).symbols:
            # As a sign extension it would be one that the program makes, of a sum that is said not to wrap.
            half = 1 << 31
            total = total + bases[0].zext(64) + (offset + const(half, 32)).zext(64) - const(half, 64)
        else:
            total = total + part.scaled(factor)
    return total


def concat(high: Term, low: Term) -> Term:
    width = high.width + low.width
    if high.is_const and low.is_const:
        return const(high.value << low.width | low.value, width)
    if high.op == low.op == "extract" and high.args[0] is low.args[0]:
        (_, top, middle), (_, below, bottom) = high.args, low.args
        if middle == below + 1:
            return high.first.extract(top, bottom)
    return _make("concat", width, high, low)


def joined(parts: Iterable[Term]) -> Term:
    """Return parts as one value, the first one lowest."""
    return reduce(lambda low, high: concat(high, low), parts)


# What terms are made of.


def in_order(terms: Iterable[Term]) -> list[Term]:
    """Return terms in the order in which they were made: sets have another one in each process, certificates do not."""
    return sorted(terms, key=lambda term: term.id)


def substituted(values: Mapping[Term, Term], of: Iterable[Term]) -> list[Term]:
    """Return terms with values in place of some of their leaves."""
    memo: dict[Term, Term] = {}
    return [rebuilt(term, lambda leaf: values.get(leaf, leaf), memo) for term in of]


def rebuilt(term: Term, replace: Callable[[Term], Term], memo: dict[Term, Term]) -> Term:
    """Return a term whose leaves are replaced, folded again."""
    if (done := memo.get(term)) is not None:
        return done
    if term.op in (ATOM, APPLY):
        result = replace(term)
    elif term.op == CONST:
        result = term
    elif term.op == LINEAR:
        result = const(term.constant, term.width)
        for part, coefficient in term.coefficients():
            result = add(result, rebuilt(part, replace, memo).scaled(coefficient))
    else:
        made: Callable[..., Term] = _MADE_BY.get(term.op) or partial(binary, term.op)
        numbers = term.args[1:] if term.op == "extract" else (term.width,) if term.op in ("zext", "sext") else ()
        result = made(*(rebuilt(part, replace, memo) for part in term.terms()), *numbers)
    memo[term] = result
    return result


_MADE_BY: dict[str, Callable[..., Term]] = {
    "ite": choose, "concat": concat, "not": operator.invert,
    "zext": Term.zext, "sext": Term.sext, "extract": Term.extract,
}  # fmt: skip
