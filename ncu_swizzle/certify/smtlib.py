"""Conditions as SMT-LIB 2 text of the logic QF_BV: what any solver of bit vectors reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ncu_swizzle.certify.terms import APPLY, ATOM, CONST, LINEAR, Term, signed, subterms

# A term that is not a constant has a definition of its own, by its number: what is shared is written once. Comparisons
# are bit vectors of one bit, as they are in terms.
COMPARISONS = {"eq": "=", "ult": "bvult", "ule": "bvule", "slt": "bvslt", "sle": "bvsle"}
OPERATIONS = {
    "and": "bvand", "or": "bvor", "xor": "bvxor", "not": "bvnot", "concat": "concat", "mul": "bvmul",
    "shl": "bvshl", "lshr": "bvlshr", "ashr": "bvashr",
    "udiv": "bvudiv", "sdiv": "bvsdiv", "urem": "bvurem", "srem": "bvsrem",
}  # fmt: skip


def script(conditions: Iterable[Term]) -> str:
    """Return a script whose answer is unsat if the conditions cannot all hold."""
    asked = [term for term in dict.fromkeys(conditions) if not (term.is_const and term.value)]
    parts = {part for term in asked for part in subterms(term)}
    asserted = (f"(assert (= {named(term)} #b1))" for term in asked)
    return "\n".join(["(set-logic QF_BV)", *definitions(parts), *asserted, "(check-sat)", ""])


def definitions(terms: Iterable[Term]) -> Iterator[str]:
    """Yield what defines some terms, those that others of them are made of first."""
    for term in sorted(terms, key=lambda term: term.id):  # what a term is made of was made before it
        if term.op in (ATOM, APPLY):
            yield f"(declare-fun t{term.id} () (_ BitVec {term.width})) ; {_plain(term.name)}"
        elif term.op != CONST:
            yield f"(define-fun t{term.id} () (_ BitVec {term.width}) {_defined(term)})"


def _plain(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)


def _value(value: int, width: int) -> str:
    return f"(_ bv{value % (1 << width)} {width})"


def named(term: Term) -> str:
    """Return a term's name, or a constant."""
    return _value(term.value, term.width) if term.op == CONST else f"t{term.id}"


def _defined(term: Term) -> str:
    parts = [named(part) for part in term.terms()]
    if term.op == LINEAR:
        return _sum(list(_summands(term)), term.width)
    if term.op in COMPARISONS:
        return f"(ite ({COMPARISONS[term.op]} {parts[0]} {parts[1]}) #b1 #b0)"
    if term.op == "ite":
        return f"(ite (= {parts[0]} #b1) {parts[1]} {parts[2]})"
    if term.op in ("zext", "sext"):
        how = "zero" if term.op == "zext" else "sign"
        return f"((_ {how}_extend {term.width - next(term.terms()).width}) {parts[0]})"
    if term.op in ("extract", "low"):
        high, low = term.args[1:] or (31, 0)
        return f"((_ extract {high} {low}) {parts[0]})"
    return f"({OPERATIONS[term.op]} {' '.join(parts)})"


def _summands(term: Term) -> Iterator[str]:
    if term.constant:
        yield _value(term.constant, term.width)
    for part, factor in term.coefficients():
        if factor == 1:
            yield named(part)
        elif signed(factor, term.width) == -1:
            yield f"(bvneg {named(part)})"
        else:
            yield f"(bvmul {named(part)} {_value(factor, term.width)})"


def _sum(summands: list[str], width: int) -> str:
    total = summands[0] if summands else _value(0, width)
    for each in summands[1:]:
        total = f"(bvadd {total} {each})"
    return total
