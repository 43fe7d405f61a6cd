"""Compare two versions of a kernel: the same program, but for where the elements of some shared arrays are.

The argument is by induction over the steps of a thread, in any interleaving of a block's threads: so far, both versions
took the same branches and had the same effects in the same order, and each value is equal in both, or is an address
into a mapped array. What is checked keeps that true for one more step:

- Branches, guards, values and addresses outside of mapped arrays are equal.
- For any two accesses to a mapped array of which one writes, in any two threads: if they overlap in one version, their
  addresses have the same distance in both. So a byte that a load reads was last written by the same store, at the same
  place within it, in both versions: loads return the same values. No mapping need be known for that.
- Accesses to mapped arrays stay in bounds and keep their alignment, and the arrays' addresses go nowhere else.

This is translation validation (Pnueli, Siegel and Singerman, TACAS 1998) with a relation between memories that is not
the identity (as memory injections are: Leroy and Blazy, JAR 2008), for two runs of one program at a time (relational
Hoare logic: Benton, POPL 2004).
"""

from __future__ import annotations

import itertools
import math
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ncu_swizzle.certify import invariants, smtlib, terms
from ncu_swizzle.certify.facts import UNIFORM, Facts, instance
from ncu_swizzle.certify.flow import Memory, Shape
from ncu_swizzle.certify.graph import graph_of
from ncu_swizzle.certify.mappings import ByteMapping, mappings_of
from ncu_swizzle.certify.modules import refusal
from ncu_swizzle.certify.ptx import Different, Module, Symbol, Unfollowed, parse
from ncu_swizzle.certify.solver import Answer, Solver
from ncu_swizzle.certify.symbolic import DESCRIBED, GENERIC, NUMBER, Run
from ncu_swizzle.certify.terms import (
    APPLY,
    ATOM,
    OBJECT,
    SHARED,
    Term,
    atom,
    both,
    compare,
    const,
    either,
    equal,
    scale,
    sext,
    shift,
    signed,
    zext,
)  # fmt: skip
from ncu_swizzle.certify.verdict import (
    Access,
    Assumption,
    Counterexample,
    KernelVerdict,
    Location,
    Obstacle,
    Outcome,
    Query,
)  # fmt: skip

MOST_UNROLLED = 40  # loops
MOST_TURNS = 70  # of a loop that is unrolled
MOST_SPLITS = 16  # rounds of finding the phis in which the versions differ
MOST_PAIRS = 20_000  # of accesses
SAMPLES = 5  # of each access, to find one mapping of all
BETWEEN = 16  # bytes that the distance of a fragment's rows is a multiple of; its first one is aligned to 32
CPU_S = 30.0  # of one kernel
# What is assumed, in turn, as far as it is needed.
LEVELS = (
    frozenset[Assumption](),
    frozenset({Assumption.IN_BOUNDS}),
    frozenset({Assumption.IN_BOUNDS, Assumption.NO_WRAP}),
)


def certify(
    before: str,
    after: str,
    *,
    kernel: str = "",
    block: Shape | None = None,
    dynamic: tuple[int, int] | None = None,
    certificate: bool = False,
) -> KernelVerdict:
    """Return the verdict on a kernel in two PTX modules, of unoptimised code (`nvcc -Xcicc -O0 -ptx -lineinfo`).

    `kernel` is its symbol in the old module, "" for the only one; the new one has the same symbol, or is the only one
    of its module. `block` is the shape of blocks, None for any shape; `dynamic` the bytes of dynamic shared memory in
    each version. With `certificate` the verdict has the queries. Raises ValueError for text that is not PTX, and
    EnvironmentLacking without a solver.
    """
    modules = parse(before), parse(after)
    names = _kernels(modules, kernel)
    block = block or modules[0].functions[names[0]].threads
    verdict = KernelVerdict(
        kernel=names[0],
        outcome=Outcome.UNPROVED,
        block=block,
        dynamic=dynamic[0] if dynamic and any(array.size == 0 for array in modules[0].shared()) else None,
    )
    with _TERMS:
        terms.forget()
        try:
            return Comparison(modules, names, block, dynamic, Solver(), certificate).verdict(verdict)
        except Unfollowed as error:
            return replace(verdict, obstacle=Obstacle(reason=str(error), line=error.line))
        except RecursionError:
            return replace(verdict, obstacle=Obstacle(reason="its expressions are too deep"))


_TERMS = threading.Lock()  # terms are the process's: one comparison at a time


