"""Mapped arrays: in bounds, aligned, and any two accesses meet in both versions alike.

For any two accesses to a mapped array of which one writes, in any two threads: if they overlap in one version, their
addresses have the same distance in both. So a byte that a load reads was last written by the same store, at the same
place within it, in both versions: loads return the same values. No mapping need be known for that.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ncu_swizzle.certify import terms
from ncu_swizzle.certify.facts import SHARED_BYTES, KernelFacts, instance
from ncu_swizzle.certify.flow import CHUNK, MemoryFootprint
from ncu_swizzle.certify.ptx import PtxSymbol, Unfollowed
from ncu_swizzle.certify.solver import SolverAnswer
from ncu_swizzle.certify.terms import LINEAR, SHARED, Term, atom, binary, both, const, either, signed
from ncu_swizzle.certify.verdict import Assumption, Counterexample, Location, MovedAccess

TOGETHER = 32  # pairs of one access that are asked of together
THREADS = ("'1", "'2")  # what distinguishes the atoms of two threads
MOST_PAIRS = 20_000  # of accesses
BETWEEN = 16  # bytes that the distance of a fragment's rows is a multiple of; its first one is aligned to 32
# What is assumed of the old version: one level after the other, until the proof succeeds.
LEVELS = (
    frozenset[Assumption](),
    frozenset({Assumption.IN_BOUNDS}),
    frozenset({Assumption.IN_BOUNDS, Assumption.NO_WRAP}),
)


class Refuted(Exception):
    """A counterexample was found."""

    def __init__(self, counterexample: Counterexample) -> None:
        super().__init__(counterexample.what)
        self.counterexample = counterexample


@dataclass(eq=False)
class MappedAccess:
    """An access to a shared array, as offsets from its start in each version, 64 bits wide."""

    before: Term
    after: Term
    width: int
    align: int
    write: bool
    reached: list[Term]  # conditions under which it is executed
    line: Location | None

    def in_thread(self, tag: str, known: Iterable[Term]) -> MappedAccess:
        """Return the access as one of two threads makes it, with all that is known there."""
        rename = instance(tag)
        return replace(self, before=rename(self.before), after=rename(self.after), reached=[*map(rename, known)])

    def meets_otherwise(self, other: MappedAccess) -> Term:
        """Return whether two accesses overlap in one version, at another distance in the other one."""
        distances = self.before - other.before, self.after - other.after
        last, span = const(self.width - 1, 64), const(self.width + other.width - 1, 64)
        return ~distances[0].equals(distances[1]) & either(
            binary("ult", distance + last, span) for distance in distances
        )


@dataclass(eq=False)
class ArrayAccesses:
    """All that is known of the accesses to one array."""

    symbol: Term
    accesses: list[MappedAccess] = field(default_factory=list)
    escaped: tuple[str, Location | None] | None = None  # where its address becomes more than one of an access
    unmapped: tuple[str, Location | None] | None = None  # why it must not be mapped: an access that is not among these
    period: int = 1  # bytes that its address has to be a multiple of: TMA swizzles by bits of addresses

    @property
    def name(self) -> str:
        return self.symbol.name.removeprefix(SHARED)

    def enter(
        self,
        memory: tuple[MemoryFootprint, MemoryFootprint],
        offsets: tuple[Term, Term],
        reached: list[Term],
        line: Location | None,
    ) -> None:
        """Enter an access, all rows of a fragment's, or any chunk of a box, where the version's tensor map puts it."""
        old, new = memory
        if old.tile is not None and new.tile is not None:
            if offsets[0] is not offsets[1] or (old.tile.box, old.tile.row) != (new.tile.box, new.tile.row):
                raise Unfollowed("a box that TMA moves begins elsewhere in the new version, or has another shape", line)
            chunk = atom("chunk", 64)
            reached = [*reached, binary("ult", chunk, const(old.tile.box // CHUNK, 64))]
            start = offsets[0] + chunk.scaled(CHUNK)
            offsets = old.tile.placed(start), new.tile.placed(start)
            self.period = max(self.period, old.tile.period, new.tile.period)
        for row in range(old.reaches):
            before, after = (
                offset + each.stride.scaled(row) if each.stride is not None else offset
                for offset, each in zip(offsets, memory, strict=True)
            )
            align = old.align if row == 0 else min(old.align, BETWEEN)
            self.accesses.append(MappedAccess(before, after, old.width or 1, align, old.write, reached, line))

    def distinct(self) -> list[MappedAccess]:
        """Return the accesses without those that are the same again."""
        accesses: dict[tuple[object, ...], MappedAccess] = {}
        for each in self.accesses:
            accesses.setdefault((each.before, each.after, each.width, each.write, frozenset(each.reached)), each)
        return list(accesses.values())


@dataclass(eq=False, kw_only=True)
class Arrays:
    """The shared arrays of two versions, by symbol. `sizes` has each array as both versions declare it."""

    facts: KernelFacts
    sizes: Mapping[str, tuple[PtxSymbol, PtxSymbol]]
    dynamic: tuple[int, int] | None
    same_layout: bool
    check_time: Callable[[], None]
    assumed: set[Assumption] = field(default_factory=set)
    _level: frozenset[Assumption] = LEVELS[0]  # what is assumed of the old version at present
    _arrays: dict[Term, ArrayAccesses] = field(default_factory=dict)

    def of(self, symbol: Term) -> ArrayAccesses:
        return self._arrays.setdefault(symbol, ArrayAccesses(symbol))

    def escape(self, symbols: Iterable[Term], reason: str, line: Location | None) -> None:
        """Note that addresses of arrays become more than those of accesses."""
        for array in map(self.of, symbols):
            array.escaped = array.escaped or (reason, line)

    def keep_unmapped(self, symbols: Iterable[Term], reason: str, line: Location | None) -> None:
        """Note an access that is not entered: to the whole of an array, or to one of several."""
        for array in map(self.of, symbols):
            array.unmapped = reason, line

    def check(self) -> list[ArrayAccesses]:
        """Return the arrays that are mapped, all of them checked, with as few assumptions as are needed.

        Raises Refuted, or Unfollowed.
        """
        shown = len(self.facts.solver.shown)
        for self._level in LEVELS[:-1]:
            with contextlib.suppress(Refuted, Unfollowed):
                return self._checked()
            del self.facts.solver.shown[shown:]
        self._level = LEVELS[-1]
        return self._checked()

    def _checked(self) -> list[ArrayAccesses]:
        mapped = [array for array in self._arrays.values() if self._is_mapped(array)]
        for array in self._arrays.values():
            self._check_use(array, array in mapped)
        for array in mapped:
            accesses = array.distinct()
            for access in accesses:
                self._check_bounds(array, access)
            self._check_pairs(array, accesses)
        if self._level == LEVELS[0] and (mapped or not self.same_layout):
            for array in self._arrays.values():
                if array not in mapped:
                    self._check_inside(array)
        self.assumed |= self._level
        return mapped

    def _check_use(self, array: ArrayAccesses, mapped: bool) -> None:
        """Refuse what must not be done with an array that is mapped, or that may be at another address."""
        if array.escaped:
            reason, at = array.escaped
            if mapped:
                raise Unfollowed(f"the address of {array.name} does not stay in accesses: {reason}", at)
            if not self.same_layout:
                raise Unfollowed(f"{array.name} may be at another address, which is seen: {reason}", at)
            self.assumed.add(Assumption.LAYOUT)
        if array.unmapped and mapped:
            raise Unfollowed(*array.unmapped)
        self._check_alignment(array)

    def _check_inside(self, array: ArrayAccesses) -> None:
        """Refuse an array that is not mapped and may be accessed out of bounds, as what is next to it may move."""
        if array.unmapped or (array.accesses and self._bytes(array, 0) is None):
            raise Unfollowed(f"whether {array.name} is accessed in bounds is not known")
        outside = (
            both([*each.reached, ~self._in_bounds(array, each.before, each.width, 0)]) for each in array.distinct()
        )
        if not self.facts.always(~either(outside), []):
            raise Unfollowed(f"{array.name} may be accessed out of bounds")

    def _is_mapped(self, array: ArrayAccesses) -> bool:
        """Return whether an access may have another offset in the new version, or the array has become smaller."""
        old, new = (self._bytes(array, version) for version in (0, 1))
        if array.accesses and old is not None and new is not None and new < old:
            return True
        moved = (access for access in array.accesses if access.before is not access.after)
        moves = (self._known(array, each, ~each.before.equals(each.after)) for each in moved)
        return any(self.facts.solver.ask(conditions)[0] is not SolverAnswer.NEVER for conditions in moves)

    def _check_alignment(self, array: ArrayAccesses) -> None:
        """Refuse accesses that are wider than the array's alignment promises, if the array may be elsewhere now.

        Arrays lie one after the other: they all begin at multiples of what all sizes are multiples of.
        """
        old, new = self.sizes[array.symbol.name]
        if array.accesses and new.align < old.align:
            raise Unfollowed(f"{old.name} is aligned to fewer bytes in the new version")
        if array.period > min(old.align, new.align):
            raise Unfollowed(f"TMA's swizzle repeats every {array.period:,} bytes, to which {old.name} is not aligned")
        if self.same_layout or len(self.sizes) == 1:
            return
        kept = max(new.align, math.gcd(32, *(symbol.size for pair in self.sizes.values() for symbol in pair)))
        wide = next((access for access in array.accesses if access.align > kept), None)
        if wide is not None:
            raise Unfollowed(
                f"{old.name} is accessed by more bytes than it is aligned to, and arrays change size", wide.line
            )

    def _bytes(self, array: ArrayAccesses, version: int) -> int | None:
        """Return an array's size; None if the launch decides it and is not known."""
        size = self.sizes[array.symbol.name][version].size
        return size or (self.dynamic[version] if self.dynamic is not None else None)

    def _in_bounds(self, array: ArrayAccesses, offset: Term, width: int, version: int) -> Term:
        size = self._bytes(array, version)
        if size is None:
            raise Unfollowed("how many bytes of dynamic shared memory a launch has is not known")
        return binary("ule", offset, const(size - width, 64)) if size >= width else const(0, 1)

    # Questions.

    def _known(self, array: ArrayAccesses, access: MappedAccess, *conditions: Term) -> list[Term]:
        """Return some conditions, and all that is known of an access, or is assumed of it in the old version."""
        known = [*access.reached, *conditions]
        if Assumption.IN_BOUNDS in self._level:
            known.append(self._in_bounds(array, access.before, access.width, 0))
        if Assumption.NO_WRAP in self._level:
            known += _unwrapped(access.before)
        return [*known, *self.facts.about([*known, access.before, access.after])]

    def _check_bounds(self, array: ArrayAccesses, access: MappedAccess) -> None:
        """Check that an access stays in the array, and as aligned as it was.

        The old version's may touch the array next to it otherwise: that it does not is shown, or else assumed.
        """
        self.check_time()
        both_versions = access.before, access.after
        outside = ~both(self._in_bounds(array, each, access.width, n) for n, each in enumerate(both_versions))
        before, after = ((each & const(access.align - 1, 64)).equals(const(0, 64)) for each in both_versions)
        outside = outside | (before & ~after)
        wanted = _leaves([*access.reached, *both_versions])
        says = "an access stays in its array, as aligned as it was"
        answer, values = self.facts.solver.ask(self._known(array, access, outside), wanted, says, access.line)
        if answer is SolverAnswer.UNKNOWN:
            raise Unfollowed("whether an access stays in its array is not decided in time", access.line)
        if answer is SolverAnswer.POSSIBLE:
            what = "an access leaves its array, or loses its alignment, in the new version"
            raise _refuted(what, array, {"": access}, dict(zip(wanted, values, strict=True)))

    def _check_pairs(self, array: ArrayAccesses, accesses: Sequence[MappedAccess]) -> None:
        """Check that any two accesses, in any two threads, meet in both versions alike."""
        if len(accesses) ** 2 // 2 > MOST_PAIRS:
            raise Unfollowed(f"{len(accesses):,} accesses to an array are too many")
        # That they stay inside in the new version was checked.
        known = [self._known(array, each, self._in_bounds(array, each.after, each.width, 1)) for each in accesses]
        one, other = (
            [each.in_thread(tag, conditions) for each, conditions in zip(accesses, known, strict=True)]
            for tag in THREADS
        )
        for number, first in enumerate(one):
            others = [each for each in other[number:] if first.write or each.write]
            for start in range(0, len(others), TOGETHER):
                self._check_meetings(array, first, others[start : start + TOGETHER])

    def _check_meetings(self, array: ArrayAccesses, one: MappedAccess, others: Sequence[MappedAccess]) -> None:
        """Check that an access meets each of some others in both versions alike."""
        self.check_time()
        meetings = [both([one.meets_otherwise(each), *each.reached]) for each in others]
        conditions = [*one.reached, either(meetings)]
        wanted = _leaves([one.before, one.after, *conditions])
        answer, values = self.facts.solver.ask(conditions, wanted, "accesses meet in both versions alike", one.line)
        if answer is SolverAnswer.UNKNOWN and len(others) > 1:
            self._check_meetings(array, one, others[::2])
            self._check_meetings(array, one, others[1::2])
        elif answer is SolverAnswer.UNKNOWN:
            raise Unfollowed("whether two accesses meet alike is not decided in time", one.line)
        elif answer is SolverAnswer.POSSIBLE:
            found = dict(zip(wanted, values, strict=True))
            other = next(each for each, meet in zip(others, meetings, strict=True) if _evaluated(meet, found))
            what = "two accesses meet in one version and not, or not alike, in the other"
            raise _refuted(what, array, dict(zip(THREADS, (one, other), strict=True)), found)


