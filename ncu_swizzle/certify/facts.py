"""What holds of the atoms of two runs: ranges of indices, the paths that lead to a block, and loops' invariants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from ncu_swizzle.certify.flow import Phi, Shape
from ncu_swizzle.certify.solver import Solver, SolverAnswer
from ncu_swizzle.certify.symbolic import SymbolicRun
from ncu_swizzle.certify.terms import SHARED, UNIFORM, Term, apply, atom, binary, both, const, either, in_order, rebuilt

MOST_THREADS = 1_024
SHARED_BYTES = 0x38C00  # 227 KiB, the most that any architecture gives a block


class KernelFacts:
    """What is known of atoms. A loop's phi has the invariants that were found so far."""

    def __init__(self, runs: Sequence[SymbolicRun], solver: Solver, align: dict[str, int]) -> None:
        self.runs, self.solver, self._align = runs, solver, align
        self.invariants: dict[Term, list[Term]] = {}
        self.phis: dict[Term, tuple[SymbolicRun, Phi]] = {}
        for run in reversed(runs):  # one that both have is the old version's
            self.phis.update({value: (run, phi) for value, phi in run.phis.items()})
        self._known: dict[Term, list[Term]] = {}
        self._paths: dict[tuple[SymbolicRun, int, int], list[Term]] = {}

    def is_loop(self, leaf: Term) -> bool:
        """Return whether an atom is a loop's variable."""
        run, phi = self.phis[leaf]
        return phi.block in run.loops

    def is_steady(self, term: Term, variable: Phi) -> bool:
        """Return whether a term only changes from turn to turn of a loop as variables of the loop do.

        What the loop's body loads may be another value in the next turn, and so may what is computed from a variable by
        what is not followed: neither is substituted.
        """
        run, _ = self.phis[variable.value]
        body = run.loops[variable.block]

        def changes(leaf: Term) -> bool:
            if leaf in self.phis:
                return self.phis[leaf][1].block in body
            kind, _, place = leaf.name.partition(":")
            return kind == "undef" or (kind == "ld" and int(place.partition(".")[0]) in body)

        variables = (leaf for leaf in term.atoms if leaf in self.phis and self.phis[leaf][1].block == variable.block)
        return not any(map(changes, itertools.chain(*(leaf.leaves() for leaf in term.atoms - {*variables}))))

    def ask(self, conditions: Iterable[Term], wanted: Sequence[Term] = ()) -> tuple[SolverAnswer, list[int]]:
        """Return whether conditions can hold together with what is known of their atoms."""
        asked = list(conditions)
        return self.solver.ask([*asked, *self.about(asked)], wanted)

    def always(self, holds: Term, conditions: Sequence[Term]) -> bool:
        """Return whether it is shown that something holds wherever some conditions do."""
        return self.ask([*conditions, ~holds])[0] is SolverAnswer.NEVER

    def about(self, conditions: Iterable[Term]) -> list[Term]:
        """Return what is known of the atoms of some terms, and of the atoms of that."""
        found: list[Term] = []
        seen: set[Term] = set()
        waiting = list(conditions)
        while waiting:
            for leaf in in_order(waiting.pop().atoms):
                if leaf not in seen:
                    seen.add(leaf)
                    known = self._of(leaf)
                    found += known
                    waiting += known
        return found

    def _of(self, leaf: Term) -> list[Term]:
        if leaf in self.phis and self.is_loop(leaf):
            return self.invariants.get(leaf, [])
        if leaf not in self._known:
            self._known[leaf] = list(self._ranges(leaf)) if leaf.is_atom() else []
            if leaf in self.phis:
                self._known[leaf] = [self._entered(*self.phis[leaf])]
        return self._known[leaf]

    def _ranges(self, leaf: Term) -> Iterator[Term]:
        """Yield what the hardware guarantees of an index or a size, and the compiler of an array's address."""
        name = leaf.name
        kind, _, axis = name.partition(".")
        block: Shape | None = self.runs[0].block
        if kind == "tid":
            size = atom(f"ntid.{axis}", 32) if block is None else const(block["xyz".index(axis)], 32)
            yield binary("ult", leaf, size)
        elif kind == "ntid":
            yield binary("ule", const(1, 32), leaf)
            yield binary("ule", leaf, const(64 if axis == "z" else MOST_THREADS, 32))
            x, y, z = (atom(f"ntid.{each}", 32) for each in "xyz")
            yield binary("ule", binary("mul", binary("mul", x, y), z), const(MOST_THREADS, 32))
        elif kind == "ctaid":
            yield binary("ult", leaf, atom(f"nctaid.{axis}", 32))
        elif name == "special:%laneid":
            yield binary("ult", leaf, const(32, leaf.width))
        elif kind == "nctaid":
            yield binary("slt", const(0, 32), leaf)
        elif name.startswith(SHARED):
            yield binary("ule", leaf, const(SHARED_BYTES, 32))
            align = self._align.get(name, 1)
            yield (leaf & const(align - 1, 32)).equals(const(0, 32))

    def _entered(self, run: SymbolicRun, phi: Phi) -> Term:
        """Return that a joined value is what came in along one of the edges, under that edge's condition.

        All phis of a block choose by the same selector, so that they come from the same edge.
        """
        selector = atom(f"edge:{phi.block}", 16)
        first = run.graph.dominators[phi.block]
        return either(
            both([
                selector.equals(const(source, 16)),
                phi.value.equals(value),
                *self.edge(run, source, phi.block),
                *self.path(run, source, first),
            ])
            for source, value in phi.incoming
        )  # fmt: skip

    def edge(self, run: SymbolicRun, source: int, target: int) -> list[Term]:
        """Return the condition under which a block is left for another."""
        condition = run.conditions[source]
        if condition is None:
            return []
        successors = run.graph.blocks[source].successors
        if run.graph.blocks[source].instructions[-1].opcode == "bra":
            return [] if successors[0] == successors[-1] else [condition if successors[0] == target else ~condition]
        return [~condition]  # it was not left by ret

    def path(self, run: SymbolicRun, number: int, stop: int = 0) -> list[Term]:
        """Return conditions that hold whenever a block is executed, from those of a block that dominates it on."""
        if (run, number, stop) not in self._paths:
            conditions: list[Term] = []
            at = number
            while at not in (stop, 0):
                sources = [n for n in run.graph.blocks[at].predecessors if run.reached[n] and (n, at) not in run.dead]
                if len(sources) == 1:
                    conditions += self.edge(run, sources[0], at)
                    at = sources[0]
                else:
                    at = run.graph.dominators[at]
            self._paths[run, number, stop] = conditions
        return self._paths[run, number, stop]

    def reaching(self, number: int) -> list[Term]:
        """Return conditions that hold whenever a block is executed, as both versions have them."""
        return list(dict.fromkeys(term for run in self.runs for term in self.path(run, number)))

    def taken(self, source: int, target: int) -> list[Term]:
        """Return conditions that hold whenever an edge is taken."""
        edges = [term for run in self.runs for term in self.edge(run, source, target)]
        return list(dict.fromkeys([*self.reaching(source), *edges]))

    def sources(self, terms: Iterable[Term]) -> list[Term]:
        """Return all atoms that some terms may have come from, through phis of both versions."""
        seen: set[Term] = set()
        waiting = list(terms)
        while waiting:
            for leaf in in_order(waiting.pop().leaves() - seen):
                seen.add(leaf)
                for run in self.runs:
                    if (phi := run.phis.get(leaf)) is not None:
                        waiting += [
                            value for _, value in phi.incoming
                        ]  # offsets, if it has a base: an address names that
        return in_order(seen)


def instance(tag: str) -> Callable[[Term], Term]:
    """Return a function that renames a term's atoms, except those that all threads of a block share."""
    memo: dict[Term, Term] = {}

    def renamed(leaf: Term) -> Term:
        if not leaf.is_atom():
            return apply(leaf.name, leaf.width, *(rebuilt(each, renamed, memo) for each in leaf.terms()))
        return leaf if leaf.name.startswith(UNIFORM) else atom(leaf.name + tag, leaf.width)

    return lambda term: rebuilt(term, renamed, memo)
