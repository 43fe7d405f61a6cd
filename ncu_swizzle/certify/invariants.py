"""What holds of loops' variables at every turn: candidates are guessed, and those that are not inductive are dropped.

(Houdini: Flanagan and Leino, FME 2001.) A candidate that is kept holds when the loop is entered, and if all candidates
hold at the start of a turn, it holds at the start of the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from ncu_swizzle.certify.facts import Facts
from ncu_swizzle.certify.flow import Phi
from ncu_swizzle.certify.solver import Answer
from ncu_swizzle.certify.terms import (
    Term,
    binary,
    const,
    either,
    equal,
    scale,
    sext,
    signed,
    substituted,
    subterms,
)  # fmt: skip

CONSTANTS = 1 << 20  # bounds of loops that are smaller are tried
MOST_CANDIDATES = 400  # of one variable


def find(facts: Facts, wanted: Iterable[Term]) -> None:
    """Enter the invariants of the loops' variables that some terms depend on."""
    leaves = sorted(facts.sources(wanted), key=lambda leaf: leaf.id)
    variables = [leaf for leaf in leaves if leaf in facts.phis and leaf.width >= 8 and facts.is_loop(leaf)]
    guesses = _Guesses(facts, variables)
    for variable in variables:
        found = dict.fromkeys(term for term in guesses.of(variable) if not term.is_const)
        facts.invariants[variable] = list(found)[:MOST_CANDIDATES]
    _drop(facts, variables)


def _drop(facts: Facts, variables: list[Term]) -> None:
    """Drop candidates until all that are left are inductive."""
    changed = True
    while changed:
        changed = False
        for variable in variables:
            _, phi = facts.phis[variable]
            for source, value in phi.incoming:
                if value.op == "atom" and value.name.startswith("undef:"):
                    continue  # nothing reads it before it is set
                changed |= _kept_along(facts, phi, source)


def _kept_along(facts: Facts, phi: Phi, source: int) -> bool:
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
        if answer is Answer.NEVER:
            break
        kept = [term for term, value in zip(alive, holds, strict=True) if value] if answer is Answer.POSSIBLE else []
        facts.invariants[phi.value] = kept if len(kept) < len(alive) else []
        dropped = True
    return dropped


