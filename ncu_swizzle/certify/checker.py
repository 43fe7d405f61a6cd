"""Compare two versions of a kernel: the same program, except for where elements of some shared arrays are.

The argument is by induction over the steps of a thread, in any interleaving of a block's threads: so far, both versions
took the same branches and had the same effects in the same order, and each value is equal in both, or is an address
into a mapped array. What is checked keeps that true for one more step:

- Branches, guards, values and addresses outside of mapped arrays are equal.
- Accesses to mapped arrays (`arrays`) meet in both versions alike, stay in bounds and keep their alignment, and the
  arrays' addresses go nowhere else.

This is translation validation (Pnueli, Siegel and Singerman, TACAS 1998) with a relation between memories that is not
the identity (as memory injections are: Leroy and Blazy, JAR 2008), for two runs of one program at a time (relational
Hoare logic: Benton, POPL 2004).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ncu_swizzle.certify import invariants, terms
from ncu_swizzle.certify.arrays import Arrays, Refuted
from ncu_swizzle.certify.facts import KernelFacts
from ncu_swizzle.certify.flow import Effect, Maps, MemoryFootprint, Shape, common_base
from ncu_swizzle.certify.graph import graph_of
from ncu_swizzle.certify.modules import refusal
from ncu_swizzle.certify.ptx import Different, Module, Unfollowed, parse
from ncu_swizzle.certify.solver import Solver, SolverAnswer, script
from ncu_swizzle.certify.symbolic import DESCRIBED, FROM_NUMBER, GENERIC, NUMBER, SymbolicRun
from ncu_swizzle.certify.terms import APPLY, OBJECT, SHARED, Term
from ncu_swizzle.certify.verdict import Assumption, KernelVerdict, Location, ProofObstacle, ProofOutcome, Query

ANY = "a pointer may be to a mapped array or to another one"
DESCRIPTOR_READERS = ("TMA", "wgmma", "tcgen05")
MOST_UNROLLED = 40  # loops
MOST_TURNS = 70  # of a loop that is unrolled
MOST_SPLITS = 16  # rounds of finding the phis in which the versions differ
CPU_S = 30.0  # of one kernel
# Where an address is compared by its offset from an array: no space begins so low, or so high, that this far below it
# or beyond, addresses wrap around.
BELOW, NEAR = 1 << 20, 1 << 40
_TERMS = threading.Lock()  # terms are the process's: one comparison at a time


def certify(
    before: str,
    after: str,
    *,
    kernel: str = "",
    block: Shape | None = None,
    dynamic: tuple[int, int] | None = None,
    maps: tuple[Maps, Maps] = ((), ()),
    certificate: bool = False,
) -> KernelVerdict:
    """Return the verdict on a kernel in two PTX modules, of unoptimised code (`nvcc -Xcicc -O0 -ptx -lineinfo`).

    `kernel` is its symbol in both, "" for the first one; `block` the shape of blocks, None for any shape; `dynamic` the
    bytes of dynamic shared memory in each version; `maps` the tensor maps among its parameters. With `certificate` the
    verdict has the queries. Raises ValueError for text that is not PTX, and EnvironmentLacking without a solver.
    """
    modules = parse(before), parse(after)
    kernel = kernel or next(iter(modules[0].kernels), "")
    if any(kernel not in module.kernels for module in modules):
        raise ValueError(f"a version has no kernel {kernel}")
    block = block or modules[0].functions[kernel].threads
    verdict = KernelVerdict(
        kernel=kernel,
        outcome=ProofOutcome.UNPROVED,
        block=block,
        dynamic=dynamic[0] if dynamic and any(array.size == 0 for array in modules[0].shared()) else None,
    )
    with _TERMS:
        terms.forget()
        try:
            comparison = KernelComparison(
                modules=modules, kernel=kernel, block=block, dynamic=dynamic, maps=maps, certificate=certificate
            )
            return comparison.verdict(verdict)
        except Unfollowed as error:
            return replace(verdict, obstacle=ProofObstacle(reason=str(error), line=error.line))
        except RecursionError:
            return replace(verdict, obstacle=ProofObstacle(reason="its expressions are too deep"))


@dataclass(frozen=True, eq=False)
class Obligation:
    """Two terms that have to be equal, or addresses of mapped arrays: what they are, where, and the effects' access."""

    one: Term
    other: Term
    what: str
    line: Location | None
    block: int
    memory: tuple[MemoryFootprint, MemoryFootprint] | None = None
    guards: tuple[Term, ...] = ()
    opcode: str = ""  # of an access