def _kernels(modules: tuple[Module, Module], kernel: str) -> tuple[str, str]:
    """Return the kernel's symbols. Raises ValueError if there is none, or more than one to choose from."""
    entries = [module.kernels for module in modules]
    old = kernel or (entries[0][0] if len(entries[0]) == 1 else "")
    if old not in entries[0]:
        raise ValueError(f"the old version has no kernel {kernel}" if kernel else "which of its kernels is meant?")
    if old in entries[1]:
        return old, old
    if len(entries[1]) != 1:
        raise ValueError(f"the new version has no kernel {old}")
    return old, entries[1][0]


@dataclass(eq=False)
class MappedAccess:
    """An access to a shared array, as offsets from its start in each version, 64 bits wide."""

    symbol: Term
    before: Term
    after: Term
    width: int
    align: int
    write: bool
    reached: list[Term]  # conditions under which it is executed
    line: Location | None
    unwrapped: list[Term]  # that sums of 32 bits in the old offset do not wrap


@dataclass(eq=False)
class ArrayAccesses:
    """All that is known of the accesses to one array."""

    symbol: Term
    accesses: list[MappedAccess] = field(default_factory=list)
    opaque: list[tuple[str, Location | None]] = field(default_factory=list)  # of unknown extent, at equal offsets
    mapped: bool = False


