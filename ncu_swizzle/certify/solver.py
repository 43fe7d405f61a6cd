"""Whether conditions on bit vectors can all hold: asked of Bitwuzla."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.certify.terms import APPLY, ATOM, CONST, LINEAR, Term, signed, subterms

if TYPE_CHECKING:
    import bitwuzla


class Answer(StrEnum):
    """What a solver says of conditions."""

    NEVER = "unsat"
    POSSIBLE = "sat"
    UNKNOWN = "unknown"


LIMIT_MS = 5_000  # of one query: those of real kernels take one to 400
COMPARISONS = {"eq": "EQUAL", "ult": "BV_ULT", "ule": "BV_ULE", "slt": "BV_SLT", "sle": "BV_SLE"}
OPERATIONS = {
    "and": "BV_AND", "or": "BV_OR", "xor": "BV_XOR", "not": "BV_NOT", "concat": "BV_CONCAT", "mul": "BV_MUL",
    "shl": "BV_SHL", "lshr": "BV_SHR", "ashr": "BV_ASHR",
    "udiv": "BV_UDIV", "sdiv": "BV_SDIV", "urem": "BV_UREM", "srem": "BV_SREM",
}  # fmt: skip


@dataclass(eq=False)
class Solver:
    """Asks Bitwuzla. Terms are translated once. Raises EnvironmentLacking if it is not installed."""

    queries: int = 0
    _terms: dict[Term, bitwuzla.Term] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            import bitwuzla
        except ImportError as error:
            raise EnvironmentLacking(
                "a proof needs bitwuzla, which is not installed", "pip install bitwuzla"
            ) from error
        self._api: Any = bitwuzla
        self._kind: Any = bitwuzla.Kind
        self._manager: Any = bitwuzla.TermManager()

    def ask(self, conditions: Iterable[Term], wanted: Sequence[Term] = ()) -> tuple[Answer, list[int]]:
        """Return whether the conditions can all hold, and if so, values of what is wanted."""
        asked = list(dict.fromkeys(conditions))
        if any(term.is_const and not term.value for term in asked):
            return Answer.NEVER, []
        self.queries += 1
        solver = self._asserted(term for term in asked if not term.is_const)
        result = solver.check_sat()
        if result == self._api.Result.UNSAT:
            return Answer.NEVER, []
        if result != self._api.Result.SAT:
            return Answer.UNKNOWN, []
        return Answer.POSSIBLE, [int(str(solver.get_value(self._term(term)).value(2)), 2) for term in wanted]

    def _asserted(self, conditions: Iterable[Term]) -> Any:
        options = self._api.Options()
        options.set(self._api.Option.PRODUCE_MODELS, True)
        options.set(self._api.Option.TIME_LIMIT_PER, LIMIT_MS)
        solver = self._api.Bitwuzla(self._manager, options)
        for condition in conditions:
            solver.assert_formula(self._condition(condition))
        return solver

    def _value(self, value: int, width: int) -> Any:
        return self._manager.mk_bv_value(self._manager.mk_bv_sort(width), value)

    def _condition(self, term: Term) -> Any:
        if term.op in COMPARISONS:
            return self._manager.mk_term(self._kind_of(COMPARISONS[term.op]), [self._term(t) for t in term.terms()])
        if term.op == "not":
            return self._manager.mk_term(self._kind.NOT, [self._condition(t) for t in term.terms()])
        return self._manager.mk_term(self._kind.EQUAL, [self._term(term), self._value(1, 1)])

    def _kind_of(self, name: str) -> Any:
        return getattr(self._kind, name)

    def _term(self, term: Term) -> Any:
        if (known := self._terms.get(term)) is not None:
            return known
        # What it is made of first, innermost first: a deep term would be a deep recursion.
        for part in reversed([part for part in subterms(term) if part not in self._terms and part is not term]):
            if all(inner in self._terms for inner in part.terms()) or part.op in (APPLY, ATOM, CONST):
                self._terms[part] = self._made(part)
        self._terms[term] = made = self._made(term)
        return made

    def _made(self, term: Term) -> Any:  # noqa: PLR0911 - one operation after the other
        make, kind, width = self._manager.mk_term, self._kind, term.width
        if term.op == CONST:
            return self._value(term.value, width)
        if term.op in (ATOM, APPLY):
            return self._manager.mk_const(self._manager.mk_bv_sort(width), f"v{term.id}")
        if term.op == LINEAR:
            return self._sum(term)
        parts = [self._condition(part) if term.op == "ite" and n == 0 else self._term(part)
                 for n, part in enumerate(term.terms())]  # fmt: skip
        if term.op in ("zext", "sext"):
            by = width - next(term.terms()).width
            return make(kind.BV_ZERO_EXTEND if term.op == "zext" else kind.BV_SIGN_EXTEND, parts, [by])
        if term.op in ("extract", "low"):
            return make(kind.BV_EXTRACT, parts, list(term.args[1:]) or [31, 0])
        if term.op == "ite":
            return make(kind.ITE, parts)
        if term.op in COMPARISONS:
            return make(kind.ITE, [self._condition(term), self._value(1, 1), self._value(0, 1)])
        return make(self._kind_of(OPERATIONS[term.op]), parts)

    def _sum(self, term: Term) -> Any:
        make, kind, width = self._manager.mk_term, self._kind, term.width
        total = self._value(term.constant, width) if term.constant else None
        for part, factor in term.coefficients():
            summand = self._term(part)
            if signed(factor, width) == -1:
                summand = make(kind.BV_NEG, [summand])
            elif factor & (factor - 1) == 0:  # a power of two
                count = self._value(factor.bit_length() - 1, width)
                summand = make(kind.BV_SHL, [summand, count]) if factor > 1 else summand
            else:
                summand = make(kind.BV_MUL, [summand, self._value(factor, width)])
            total = summand if total is None else make(kind.BV_ADD, [total, summand])
        return total