@dataclass(eq=False, kw_only=True)
class KernelComparison:
    """Two versions of a kernel, compared."""

    modules: tuple[Module, Module]
    kernel: str
    block: Shape | None
    dynamic: tuple[int, int] | None
    maps: tuple[Maps, Maps]
    certificate: bool
    solver: Solver = field(default_factory=Solver)

    def __post_init__(self) -> None:
        self._check_modules()
        self.names = _paired(self.modules)
        old, new = (module.shared() for module in self.modules)
        by_name = {self.names[symbol.name]: symbol for symbol in new}
        self._sizes = {SHARED + symbol.name: (symbol, by_name[symbol.name]) for symbol in old}
        same = all((one.size, one.align) == (other.size, other.align) for one, other in self._sizes.values())
        self._same_layout = same and [symbol.name for symbol in old] == list(by_name)
        self._started = time.process_time()
        self._split = set[tuple[int, str]]()  # phis, by block and label

    def _check_modules(self) -> None:
        """Refuse what has other variables, or another launch: the kernels' instructions do not show that."""
        old, new = self.modules
        for name in old.symbols.keys() & new.symbols.keys():
            one, other = old.symbols[name], new.symbols[name]
            if one.space in ("global", "const") and (one.size, one.initial) != (other.size, other.initial):
                raise Unfollowed(f"{name} has other contents in the new version")
        if reason := refusal(old, new, self.kernel):
            raise Unfollowed(reason)

    def verdict(self, verdict: KernelVerdict) -> KernelVerdict:
        """Return the verdict; loops that step through local arrays are unrolled, and it is tried again."""
        unrolled: list[tuple[int, int]] = []
        while True:
            try:
                return self._proved(unrolled, verdict)
            except (Refuted, Unfollowed) as error:
                failure = error
            if isinstance(failure, Different) or not self._unroll(unrolled):
                break
        if isinstance(failure, Refuted):
            return replace(verdict, outcome=ProofOutcome.REFUTED, counterexample=failure.counterexample)
        return replace(verdict, obstacle=self._obstacle(failure))

    def _unroll(self, unrolled: list[tuple[int, int]]) -> bool:
        """Add the loops that index local memory, those of unrolled loops among them; return whether there are any."""
        count = len(unrolled)
        while self._ran and len(unrolled) < MOST_UNROLLED and (wish := self._to_unroll()) is not None:
            unrolled.append(wish)
            self._run(unrolled, only_old=True)
        return len(unrolled) > count

    def _to_unroll(self) -> tuple[int, int] | None:
        """Return a loop that indexes local memory, and its number of turns, if constants decide it."""
        run = self.old
        addresses = (memory.address.atoms for effect in itertools.chain(*run.effects) for memory in effect.memory)
        indices = {leaf for atoms in addresses if any(each.is_atom(OBJECT) for each in atoms) for leaf in atoms}
        for header in sorted({run.phis[leaf].block for leaf in indices & run.phis.keys()} & run.loops.keys()):
            turns = max(map(len, run.iterations(header).values()), default=0)
            if 0 < turns <= MOST_TURNS:
                return header, turns
        return None

    def _proved(self, unrolled: Sequence[tuple[int, int]], verdict: KernelVerdict) -> KernelVerdict:
        """Return the verdict of a proof. Raises Refuted, or Unfollowed."""
        self.solver.shown.clear()
        self._find_splits(unrolled)
        obligations = [each for number in range(len(self.old.effects)) for each in self._obligations(number)]
        invariants.find(self.facts, [term for each in obligations for term in (each.one, each.other)])
        arrays = Arrays(
            facts=self.facts,
            sizes=self._sizes,
            dynamic=self.dynamic,
            same_layout=self._same_layout,
            check_time=self._check_time,
        )
        self._compare(obligations, arrays)
        mapped = arrays.check()
        needed = {
            Assumption.TABLES: self.old.tables or self.new.tables,
            Assumption.MESSAGES: self.old.messages != self.new.messages,
            Assumption.TENSOR_MAPS: self.maps[0] != self.maps[1],
        }
        return replace(
            verdict,
            outcome=ProofOutcome.PROVED,
            mapped=tuple(array.name for array in mapped),
            assumptions=tuple(each for each in Assumption if each in arrays.assumed or needed.get(each)),
            accesses=sum(len(array.accesses) for array in mapped),
            queries=tuple(
                Query(says=says, line=line, smt=script(conditions))
                for says, line, conditions in (self.solver.shown if self.certificate else ())
            ),
        )

    def _obstacle(self, error: Unfollowed) -> ProofObstacle:
        """Return the reason for giving up, and the unit that reads a tile through a descriptor, if one does."""
        reason = str(error)
        for effect in itertools.chain(*self.old.effects) if self._ran and reason != DESCRIBED else ():
            reader = "TMA" if "tensor" in effect.opcode else effect.opcode.partition(".")[0]
            if reader in DESCRIPTOR_READERS:
                return ProofObstacle(reason=f"{reason}; {DESCRIBED}, which {reader} reads", line=error.line)
        return ProofObstacle(reason=reason, line=error.line)

    def _check_time(self) -> None:
        if time.process_time() - self._started > CPU_S:
            raise Unfollowed(f"it takes more than {CPU_S:.0f} s")

    # 1. The same program: find the values that are equal in both, and that the structure is the same.

    _ran = False  # what is not followed ends a run

    def _run(self, unrolled: Sequence[tuple[int, int]], only_old: bool = False) -> None:
        versions = []
        for n, module in enumerate(self.modules):
            names = {symbol.name: symbol.name for symbol in module.shared()} if n == 0 else self.names
            graph = graph_of(module, self.kernel)
            for header, turns in unrolled:
                graph = graph.unrolled(header, turns)
            run = SymbolicRun(graph, module, self.kernel, self.block, "ba"[n], names, self.maps[n])
            # Sizes that the launch decides are the same unless it is known that they differ.
            run.resized = not self._same_layout or bool(self.dynamic and self.dynamic[0] != self.dynamic[1])
            run.split, run.check = self._split, self._check_time
            run.run()
            versions.append(run)
            self._check_time()
            if only_old:
                break
        self.old, self.new = versions[0], versions[-1]
        self._ran = True

    def _find_splits(self, unrolled: Sequence[tuple[int, int]]) -> None:
        """Run both versions until the phis that they share have equal values on every edge."""
        self._split = set()
        for _ in range(MOST_SPLITS):
            self._run(unrolled)
            self._compare_structure()
            aligns = {name: old.align for name, (old, _) in self._sizes.items()}
            self.facts = KernelFacts((self.old, self.new), self.solver, aligns)
            fresh = self._differing()
            if not fresh:
                return
            self._split |= fresh
        raise Unfollowed("too many values differ between the versions")

    def _compare_structure(self) -> None:
        old, new = self.old, self.new
        for one, other in itertools.zip_longest(old.graph.blocks, new.graph.blocks):
            if one is None or other is None or one.successors != other.successors or one.traps != other.traps:
                raise Different("the versions branch differently", (one or other).line)
        if old.reached != new.reached or old.dead != new.dead:
            raise Different("the versions do not execute the same branches")
        for one, other in zip(old.effects, new.effects, strict=True):
            for first, second in itertools.zip_longest(one, other):
                if first is None or second is None or _meaning(first.opcode) != _meaning(second.opcode):
                    at = next((each.line for each in (first, second) if each is not None), None)
                    has = [each.opcode if each else "nothing" for each in (first, second)]
                    raise Different(f"the old version has {has[0]} here, and the new one {has[1]}", at)

    def _differing(self) -> set[tuple[int, str]]:
        """Return the shared phis that may have different values: their incoming values are not shown to be equal."""
        obligations = (each for number in range(len(self.old.effects)) for each in self._obligations(number))
        phis: set[tuple[int, str]] = set()
        for value in self.facts.sources(term for each in obligations for term in (each.one, each.other)):
            one, other = self.old.phis.get(value), self.new.phis.get(value)
            if one is None or other is None:
                if (phi := one or other) is not None and not value.name.endswith((":a", ":b")):
                    phis.add((phi.block, phi.label))
                continue
            incoming = dict(other.incoming)
            for source, term in one.incoming:
                same = one.base is other.base and source in incoming
                if not same or not self._always_equal(term, incoming[source], self.facts.taken(source, one.block)):
                    phis.add((one.block, one.label))
                    break
        return phis

    def _always_equal(self, one: Term, other: Term, conditions: Sequence[Term]) -> bool:
        if one is other or one.width != other.width:
            return one is other
        return self.facts.always(one.equals(other), conditions)

    def _obligations(self, number: int) -> Iterator[Obligation]:
        """Yield what has to be the same in one block, or an address."""
        one, other = self.old.conditions[number], self.new.conditions[number]
        if one is not None and other is not None:
            last = self.old.graph.blocks[number].instructions[-1]
            yield Obligation(one, other, "a branch", last.line, number)
        elif one is not other:
            raise Unfollowed("only one version has a condition here")
        for first, second in zip(self.old.effects[number], self.new.effects[number], strict=True):
            yield from _of_effects(first, second, number)

    # 2. Everything but addresses of shared arrays is equal; what those are is gathered.

    def _compare(self, obligations: Sequence[Obligation], arrays: Arrays) -> None:
        """Check what has to be equal, and enter the accesses to each array."""
        for run in (self.old, self.new):
            for symbol, (reason, line) in run.escapes.items():
                arrays.escape([symbol], reason, line)
            for offset, number, at in run.compared:
                near = terms.binary("ult", offset + terms.const(BELOW, 64), terms.const(NEAR, 64))
                says = "an address that is compared is near its array"
                self._show(near, number, at, says, "an address that is compared may be far from its array")
        for each in obligations:
            self._check_time()
            if each.memory is not None and (each.one.symbols or each.other.symbols):
                self._gather(arrays, each, each.memory)
                continue
            symbols = self._symbols(each.one, each.other)
            if each.memory is None:
                arrays.escape(symbols, f"{each.what} depends on it", each.line)
            else:
                arrays.keep_unmapped(symbols, ANY, each.line)
                self._check_origin(each.memory[0], each.line)
            if each.one.width != each.other.width:
                raise Unfollowed(f"{each.what} has another width in the new version", each.line)
            same, otherwise = each.one.equals(each.other), f"{each.what} may differ between the versions"
            self._show(same, each.block, each.line, f"{each.what} is the same", otherwise)

    def _symbols(self, *of: Term) -> list[Term]:
        """Return the shared arrays whose addresses some terms may have come from."""
        return [leaf for leaf in self.facts.sources(of) if leaf.is_atom(SHARED)]

    def _show(self, holds: Term, block: int, line: Location | None, says: str, otherwise: str) -> None:
        """Refuse what may not hold in a block."""
        if holds is terms.const(1, 1):
            return
        conditions = [*self.facts.reaching(block), ~holds]
        conditions += self.facts.about(conditions)
        if self.solver.ask(conditions, says=says, line=line)[0] is not SolverAnswer.NEVER:
            raise Unfollowed(otherwise, line)

    def _check_origin(self, memory: MemoryFootprint, at: Location | None) -> None:
        """Refuse an access that may be to a shared array without showing to which."""
        sources = self.facts.sources([memory.address])
        if terms.window("shared") in sources or any(leaf.op == APPLY and leaf.name == NUMBER for leaf in sources):
            raise Unfollowed(FROM_NUMBER, at)
        if any(leaf.is_atom("undef:") for leaf in memory.address.leaves()):
            raise Unfollowed("an address is computed from what nothing sets", at)
        pointer = any(leaf.op == APPLY or leaf.width == 64 for leaf in memory.address.atoms)
        if memory.space == "shared" or (memory.space == GENERIC and not pointer):
            raise Unfollowed("an access does not show which array it is to", at)

    def _gather(self, arrays: Arrays, each: Obligation, memory: tuple[MemoryFootprint, MemoryFootprint]) -> None:
        """Enter an access to a shared array."""
        base = common_base([each.one, each.other])
        if base is None or not base.symbols:
            raise Unfollowed("an access does not show which array it is to", each.line)
        [symbol], offsets = base.symbols, (each.one - base, each.other - base)
        arrays.keep_unmapped((other for other in self._symbols(*offsets) if other is not symbol), ANY, each.line)
        if memory[0].width is None:
            described = DESCRIBED if ".tensor." in each.opcode else ""
            if described and self.maps[0] != self.maps[1]:
                raise Unfollowed("what TMA moves with another tensor map in the new version is not compared", each.line)
            reason = described or "how much of a mapped array is accessed is not known"
            arrays.keep_unmapped([symbol], reason, each.line)
        conditions = [*self.facts.reaching(each.block), *each.guards]
        arrays.of(symbol).enter(memory, offsets, conditions, each.line)