class Comparison:
    """Two versions of a kernel, compared."""

    def __init__(
        self,
        modules: tuple[Module, Module],
        kernels: tuple[str, str],
        block: Shape | None,
        dynamic: tuple[int, int] | None,
        solver: Solver,
        certificate: bool,
    ) -> None:
        self.modules, self.kernels, self.block, self.dynamic = modules, kernels, block, dynamic
        self.solver, self._certificate = solver, certificate
        self.names = _paired(modules)
        self._check_modules()
        self._sizes = {SHARED + old.name: (old, new) for old, new in self._arrays()}
        self._same_layout = all(
            (old.size, old.align) == (new.size, new.align) for old, new in self._sizes.values()
        ) and [symbol.name for symbol in modules[0].shared()] == [
            self.names[symbol.name] for symbol in modules[1].shared()
        ]
        # Sizes that the launch decides are the same unless it is known that they differ.
        self._resized = not self._same_layout or bool(dynamic and dynamic[0] != dynamic[1])
        self._assumed: set[Assumption] = set()
        self._queries: list[Query] = []
        self._started = time.process_time()

    def _check_modules(self) -> None:
        """Refuse what has other variables, or another launch: the kernels' instructions do not show that."""
        old, new = self.modules
        for name in old.symbols.keys() & new.symbols.keys():
            one, other = old.symbols[name], new.symbols[name]
            if one.space in ("global", "const") and (one.size, one.initial) != (other.size, other.initial):
                raise Unfollowed(f"{name} has other contents in the new version")
        if reason := refusal(old, new, *self.kernels):
            raise Unfollowed(reason)

    def _arrays(self) -> Iterator[tuple[Symbol, Symbol]]:
        new = {self.names[symbol.name]: symbol for symbol in self.modules[1].shared()}
        return ((symbol, new[symbol.name]) for symbol in self.modules[0].shared())

    def verdict(self, verdict: KernelVerdict) -> KernelVerdict:
        """Return the verdict, loops unrolled as far as they step through local arrays."""
        unrolled: list[tuple[int, int]] = []
        try:
            found = self._attempt(unrolled, verdict)
        except Different as error:
            return replace(verdict, obstacle=self._obstacle(error))
        while found.outcome is not Outcome.PROVED and len(unrolled) < MOST_UNROLLED:
            if (wish := self._to_unroll()) is None:
                break
            while wish is not None and len(unrolled) < MOST_UNROLLED:
                unrolled.append(wish)
                self._run(unrolled[:], only_old=True)
                wish = self._to_unroll()
            found = self._attempt(unrolled, verdict)
        return found

    def _to_unroll(self) -> tuple[int, int] | None:
        """Return a loop that indexes local memory, and its number of turns, if constants decide it."""
        if not self._ran:
            return None
        run = self.old
        headers = {
            run.phis[leaf].block
            for leaf in self._local_indices(run)
            if leaf in run.phis and run.phis[leaf].block in run.loops
        }
        for header in sorted(headers):
            turns = {len(values) for values in run.iterations(header).values()}
            if turns and max(turns) <= MOST_TURNS:
                return header, max(turns)
        return None

    @staticmethod
    def _local_indices(run: Run) -> set[Term]:
        return {
            leaf
            for effect in itertools.chain(*run.effects)
            for memory in effect.memory
            if any(each.op == ATOM and each.name.startswith(OBJECT) for each in memory.address.atoms)
            for leaf in memory.address.atoms
        }

    def _attempt(self, unrolled: Sequence[tuple[int, int]], verdict: KernelVerdict) -> KernelVerdict:
        self._assumed, self._queries, self._level = set(), [], 0
        try:
            self._find_splits(unrolled)
            wanted = [term for one, other, _, _ in self._obligations() for term in (one, other)]
            invariants.find(self.facts, wanted)
            accesses = self._compare()
            mapped = [array for array in accesses.values() if array.mapped]
            for array in mapped:
                self._check(array)
        except _Refuted as error:
            return replace(verdict, outcome=Outcome.REFUTED, counterexample=error.counterexample)
        except Different:
            raise
        except Unfollowed as error:
            return replace(verdict, obstacle=self._obstacle(error))
        return replace(
            verdict,
            outcome=Outcome.PROVED,
            mapped=tuple(array.symbol.name.removeprefix(SHARED) for array in mapped),
            assumptions=tuple(each for each in Assumption if each in self._assumed | LEVELS[self._level]),
            accesses=sum(len(array.accesses) for array in mapped),
            queries=tuple(self._queries),
        )

    def _obstacle(self, error: Unfollowed) -> Obstacle:
        """Return what is in the way, and if descriptors lay out some of its tiles, that they do."""
        opcodes = [each.opcode for each in itertools.chain(*self.old.effects)] if self._ran else []
        described = next((each for each in opcodes if "tensor" in each or each.startswith(("wgmma", "tcgen05"))), "")
        more = f"; {DESCRIBED}, which {'TMA' if 'tensor' in described else described.partition('.')[0]} reads"
        reason = str(error)
        return Obstacle(reason=reason + more if described and reason != DESCRIBED else reason, line=error.line)

    # 1. The same program: find the values that are equal in both, and that the structure is the same.

    def _run(self, unrolled: Sequence[tuple[int, int]], only_old: bool = False) -> None:
        versions = []
        for n, (module, kernel) in enumerate(zip(self.modules, self.kernels, strict=True)):
            names = {symbol.name: symbol.name for symbol in module.shared()} if n == 0 else self.names
            graph = graph_of(module, kernel)
            for header, turns in unrolled:
                graph = graph.unrolled(header, turns)
            run = Run(graph, module, kernel, self.block, "ba"[n], names)
            run.split, run.resized, run.check = self._split, self._resized, self._check_time
            run.run()
            versions.append(run)
            self._check_time()
            if only_old:
                break
        self.old, self.new = versions[0], versions[-1]
        self._ran = True

    _ran = False  # what is not followed ends a run
    _split: set[tuple[int, str]]

    def _find_splits(self, unrolled: Sequence[tuple[int, int]]) -> None:
        """Run both versions until the phis that they share have equal values on every edge."""
        self._split = set()
        for _ in range(MOST_SPLITS):
            self._run(unrolled)
            self._compare_structure()
            aligns = {name.removeprefix(SHARED): old.align for name, (old, _) in self._sizes.items()}
            self.facts = Facts((self.old, self.new), self.solver, aligns)
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
                    known = first or second
                    at = known.line if known is not None else None
                    has = [each.opcode if each else "nothing" for each in (first, second)]
                    raise Different(f"the old version has {has[0]} here, and the new one {has[1]}", at)

    def _obligations(self) -> Iterator[tuple[Term, Term, str, Location | None]]:
        """Yield pairs of terms that are equal or addresses, what they are, and where."""
        for number, _ in enumerate(self.old.graph.blocks):
            if self.old.reached[number]:
                yield from ((one, other, what, at) for one, other, what, at, _ in self._at(number))

    def _at(self, number: int) -> Iterator[tuple[Term, Term, str, Location | None, tuple[Memory, Memory] | None]]:
        """Yield what has to be the same in one block; addresses with the accesses that they are of."""
        conditions = self.old.conditions[number], self.new.conditions[number]
        if conditions[0] is not None and conditions[1] is not None:
            last = self.old.graph.blocks[number].instructions[-1]
            yield conditions[0], conditions[1], "a branch", last.line, None
        elif conditions[0] is not conditions[1]:
            raise Unfollowed("only one version has a condition here")
        for one, other in zip(self.old.effects[number], self.new.effects[number], strict=True):
            if (one.guard is None) != (other.guard is None) or len(one.values) != len(other.values):
                raise Unfollowed(f"{one.opcode} has other operands in the new version", one.line)
            if one.guard is not None and other.guard is not None:
                yield one.guard, other.guard, "a predicate", one.line, None
            for first, second in zip(one.values, other.values, strict=True):
                yield first, second, f"a value of {one.opcode}", one.line, None
            for before, after in zip(one.memory, other.memory, strict=True):
                same = (before.width, before.space, before.write, before.reaches) == (
                    after.width, after.space, after.write, after.reaches
                )  # fmt: skip
                if not same or (before.stride is None) != (after.stride is None):
                    raise Unfollowed(f"{one.opcode} accesses something else in the new version", one.line)
                yield before.address, after.address, f"the address of {one.opcode}", one.line, (before, after)

    def _differing(self) -> set[tuple[int, str]]:
        """Return the shared phis that may have different values: their incoming values are not shown to be equal."""
        needed = self.facts.sources(term for one, other, _, _ in self._obligations() for term in (one, other))
        found: set[tuple[int, str]] = set()
        for value in needed:
            one, other = self.old.phis.get(value), self.new.phis.get(value)
            if one is None or other is None:
                if (phi := one or other) is not None and not value.name.endswith((":a", ":b")):
                    found.add((phi.block, phi.label))
                continue
            incoming = dict(other.incoming)
            for source, term in one.incoming:
                same = one.base is other.base and source in incoming
                if not same or not self._always_equal(term, incoming[source], self.facts.taken(source, one.block)):
                    found.add((one.block, one.label))
                    break
        return found

    def _always_equal(self, one: Term, other: Term, conditions: Sequence[Term]) -> bool:
        if one is other:
            return True
        if one.width != other.width:
            return False
        return self.facts.ask([*conditions, ~equal(one, other)])[0] is Answer.NEVER

    # 2. Everything but addresses of shared arrays is equal; what those are is gathered.

    def _compare(self) -> dict[Term, ArrayAccesses]:
        """Check what has to be equal, and return the accesses to each array."""
        arrays: dict[Term, ArrayAccesses] = {}
        escaped: dict[Term, tuple[str, Location | None]] = {}
        doubtful: dict[Term, Location | None] = {}
        for run in (self.old, self.new):
            for symbol, escapes in run.escapes.items():
                escaped.setdefault(symbol, (escapes[0].reason, escapes[0].line))
        for number, _ in enumerate(self.old.graph.blocks):
            if not self.old.reached[number]:
                continue
            for one, other, what, at, memory in self._at(number):
                self._check_time()
                symbols = self._symbols(one, other)
                if memory is None:
                    for symbol in symbols:
                        escaped.setdefault(symbol, (f"{what} depends on it", at))
                elif one.symbols or other.symbols:
                    self._gather(arrays, doubtful, number, memory, what, at)
                    continue
                else:
                    doubtful.update(dict.fromkeys(symbols, at))
                    self._check_origin(memory[0], at)
                self._check_equal(one, other, what, at, number)
        self._check_lookups()
        self._settle(arrays, escaped, doubtful)
        return arrays

    def _symbols(self, *of: Term) -> set[Term]:
        """Return the shared arrays whose addresses some terms may have come from."""
        return {leaf for leaf in self.facts.sources(of) if leaf.op == ATOM and leaf.name.startswith(SHARED)}

    def _check_equal(self, one: Term, other: Term, what: str, at: Location | None, number: int) -> None:
        if one is other:
            return
        if one.width != other.width:
            raise Unfollowed(f"{what} has another width in the new version", at)
        conditions = [*self.facts.reaching(number), ~equal(one, other)]
        answer, _ = self.facts.ask(conditions)
        if answer is not Answer.NEVER:
            raise Unfollowed(f"{what} may differ between the versions", at)
        self._note(f"{what} is the same", at, conditions)

    def _check_origin(self, memory: Memory, at: Location | None) -> None:
        """Refuse an access that may be to a shared array without showing to which."""
        atoms = memory.address.atoms
        if any(leaf.op == APPLY and leaf.name == NUMBER for leaf in self.facts.sources([memory.address])):
            raise Unfollowed("an address of shared memory is made from a number", at)
        if any(leaf.op == ATOM and leaf.name.startswith("undef:") for leaf in terms.leaves(memory.address)):
            raise Unfollowed("an address is computed from what nothing sets", at)
        pointer = any(leaf.op == APPLY or leaf.width == 64 for leaf in atoms)
        if memory.space == "shared" or (memory.space == GENERIC and not pointer):
            raise Unfollowed("an access does not show which array it is to", at)

    def _check_lookups(self) -> None:
        """Check that the new version's loads from tables of constants are in bounds."""
        for lookup in self.new.lookups:
            within = compare("ule", lookup.offset, const(lookup.last, 64))
            aligned = equal(lookup.offset & const(lookup.size - 1, 64), const(0, 64))
            conditions = [*self.facts.path(self.new, lookup.block), ~(within & aligned)]
            if self.facts.ask(conditions)[0] is not Answer.NEVER:
                raise Unfollowed(f"an index of the table {lookup.table} may be out of bounds")
            self._assumed.add(Assumption.TABLES)

    def _gather(
        self,
        arrays: dict[Term, ArrayAccesses],
        doubtful: dict[Term, Location | None],
        number: int,
        memory: tuple[Memory, Memory],
        what: str,
        at: Location | None,
    ) -> None:
        """Enter an access to a shared array, all rows of a fragment's."""
        bases = [_base(each.address) for each in memory]
        if bases[0] is None or bases[0] is not bases[1]:
            raise Unfollowed("an access does not show which array it is to", at)
        symbol = bases[0]
        offsets = [each.address - zext(symbol, 64) for each in memory]
        for other in self._symbols(*offsets) - {symbol}:
            doubtful[other] = at
        if any(offset.symbols for offset in offsets):
            raise Unfollowed("an offset depends on where the array is", at)
        array = arrays.setdefault(symbol, ArrayAccesses(symbol))
        conditions = self.facts.reaching(number)
        guards = [guard for guard in self._guards(number, memory) if guard is not None]
        conditions = [*conditions, *guards]
        width = memory[0].width
        if width is None:
            described = ".tensor." in what
            array.opaque.append((DESCRIBED if described else "how much of a mapped array is accessed is not known", at))
        for row in range(memory[0].reaches):
            rows = [
                offset + scale(each.stride, row) if each.stride is not None else offset
                for offset, each in zip(offsets, memory, strict=True)
            ]
            array.accesses.append(
                MappedAccess(
                    symbol=symbol,
                    before=rows[0],
                    after=rows[1],
                    width=width or 1,
                    align=memory[0].align if row == 0 else min(memory[0].align, BETWEEN),
                    write=memory[0].write,
                    reached=conditions,
                    line=at,
                    unwrapped=_unwrapped(rows[0]),
                )
            )

    def _guards(self, number: int, memory: tuple[Memory, Memory]) -> Iterator[Term | None]:
        for run, each in zip((self.old, self.new), memory, strict=True):
            yield next(effect.guard for effect in run.effects[number] if each in effect.memory)

    def _settle(
        self,
        arrays: dict[Term, ArrayAccesses],
        escaped: dict[Term, tuple[str, Location | None]],
        doubtful: dict[Term, Location | None],
    ) -> None:
        """Find the arrays that are mapped; check that nothing else may reach them, nor see where arrays are."""
        for array in arrays.values():
            old, new = (self._bytes(array.symbol, n) for n in (0, 1))
            smaller = old is not None and new is not None and new < old
            array.mapped = smaller or any(self._may_move(access) for access in array.accesses)
        for symbol, (reason, at) in escaped.items():
            name = symbol.name.removeprefix(SHARED)
            if symbol in arrays and arrays[symbol].mapped:
                raise Unfollowed(f"the address of {name} does not stay in accesses: {reason}", at)
            if not self._same_layout:
                raise Unfollowed(f"{name} may be at another address, which is seen: {reason}", at)
            self._assumed.add(Assumption.LAYOUT)
        for array in arrays.values():
            if array.mapped and array.symbol in doubtful:
                raise Unfollowed("a pointer may be to a mapped array or to another one", doubtful[array.symbol])
            if array.mapped and array.opaque:
                raise Unfollowed(*array.opaque[0])
            self._check_alignment(array)

    def _check_alignment(self, array: ArrayAccesses) -> None:
        """Refuse accesses that are wider than the array's alignment promises, if the array may be elsewhere now.

        Arrays lie one after the other: they all begin at multiples of what all sizes are multiples of.
        """
        old, new = self._sizes[array.symbol.name]
        if new.align < old.align:
            raise Unfollowed(f"{old.name} is aligned to fewer bytes in the new version")
        if self._same_layout or len(self._sizes) == 1:
            return
        sizes = {symbol.size for pair in self._sizes.values() for symbol in pair}
        kept = max(new.align, math.gcd(32, *sizes))
        wide = next((access for access in array.accesses if access.align > kept), None)
        if wide is not None:
            raise Unfollowed(
                f"{old.name} is accessed by more bytes than it is aligned to, and arrays change size", wide.line
            )

    def _may_move(self, access: MappedAccess) -> bool:
        if access.before is access.after:
            return False
        return self._ask(access, [~equal(access.before, access.after)])[0] is not Answer.NEVER

    # 3. Mapped arrays: in bounds, aligned, and each two accesses meet in both versions alike.

    def _bytes(self, symbol: Term, version: int) -> int | None:
        """Return an array's size; None if the launch decides it and is not known."""
        size = self._sizes[symbol.name][version].size
        return size or (self.dynamic[version] if self.dynamic is not None else None)

    def _in_bounds(self, symbol: Term, offset: Term, width: int, version: int) -> Term:
        size = self._bytes(symbol, version)
        if size is None:
            raise Unfollowed("how many bytes of dynamic shared memory a launch has is not known")
        return compare("ule", offset, const(size - width, 64)) if size >= width else const(0, 1)

    def _levels(self, accesses: Sequence[MappedAccess]) -> list[list[Term]]:
        """Return what may be assumed of accesses in the old version: nothing, bounds, and that sums do not wrap."""
        bounds = [self._in_bounds(each.symbol, each.before, each.width, 0) for each in accesses]
        return [[], bounds, [*bounds, *(term for each in accesses for term in each.unwrapped)]]

    def _ask(
        self, access: MappedAccess, conditions: Sequence[Term], wanted: Sequence[Term] = ()
    ) -> tuple[Answer, list[int]]:
        """Ask about one access, with as few assumptions as are needed."""
        levels = [
            [*assumed, *self.facts.about([*access.reached, *conditions, *assumed])]
            for assumed in self._levels([access])
        ]
        return self._least([*access.reached, *conditions], levels, wanted)

    def _least(
        self, conditions: Sequence[Term], levels: Sequence[Sequence[Term]], wanted: Sequence[Term] = ()
    ) -> tuple[Answer, list[int]]:
        """Ask, assuming as little as is needed; what was needed once is assumed from then on."""
        answer: tuple[Answer, list[int]] = (Answer.UNKNOWN, [])
        for level in range(self._level, len(levels)):
            if level > self._level and len(levels[level]) == len(levels[level - 1]):
                continue
            answer = self.solver.ask([*conditions, *levels[level]], wanted)
            if answer[0] is Answer.NEVER:
                self._level = level
                break
        return answer

    def _check(self, array: ArrayAccesses) -> None:
        """Check a mapped array's accesses one by one, then by one mapping of all bytes, or else two by two."""
        accesses = _distinct(array.accesses)
        for access in accesses:
            self._check_bounds(access)
        if self._follows_mapping(accesses):
            return
        pairs = [(x, y) for x, y in itertools.combinations_with_replacement(accesses, 2) if x.write or y.write]
        if len(pairs) > MOST_PAIRS:
            raise Unfollowed(f"{len(accesses):,} accesses to an array without one mapping are too many")
        views = {access: self._views(access) for access in accesses}
        for one, other in pairs:
            self._check_time()
            self._check_pair(one, other, views[one][0], views[other][1])

    def _check_bounds(self, access: MappedAccess) -> None:
        """Check that an access stays in the array, and as aligned as it was."""
        self._check_time()
        outside = ~self._in_bounds(access.symbol, access.after, access.width, 1)
        if access.align > 1:
            low = const(access.align - 1, 64)
            misaligned = [equal(each & low, const(0, 64)) for each in (access.before, access.after)]
            outside = either([outside, misaligned[0] & ~misaligned[1]])
        wanted = _leaves([*access.reached, access.before, access.after])
        answer, values = self._ask(access, [outside], wanted)
        if answer is Answer.UNKNOWN:
            raise Unfollowed("whether an access stays in its array is not decided in time", access.line)
        if answer is Answer.POSSIBLE:
            what = "an access leaves its array, or loses its alignment, in the new version"
            raise self._refuted(what, access.symbol, [(access, dict(zip(wanted, values, strict=True)))])
        self._note(
            "an access stays in its array, as aligned as it was", access.line, [*access.reached, outside], access
        )

    def _follows_mapping(self, accesses: Sequence[MappedAccess]) -> bool:
        """Return whether all accesses are moved by one mapping of bytes that is one-to-one: then any two meet alike."""
        samples: set[tuple[int, int]] = set()
        for access in accesses:
            apart: list[Term] = []
            for turn in range(SAMPLES):
                answer, values = self._ask(access, apart, [access.before, access.after])
                if answer is not Answer.POSSIBLE:
                    break
                samples.add((values[0], values[1]))
                row = const(5 + turn % 4, 64)  # another row next, of 32 bytes or more
                apart.append(~equal(shift("lshr", access.before, row), shift("lshr", const(values[0], 64), row)))
        return any(all(self._follows(mapping, access) for access in accesses) for mapping in mappings_of(samples))

    def _follows(self, mapping: ByteMapping, access: MappedAccess) -> bool:
        if access.width > mapping.together:
            return False
        last = const(access.width - 1, 64)
        moved = [
            equal(mapping.of(access.before), access.after),
            equal(mapping.of(access.before + last), access.after + last),
        ]
        conditions = [~both(moved)]
        if self._ask(access, conditions)[0] is not Answer.NEVER:
            return False
        self._note(f"an access moves by {mapping}", access.line, [*access.reached, *conditions], access)
        return True

    def _views(self, access: MappedAccess) -> tuple[_View, _View]:
        """Return an access as two threads make it, with all that is known of either."""
        levels = self._levels([access])
        bounds = self._in_bounds(access.symbol, access.after, access.width, 1)  # which was checked
        known = [*access.reached, bounds]
        levels = [[*known, *each, *self.facts.about([*known, *each, access.before, access.after])] for each in levels]
        found = []
        for tag in ("'1", "'2"):
            rename = instance(tag)
            found.append(
                _View(rename(access.before), rename(access.after), [[*map(rename, each)] for each in levels], tag)
            )
        return found[0], found[1]

    def _check_pair(self, one: MappedAccess, other: MappedAccess, first: _View, second: _View) -> None:
        """Check that two accesses, in any two threads, meet in both versions alike."""
        distances = first.before - second.before, first.after - second.after
        if distances[0] is distances[1]:
            return
        span = one.width + other.width - 1
        meet = [compare("ult", each + const(one.width - 1, 64), const(span, 64)) for each in distances]
        conditions = [~equal(*distances), either(meet)]
        levels = [[*a, *b] for a, b in zip(first.levels, second.levels, strict=True)]
        wanted = _leaves([first.before, first.after, second.before, second.after, *levels[0]])
        answer, values = self._least(conditions, levels, wanted)
        if answer is Answer.UNKNOWN:
            raise Unfollowed("whether two accesses meet alike is not decided in time", one.line)
        if answer is Answer.POSSIBLE:
            found = dict(zip(wanted, values, strict=True))
            raise self._refuted(
                "two accesses meet in one version and not, or not alike, in the other",
                one.symbol,
                [(each, _untagged(found, view.tag)) for each, view in ((one, first), (other, second))],
            )
        self._keep("two accesses meet in both versions alike", one.line, [*conditions, *levels[self._level]])

    def _refuted(self, what: str, symbol: Term, found: Sequence[tuple[MappedAccess, dict[Term, int]]]) -> _Refuted:
        values: dict[str, int] = {}
        accesses: list[Access] = []
        exact = True
        for access, of in found:
            offsets = [_evaluated(term, of) for term in (access.before, access.after)]
            values |= {_shown(leaf): signed(value, leaf.width) for leaf, value in of.items() if leaf.op == ATOM}
            exact &= all(leaf.op == ATOM and leaf.name.startswith((*UNIFORM, "tid.")) for leaf in of)
            thread = tuple(_named(of, f"tid.{axis}") for axis in "xyz")
            accesses.append(
                Access(
                    thread=(thread[0], thread[1], thread[2]),
                    line=access.line or ("", 0),
                    width=access.width,
                    write=access.write,
                    before=offsets[0],
                    after=offsets[1],
                )
            )
        everything = {leaf: value for _, of in found for leaf, value in of.items()}
        block = tuple(_named(everything, f"ctaid.{axis}") for axis in "xyz")
        counterexample = Counterexample(
            what=what,
            array=symbol.name.removeprefix(SHARED),
            accesses=tuple(accesses),
            block=(block[0], block[1], block[2]),
            values={name: value for name, value in values.items() if not name.startswith((SHARED, "tid.", "ctaid."))},
            exact=exact,
        )
        return _Refuted(counterexample)

    def _note(
        self, says: str, at: Location | None, conditions: Sequence[Term], access: MappedAccess | None = None
    ) -> None:
        """Keep a query that was answered, with what was assumed and is known."""
        if self._certificate:
            asked = [*conditions, *(self._levels([access])[self._level] if access is not None else [])]
            self._keep(says, at, [*asked, *self.facts.about(asked)])

    def _keep(self, says: str, at: Location | None, conditions: Sequence[Term]) -> None:
        """Keep a query that was answered, for the certificate."""
        if self._certificate:
            self._queries.append(Query(says=says, line=at, smt=smtlib.script(conditions)))

    def _check_time(self) -> None:
        if time.process_time() - self._started > CPU_S:
            raise Unfollowed(f"it takes more than {CPU_S:.0f} s")