class _Guesses:
    """Candidates for the invariants of loops' variables."""

    def __init__(self, facts: Facts, variables: list[Term]) -> None:
        self.facts, self.variables = facts, variables
        conditions = [term for run in facts.runs for term in run.conditions if term is not None]
        compared = [t for c in conditions for t in subterms(c) if t.op in ("eq", "slt", "sle", "ult", "ule")]
        self._bounds = {
            value
            for comparison in compared
            for side in comparison.terms()
            if side.is_const and abs(value := signed(side.value, side.width)) < CONSTANTS
        }
        self._orders = [tuple(t.terms()) for t in compared if t.op != "eq"]
        self._steps = {variable: step for variable in variables if (step := self._step(variable)) is not None}

    def _step(self, variable: Term) -> tuple[int, Term] | None:
        """Return by how much a variable grows each turn, and where it starts, if both are the same each time."""
        starts, steps = self._starts(variable), self._growths(variable)
        return (steps.pop(), starts.pop()) if len(steps) == len(starts) == 1 else None

    def _starts(self, variable: Term) -> set[Term]:
        _, phi = self.facts.phis[variable]
        return {value for source, value in phi.incoming if source < phi.block}

    def _growths(self, variable: Term) -> set[int]:
        _, phi = self.facts.phis[variable]
        found = {value - variable for source, value in phi.incoming if source >= phi.block}
        return {signed(term.value, term.width) for term in found if term.is_const and term.value}

    def of(self, variable: Term) -> Iterator[Term]:
        """Yield candidates, cheap ones first."""
        width = variable.width
        starts = self._starts(variable)
        start = next(iter(starts)) if len(starts) == 1 else None
        yield binary("sle", const(0, width), variable)
        for bits in range(1, min(18, width)):
            yield binary("ule", variable, const((1 << bits) - 1, width))
        if start is not None:
            yield equal(variable, start)
            for relation in ("sle", "ule"):
                yield binary(relation, start, variable)
                yield binary(relation, variable, start)
        for growth in self._growths(variable) or {1}:
            yield from self._bounded(variable, growth, start)
        yield equal(variable & (variable - const(1, width)), const(0, width))  # it is doubled, or halved
        yield ~equal(variable, const(0, width))
        yield from self._beside_parameters(variable)
        yield from self._beside_others(variable)
        yield from self._between_versions(variable)

    def _bounded(self, variable: Term, growth: int, start: Term | None) -> Iterator[Term]:
        """Yield that a variable stays below a bound that the program compares with, and in step with its start."""
        width = variable.width
        lowest = growth & -growth
        if start is not None and lowest > 1:
            aligned = (variable - start) & const(lowest - 1, width)
            yield equal(aligned, const(0, width))
        if start is not None and start.is_const and abs(growth) & (abs(growth) - 1):
            distance = variable - start if growth > 0 else start - variable
            yield equal(binary("urem", distance, const(abs(growth), width)), const(0, width))
        for bound in self._bounds:
            if growth > 0:
                yield binary("sle", variable, const(bound + growth - 1, width))
                yield binary("sle", variable, const(bound + growth, width))
                yield binary("ule", variable, const(bound, width))
            else:
                yield binary("sle", const(bound + growth + 1, width), variable)
                yield binary("sle", const(bound + growth, width), variable)
            if start is not None and not start.is_const and growth > 0 and bound > 0:
                yield binary("sle", variable - start, const(bound, width))
                yield binary("ule", variable - start, const(bound - 1, width))

    def _beside_parameters(self, variable: Term) -> Iterator[Term]:
        """Yield that a variable stays below what it is compared with, if that does not change in the loop."""
        _, phi = self.facts.phis[variable]
        for sides in self._orders:
            for one, other in (sides, sides[::-1]):
                fixed = all(
                    leaf not in self.facts.phis or self.facts.phis[leaf][1].block < phi.block for leaf in other.atoms
                )
                if one is variable and not other.is_const and fixed:
                    yield binary("sle", variable, other)

    def _beside_others(self, variable: Term) -> Iterator[Term]:
        """Yield that a variable of a loop runs in step with another one of that loop."""
        if variable not in self._steps:
            return
        step, start = self._steps[variable]
        for other, (growth, begins) in self._steps.items():
            same = other is not variable and self._block(other) == self._block(variable)
            if same and growth % step == 0 and variable.width <= other.width:
                # Stated of the wider one; `_drop` checks it wherever it stands.
                distance = sext(variable - start, other.width)
                yield equal(other - begins, scale(distance, growth // step))

    def _block(self, variable: Term) -> int:
        return self.facts.phis[variable][1].block

    def _between_versions(self, variable: Term) -> Iterator[Term]:
        """Yield how a variable of the new version may follow from the same one of the old version."""
        if not variable.name.endswith(":a"):
            return
        old = next(
            (v for v in self.variables if v.name == variable.name[:-1] + "b" and v.width == variable.width), None
        )
        if old is None:
            return
        width = variable.width
        _, phi = self.facts.phis[variable]
        _, before = self.facts.phis[old]
        pairs = list(zip((v for _, v in before.incoming), (v for _, v in phi.incoming), strict=False))
        for numerator, denominator in self._ratios(pairs, width):
            if numerator > 0 and numerator & (numerator - 1) == 0:
                turns = binary("ashr", old, const(numerator.bit_length() - 1, width))
                yield equal(variable, scale(turns, denominator))
        for bits in range(2, 13):
            yield equal(old & const((1 << bits) - 1, width), const(0, width))
        if width >= 32:
            yield from (equal(variable, mapped) for mapped in _swizzled(old))
        constants = [(one, other) for one, other in pairs if one.is_const and other.is_const]
        if constants:
            yield either(equal(old, one) & equal(variable, other) for one, other in dict.fromkeys(constants))
        growing = self._steps.get(old), self._steps.get(variable)
        if all(growing):
            (step, start), (growth, begins) = growing  # type: ignore[misc]
            if growth % step == 0:
                yield equal(variable - begins, scale(old - start, growth // step))

    def _ratios(self, pairs: list[tuple[Term, Term]], width: int) -> Iterator[tuple[int, int]]:
        """Yield coefficients that a value has in the old version and in the new one."""
        found: set[tuple[int, int]] = set()
        for one, other in pairs:
            new = dict(other.coefficients())
            found |= {
                (signed(factor, width), signed(new[part], width))
                for part, factor in one.coefficients()
                if new.get(part, factor) != factor
            }
            if one.constant != other.constant and one.constant:
                found.add((signed(one.constant, width), signed(other.constant, width)))
        yield from sorted(found)


def _swizzled(term: Term) -> Iterator[Term]:
    """Yield a term XORed with bits of its own, as swizzles of offsets are."""
    width = term.width
    for high, bits in itertools.product(range(2, 12), range(1, 6)):
        field = binary("lshr", term, const(high, width)) & const((1 << bits) - 1, width)
        for low in range(min(high, 5)):
            yield term ^ binary("shl", field, const(low, width))
