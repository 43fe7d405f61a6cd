"""Whether conditions on bit vectors can all hold: asked of Bitwuzla, in the words of a certificate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.certify import smtlib
from ncu_swizzle.certify.terms import Term, subterms

if TYPE_CHECKING:
    import bitwuzla


class Answer(StrEnum):
    """What a solver says of conditions."""

    NEVER = "unsat"
    POSSIBLE = "sat"
    UNKNOWN = "unknown"


LIMIT_MS = 5_000  # of one query: those of real kernels take one to 400


@dataclass(eq=False)
class Solver:
    """Asks Bitwuzla. A term is defined once. Raises EnvironmentLacking if Bitwuzla is not installed."""

    queries: int = 0
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

    def ask(self, conditions: Iterable[Term], wanted: Sequence[Term] = ()) -> tuple[Answer, list[int]]:
        """Return whether the conditions can all hold, and if so, values of what is wanted."""
        asked = list(dict.fromkeys(conditions))
        if any(term.is_const and not term.value for term in asked):
            return Answer.NEVER, []
        self.queries += 1
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
            return Answer.NEVER, []
        if result != self._api.Result.SAT:
            return Answer.UNKNOWN, []
        return Answer.POSSIBLE, [int(str(solver.get_value(self._term(term)).value(2)), 2) for term in wanted]

    def _term(self, term: Term) -> Any:
        if term not in self._terms:
            new = [part for part in subterms(term) if part not in self._defined]
            self._defined.update(new)
            self._parser.parse("\n".join([*smtlib.definitions(new), "\n"]), True, False)
            self._terms[term] = self._parser.parse_term(smtlib.named(term))
        return self._terms[term]