class _Refuted(Exception):
    """A counterexample was found."""

    def __init__(self, counterexample: Counterexample) -> None:
        super().__init__(counterexample.what)
        self.counterexample = counterexample


@dataclass(frozen=True, eq=False)
class _View:
    """An access as one of two threads makes it: its atoms renamed; what is known, by how much is assumed."""

    before: Term
    after: Term
    levels: list[list[Term]]
    tag: str


def _paired(modules: tuple[Module, Module]) -> dict[str, str]:
    """Return the old name of each shared array of the new version: the same, or the one declared in its place."""
    old, new = ([symbol.name for symbol in module.shared()] for module in modules)
    if set(old) == set(new):
        return {name: name for name in new}
    if len(old) != len(new):
        raise Unfollowed("the new version has other shared arrays")
    return dict(zip(new, old, strict=True))


def _meaning(opcode: str) -> list[str]:
    """Return an opcode without what only hints at caches."""
    return [
        part for part in opcode.split(".") if part not in ("ca", "cg", "cs") and not part.startswith(("L1::", "L2::"))
    ]


def _base(address: Term) -> Term | None:
    """Return the array whose start an address is a sum of, counted once."""
    found = [(part, factor) for part, factor in address.coefficients() if part.symbols]
    if len(found) != 1 or found[0][1] != 1:
        return None
    part = found[0][0]
    inner = next(part.terms(), None) if part.op == "zext" else None
    return inner if inner is not None and inner in inner.symbols else None