def _of_effects(one: Effect, other: Effect, number: int) -> Iterator[Obligation]:
    """Yield the pairs of terms that must be equal for two effects to be the same, and those of their addresses."""
    if (one.guard is None) != (other.guard is None) or len(one.values) != len(other.values):
        raise Unfollowed(f"{one.opcode} has other operands in the new version", one.line)
    guards = (one.guard, other.guard) if one.guard is not None and other.guard is not None else ()
    if guards:
        yield Obligation(*guards, "a predicate", one.line, number)
    for first, second in zip(one.values, other.values, strict=True):
        yield Obligation(first, second, f"a value of {one.opcode}", one.line, number)
    for old, new in zip(one.memory, other.memory, strict=True):
        kinds = [(it.width, it.space, it.write, it.reaches, it.stride is None) for it in (old, new)]
        if kinds[0] != kinds[1]:
            raise Unfollowed(f"{one.opcode} accesses something else in the new version", one.line)
        what = f"the address of {one.opcode}"
        yield Obligation(old.address, new.address, what, one.line, number, (old, new), guards, one.opcode)


def _paired(modules: tuple[Module, Module]) -> dict[str, str]:
    """Return the old name of each shared array of the new version: the same, or the one declared in its place."""
    old, new = ([symbol.name for symbol in module.shared()] for module in modules)
    if set(old) == set(new):
        return {name: name for name in new}
    if len(old) != len(new):
        raise Unfollowed("the new version has other shared arrays")
    return dict(zip(new, old, strict=True))


def _meaning(opcode: str) -> list[str]:
    """Return an opcode without what only hints at caches; a policy is a value."""
    parts = opcode.split(".")
    hints = (part in ("ca", "cg", "cs") or part.startswith(("L1::", "L2::")) for part in parts)
    return [part for part, hint in zip(parts, hints, strict=True) if not hint or parts[0] == "createpolicy"]