def _unwrapped(offset: Term) -> list[Term]:
    """Return that the signed sums of 32 bits which an offset widens do not wrap.

    PTX does not say so of its additions, and source code does of signed ones. Of factors and numbers that no index of
    shared memory has, it is not assumed: a hash wraps on purpose, unsigned, whatever it is cast to.
    """
    found: list[Term] = []
    for part in offset.subterms():
        inner = next(part.terms(), None) if part.op == "sext" else None
        if part.width == 64 and inner is not None and inner.op == LINEAR and inner.width == 32:
            constant = signed(inner.constant, 32)
            summands = [(term, signed(factor, 32)) for term, factor in inner.coefficients()]
            if all(abs(number) <= SHARED_BYTES for number in (constant, *(factor for _, factor in summands))):
                wide = (term.sext(64).scaled(factor) for term, factor in summands)
                found.append(part.equals(sum(wide, const(constant, 64))))
    return found


# Counterexamples.


def _refuted(
    what: str, array: ArrayAccesses, accesses: Mapping[str, MappedAccess], found: Mapping[Term, int]
) -> Refuted:
    """Return the counterexample of a solver's values. Names of an access's own atoms end with its tag."""
    values: dict[str, int] = {}
    seen: list[MovedAccess] = []
    for tag, access in accesses.items():
        others = tuple({*accesses} - {tag})
        own = {
            leaf.name.removesuffix(tag): signed(value, leaf.width)
            for leaf, value in found.items()
            if leaf.is_atom() and not (others and leaf.name.endswith(others))
        }
        values |= own
        before, after = (signed(_evaluated(offset, found), 64) for offset in (access.before, access.after))
        thread = own.get("tid.x", 0), own.get("tid.y", 0), own.get("tid.z", 0)
        seen.append(
            MovedAccess(
                thread=thread, line=access.line, width=access.width, write=access.write, before=before, after=after
            )
        )
    counterexample = Counterexample(
        what=what,
        array=array.name,
        accesses=tuple(seen),
        block=(values.get("ctaid.x", 0), values.get("ctaid.y", 0), values.get("ctaid.z", 0)),
        # A parameter's name is without its place and size.
        values={
            re.sub(r"^param:(parameter \d+)\+0\.\d+$", r"\1", name): value
            for name, value in values.items()
            if not name.startswith((SHARED, "tid.", "ctaid."))
        },
    )
    return Refuted(counterexample)


def _leaves(of: Sequence[Term]) -> list[Term]:
    return terms.in_order({leaf for term in of for leaf in term.atoms})


def _evaluated(term: Term, values: Mapping[Term, int]) -> int:
    """Return what a term is for values of its atoms; 0 for those that have none."""
    result = terms.rebuilt(term, lambda leaf: const(values.get(leaf, 0), leaf.width), {})
    return result.value if result.is_const else 0
