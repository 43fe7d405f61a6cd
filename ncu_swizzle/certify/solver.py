"""Whether conditions on bit vectors can all hold: asked of Bitwuzla, in SMT-LIB 2, the words of a certificate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.certify.terms import APPLY, ATOM, CONST, LINEAR, OPERATIONS, Term, signed
from ncu_swizzle.certify.verdict import Location

if TYPE_CHECKING:
    import bitwuzla


class SolverAnswer(StrEnum):
    """A solver's answer for conditions."""

    NEVER = "unsat"
    POSSIBLE = "sat"
    UNKNOWN = "unknown"


LIMIT_MS = 10_000  # of one query, on the clock: those of real kernels take 1 to 400, and others wait for the processor


@dataclass(eq=False)
class Solver:
    """Asks Bitwuzla. A term is defined once. Raises EnvironmentLacking if Bitwuzla is not installed."""

    shown: list[tuple[str, Location | None, list[Term]]] = field(default_factory=list)  # what, where, by which query
    _terms: dict[Term, bitwuzla.Term] = field(default_factory=dict)
    _defined: set[Term] = field(default_factory=set)

    def __post_init__(self) -> None:
        try:
            import bitwuzla
        except ImportError as error:
            raise EnvironmentLacking(
                "a proof needs bitwuzla, which is not installed", "pip install bitwuzla"
            ) from error
        self._api: Any = bitwuzla
        self._manager: Any = bitwuzla.TermManager()
        self._parser: Any = bitwuzla.Parser(self._manager, bitwuzla.Options())

    def ask(
        self, conditions: Iterable[Term], wanted: Sequence[Term] = (), says: str = "", line: Location | None = None
    ) -> tuple[SolverAnswer, list[int]]:
        """Return whether the conditions can all hold, and if so, values of what is wanted.

        If they cannot, what that says is kept as shown.
        """
        asked = list(dict.fromkeys(conditions))
        answer = self._answer(asked, wanted)
        if says and answer[0] is SolverAnswer.NEVER:
            self.shown.append((says, line, asked))
        return answer

    def _answer(self, asked: Sequence[Term], wanted: Sequence[Term]) -> tuple[SolverAnswer, list[int]]:
        if any(term.is_const and not term.value for term in asked):
            return SolverAnswer.NEVER, []
        options = self._api.Options()
        options.set(self._api.Option.PRODUCE_MODELS, True)
        options.set(self._api.Option.TIME_LIMIT_PER, LIMIT_MS)
        solver = self._api.Bitwuzla(self._manager, options)
        one = self._manager.mk_bv_value(self._manager.mk_bv_sort(1), 1)
        for term in asked:
            if not term.is_const:
                solver.assert_formula(self._manager.mk_term(self._api.Kind.EQUAL, [self._term(term), one]))
        result = solver.check_sat()
        if result == self._api.Result.UNSAT:
            return SolverAnswer.NEVER, []
        if result != self._api.Result.SAT:
            return SolverAnswer.UNKNOWN, []
        return SolverAnswer.POSSIBLE, [int(str(solver.get_value(self._term(term)).value(2)), 2) for term in wanted]

    def _term(self, term: Term) -> Any:
        if term not in self._terms:
            new = [part for part in term.subterms() if part not in self._defined]
            self._defined.update(new)
            self._parser.parse("\n".join([*_definitions(new), "\n"]), True, False)
            self._terms[term] = self._parser.parse_term(_named(term))
        return self._terms[term]


def script(conditions: Iterable[Term]) -> str:
    """Return a script of the logic QF_BV whose answer is unsat if the conditions cannot all hold."""
    asked = [term for term in dict.fromkeys(conditions) if not (term.is_const and term.value)]
    parts = {part for term in asked for part in term.subterms()}
    asserted = (f"(assert (= {_named(term)} #b1))" for term in asked)
    return "\n".join(["(set-logic QF_BV)", *_definitions(parts), *asserted, "(check-sat)", ""])


# A term that is not a constant has a definition of its own, by its number: what is shared is written once. Comparisons
# are bit vectors of one bit, as they are in terms.


def _definitions(terms: Iterable[Term]) -> Iterator[str]:
    """Yield the definitions of terms, each after those of its own operands."""
    for term in sorted(terms, key=lambda term: term.id):  # operands have smaller numbers
        if term.op in (ATOM, APPLY):
            plain = "".join(character if character.isprintable() else "?" for character in term.name)
            yield f"(declare-fun t{term.id} () (_ BitVec {term.width})) ; {plain}"
        elif term.op != CONST:
            yield f"(define-fun t{term.id} () (_ BitVec {term.width}) {_defined(term)})"


def _value(value: int, width: int) -> str:
    return f"(_ bv{value % (1 << width)} {width})"


def _named(term: Term) -> str:
    """Return a term's name, or a constant."""
    return _value(term.value, term.width) if term.op == CONST else f"t{term.id}"


def _defined(term: Term) -> str:
    parts = [_named(part) for part in term.terms()]
    if term.op == LINEAR:
        total = _value(term.constant, term.width)
        for part, factor in term.coefficients():
            counted = _named(part) if factor == 1 else f"(bvmul {_named(part)} {_value(factor, term.width)})"
            counted = f"(bvneg {_named(part)})" if signed(factor, term.width) == -1 else counted
            total = f"(bvadd {total} {counted})" if total != _value(0, term.width) else counted
        return total
    if (operation := OPERATIONS.get(term.op)) is not None:
        applied = f"({operation.smt} {parts[0]} {parts[1]})"
        return f"(ite {applied} #b1 #b0)" if operation.compares else applied
    if term.op == "ite":
        return f"(ite (= {parts[0]} #b1) {parts[1]} {parts[2]})"
    if term.op in ("zext", "sext"):
        how = "zero" if term.op == "zext" else "sign"
        return f"((_ {how}_extend {term.width - term.first.width}) {parts[0]})"
    if term.op == "extract":
        high, low = term.args[1:]
        return f"((_ extract {high} {low}) {parts[0]})"
    return f"({'bvnot' if term.op == 'not' else term.op} {' '.join(parts)})"