def _unwrapped(offset: Term) -> list[Term]:
    """Return that the signed sums of 32 bits which an offset widens do not wrap.

    PTX does not say so of its additions, and source code does of signed ones.
    """
    found: list[Term] = []
    for part in terms.subterms(offset):
        inner = next(part.terms(), None) if part.op == "sext" else None
        if part.width == 64 and inner is not None and inner.op == terms.LINEAR and inner.width == 32:
            total = const(signed(inner.constant, 32), 64)
            for term, factor in inner.coefficients():
                total = total + scale(sext(term, 64), signed(factor, 32))
            found.append(equal(part, total))
    return found


def _distinct(accesses: Sequence[MappedAccess]) -> list[MappedAccess]:
    """Return accesses without those that are the same again."""
    found: dict[tuple[object, ...], MappedAccess] = {}
    for each in accesses:
        found.setdefault((each.before, each.after, each.width, each.write, frozenset(each.reached)), each)
    return list(found.values())


def _leaves(of: Sequence[Term]) -> list[Term]:
    return sorted({leaf for term in of for leaf in term.atoms}, key=lambda leaf: leaf.id)


def _shown(leaf: Term) -> str:
    """Return an atom's name; a parameter's without its place and size."""
    return re.sub(r"^param:(parameter \d+)\+0\.\d+$", r"\1", leaf.name)


def _untagged(values: dict[Term, int], tag: str) -> dict[Term, int]:
    """Return one thread's atoms by the names that both have."""
    found: dict[Term, int] = {}
    for leaf, value in values.items():
        if leaf.op == ATOM and leaf.name.endswith(tag):
            found[atom(leaf.name.removesuffix(tag), leaf.width)] = value
        elif leaf.op == ATOM and not leaf.name.endswith(("'1", "'2")):
            found[leaf] = value
    return found


def _named(values: dict[Term, int], name: str) -> int:
    return next((value for leaf, value in values.items() if leaf.op == ATOM and leaf.name == name), 0)


def _evaluated(term: Term, values: dict[Term, int]) -> int:
    """Return what a term is for values of its atoms; 0 for those that have none."""
    result = terms.rebuilt(term, lambda leaf: const(values.get(leaf, 0), leaf.width), {})
    return signed(result.value, result.width) if result.is_const else 0
