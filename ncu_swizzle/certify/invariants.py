"""What holds of loops' variables at every turn: candidates are guessed, and those that are not inductive are dropped.

(Houdini: Flanagan and Leino, FME 2001.) A candidate that is kept holds when the loop is entered, and if all candidates
hold at the start of a turn, it holds at the start of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ncu_swizzle.certify.facts import KernelFacts
from ncu_swizzle.certify.flow import Phi
from ncu_swizzle.certify.solver import SolverAnswer
from ncu_swizzle.certify.terms import Term, binary, const, either, signed, substituted

CONSTANTS = 1 << 20  # bounds of loops that are smaller are tried
MOST_CANDIDATES = 400  # of one variable


def find(facts: KernelFacts, wanted: Iterable[Term]) -> None:
    """Enter the invariants of the loops' variables that some terms depend on."""
    variables = [
        leaf for leaf in facts.sources(wanted) if leaf in facts.phis and leaf.width >= 8 and facts.is_loop(leaf)
    ]
    guesses = _Guesses(facts, variables)
    for variable in variables:
        _, phi = facts.phis[variable]
        candidates = dict.fromkeys(t for t in guesses.of(variable) if not t.is_const and facts.is_steady(t, phi))
        facts.invariants[variable] = list(candidates)[:MOST_CANDIDATES]
    changed = True
    while changed:  # until all that are left are inductive
        changed = False
        for variable in variables:
            _, phi = facts.phis[variable]
            for source, _ in phi.incoming:
                changed |= _drop_along(facts, phi, source)


def _drop_along(facts: KernelFacts, phi: Phi, source: int) -> bool:
    """Drop the candidates of a variable that may not hold after an edge; return whether any was dropped."""
    # All variables of the loop change at once.
    incoming = {
        value: dict(other.incoming).get(source, value)
        for value, (_, other) in facts.phis.items()
        if other.block == phi.block
    }
    taken = facts.taken(source, phi.block)
    dropped = False
    while alive := facts.invariants[phi.value]:
        following = substituted(incoming, alive)
        answer, holds = facts.ask([*taken, either(~term for term in following)], following)
        if answer is SolverAnswer.NEVER:
            break
        possible = answer is SolverAnswer.POSSIBLE
        kept = [term for term, value in zip(alive, holds, strict=True) if value] if possible else []
        facts.invariants[phi.value] = kept if len(kept) < len(alive) else []
        dropped = True
    return dropped


class _Guesses:
    """Candidates for the invariants of loops' variables."""

    def __init__(self, facts: KernelFacts, variables: list[Term]) -> None:
        self.facts, self.variables = facts, variables
        conditions = [term for run in facts.runs for term in run.conditions if term is not None]
        compared = [t for c in conditions for t in c.subterms() if t.op in ("eq", "slt", "sle", "ult", "ule")]
        sides = (side for comparison in compared for side in comparison.terms() if side.is_const)
        bounds = {signed(side.value, side.width) for side in sides}
        self._bounds = {value for value in bounds if abs(value) < CONSTANTS}
        self._orders = [tuple(t.terms()) for t in compared if t.op != "eq"]
        # By how much a variable grows each turn, and where it starts, if both are the same each time.
        self._steps: dict[Term, tuple[int, Term]] = {}
        for variable in variables:
            starts, growths = self._starts(variable), self._growths(variable)
            if len(starts) == len(growths) == 1:
                self._steps[variable] = growths.pop(), starts.pop()

    def _phi(self, variable: Term) -> Phi:
        return self.facts.phis[variable][1]

    def _starts(self, variable: Term) -> set[Term]:
        phi = self._phi(variable)
        return {value for source, value in phi.incoming if source < phi.block}

    def _growths(self, variable: Term) -> set[int]:
        phi = self._phi(variable)
        growths = {value - variable for source, value in phi.incoming if source >= phi.block}
        return {signed(term.value, term.width) for term in growths if term.is_const and term.value}

    def of(self, variable: Term) -> Iterator[Term]:
        """Yield candidates, cheap ones first."""
        width = variable.width
        starts = self._starts(variable)
        start = starts.pop() if len(starts) == 1 else None
        yield binary("sle", const(0, width), variable)
        for bits in range(1, min(18, width)):
            yield binary("ule", variable, const((1 << bits) - 1, width))
        if start is not None:
            yield variable.equals(start)
            for relation in ("sle", "ule"):
                yield binary(relation, start, variable)
                yield binary(relation, variable, start)
        for growth in self._growths(variable) or {1}:
            yield from self._bounded(variable, growth, start)
        yield (variable & (variable - const(1, width))).equals(const(0, width))  # it is doubled, or halved
        yield ~variable.equals(const(0, width))
        yield from self._beside_parameters(variable)
        yield from self._beside_others(variable)

    def _bounded(self, variable: Term, growth: int, start: Term | None) -> Iterator[Term]:
        """Yield that a variable stays below a bound that the program compares with, and in step with its start."""

        def number(value: int) -> Term:
            return const(value, variable.width)

        if start is not None:
            distance = variable - start if growth > 0 else start - variable
            if (lowest := growth & -growth) > 1:
                yield (distance & number(lowest - 1)).equals(number(0))
            if start.is_const and abs(growth) != lowest:
                yield binary("urem", distance, number(abs(growth))).equals(number(0))
        for bound in self._bounds:
            if growth > 0:
                yield binary("sle", variable, number(bound + growth - 1))
                yield binary("sle", variable, number(bound + growth))
                yield binary("ule", variable, number(bound))
            else:
                yield binary("sle", number(bound + growth + 1), variable)
                yield binary("sle", number(bound + growth), variable)
            if start is not None and not start.is_const and growth > 0 and bound > 0:
                yield binary("sle", variable - start, number(bound))
                yield binary("ule", variable - start, number(bound - 1))

    def _beside_parameters(self, variable: Term) -> Iterator[Term]:
        """Yield that a variable stays below what it is compared with, if that is invariant in the loop."""
        block, phis = self._phi(variable).block, self.facts.phis
        for sides in self._orders:
            for one, other in (sides, sides[::-1]):
                fixed = all(leaf not in phis or phis[leaf][1].block < block for leaf in other.atoms)
                if one is variable and not other.is_const and fixed:
                    yield binary("sle", variable, other)

    def _beside_others(self, variable: Term) -> Iterator[Term]:
        """Yield that a variable of a loop runs in step with another one of that loop."""
        if variable not in self._steps:
            return
        step, start = self._steps[variable]
        for other, (growth, begins) in self._steps.items():
            same = other is not variable and self._phi(other).block == self._phi(variable).block
            if same and growth % step == 0 and variable.width <= other.width:
                # Stated of the wider one; it is checked wherever it stands.
                yield (other - begins).equals((variable - start).sext(other.width).scaled(growth // step))
