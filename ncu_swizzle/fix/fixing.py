"""Fix a kernel: tile by tile, the cheapest mapping whose patch is proved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import shared_arrays
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.settings import Context
from ncu_swizzle.fix import candidates, cuda, result
from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.applied import Applied, AppliedByName, AppliedToTile, Neighbour
from ncu_swizzle.fix.by_name import NamedFix, Naming
from ncu_swizzle.fix.candidates import MappingKind, Ranked, RootSeen, TileSeen
from ncu_swizzle.fix.claims import Claim, Proof
from ncu_swizzle.fix.copies import not_rewritten, rebuilt, source_of, unread
from ncu_swizzle.fix.draft import Draft, Swapped, Unfit, swapped
from ncu_swizzle.fix.excess import Moved, grown, of_launch, stays
from ncu_swizzle.fix.expressions import Edit, Overlap, edited
from ncu_swizzle.fix.guard import guard, unobstructed
from ncu_swizzle.fix.includers import OtherSources
from ncu_swizzle.fix.padding_edits import PaddingEdits
from ncu_swizzle.fix.proving import prove
from ncu_swizzle.fix.result import KeptKernel, KernelFix, OtherKernel, OtherKernels, Stop, TileFix, furthest
from ncu_swizzle.fix.scopes import Scopes, shared_declarations
from ncu_swizzle.fix.subject import FixSubject, subject_of
from ncu_swizzle.fix.xor_edits import XorEdits
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.smem.code import unit
from ncu_swizzle.smem.judge import Constraints

# Patches of one tile: each mapping in the source, as it would be written by hand first, through an accessor next.


COLUMNS, FACTORS, FLAT = "columns", "factors of columns", "flat"  # what a mapping is written into


@dataclass(frozen=True, eq=False)
class WrittenPatch:
    """A source with a mapping in it."""

    ranked: Ranked
    text: bytes
    edits: int


def written(subject: FixSubject, seen: TileSeen, made: Ranked) -> Iterator[WrittenPatch | Unfit]:
    """Yield the texts that a mapping can be written as, or why it cannot be."""
    launched, plain = subject.launched(seen), subject.draft(seen)
    # What is right for rows of any length comes first; the other asks launches for one, see `conditions`.
    ways = [(launched, COLUMNS)] if launched is not None else []
    texts: set[bytes] = set()
    for draft, way in ((plain, COLUMNS), (plain, FACTORS), (plain, FLAT), *ways):
        try:
            edits = _edits(subject, draft, made, way)
            guard(draft, made.transform, edits, way == FLAT)
            text = edited(subject.file.text, edits)
        except Unfit as reason:
            yield reason
            continue
        except Overlap:
            yield Unfit("two uses of the tile stand within each other", 0)
            continue
        if text != subject.file.text and text not in texts:
            texts.add(text)
            yield WrittenPatch(made, text, len(edits))


def _edits(subject: FixSubject, draft: Draft, made: Ranked, way: str) -> list[Edit]:
    unobstructed(draft, made.transform)
    if isinstance(made.transform, Swapped):
        return swapped(draft)
    if isinstance(made.transform, RowXor):
        return XorEdits(draft=draft, xor=made.transform, flat=way == FLAT, factors=way == FACTORS).edits()
    return PaddingEdits(
        draft=draft, padding=made.transform, declarations=dict(subject.declarations), flat=way == FLAT
    ).edits()


# What conflicts in a kernel, but not in an array that its source declares: the kernel is not clean.


UNKNOWN = "the wavefronts of some accesses are unknown"


def left_out(subject: FixSubject, mapped: bool) -> Iterator[TileFix]:
    """Yield the arrays with excess that the source does not declare, or whatever else of it is in no tile.

    With `mapped`, the source has mappings by now, and what they leave is not asked for again.
    """
    arrays = (*subject.unplaced, *subject.placed.values())
    launch = of_launch(subject.emulated, {array.name: array.span for array in arrays})
    outside = [array.name for array in subject.unplaced if launch.moved[array.name] != 0]
    for name in outside:
        yield _declared_elsewhere(subject, name, launch.moved[name])
    if not (outside or mapped or subject.conflicting) and launch.total != 0:
        name = next((name for name, excess in launch.moved.items() if excess != 0), "shared memory")
        why = UNKNOWN if launch.total is None else f"no index in {subject.file.name} accounts for it"
        yield _refused(subject, name, launch.total, why)


def _declared_elsewhere(subject: FixSubject, name: str, excess: int | None) -> TileFix:
    source = subject.target.source.name
    for path, text in subject.emulated.profile.sources.items():
        file = PurePath(path).name
        if file != source and (line := _declaration(text, file, name)):
            header = limits.plain(subject.target.family.root / path)
            why = f"it is declared there, and {not_rewritten(subject.target, header)}"
            made = TileFix(
                name=name, line=line, excess_before=excess or 0, unknown=excess is None, file=subject.named(path)
            )
            return replace(made, reason=why, reason_line=line, reason_file=made.file)
    return _refused(subject, name, excess, f"{name} is not declared in {source}")


def _declaration(text: str, file: str, name: str) -> int:
    """Return the line of a text that declares a shared array; 0 if none does."""
    if "__shared__" not in text or name not in text:
        return 0
    parsed = cuda.parse(text.encode("utf-8", "surrogateescape"), file)
    found = (made for made in shared_declarations(Scopes(parsed)) if made.name == name)
    return next((parsed.line(made.declared) for made in found), 0)


def _refused(subject: FixSubject, name: str, excess: int | None, why: str) -> TileFix:
    """Return the worst access through which the source reaches an array: its own line, and where it leads."""
    accesses = [access for access in subject.emulated.profile.shared() if access.excessive != 0 and access.stack]
    if not accesses:
        return TileFix(name=name, line=1, excess_before=excess or 0, unknown=excess is None, reason=why, reason_line=1)
    stack = max(accesses, key=lambda access: access.excessive or 0).stack
    source = subject.target.source.name
    line = next((number for path, number in stack if PurePath(path).name == source), 1)
    inner, number = PurePath(stack[0][0]).name, stack[0][1]
    there = "" if inner == source else f"; the access is at {inner}:{number}"
    return TileFix(
        name=name,
        line=line,
        excess_before=excess or 0,
        unknown=excess is None,
        reason=f"{why}{there}",
        reason_line=line,
    )


OTHERS = 4  # patches to rebuild, if one is proved but costs blocks per SM
ATTEMPTS = 8  # patches of one tile that are rebuilt
UNWRITTEN = "the source does not show where its elements are indexed"


@dataclass(frozen=True)
class FixOptions:
    """What kind of mapping is wanted, and how much shared memory a block may take with it."""

    only: MappingKind | None = None
    max_shared: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Proved:
    """A patch that was proved, and the other kernels that it is proved for."""

    text: WrittenPatch
    applied: tuple[Applied, ...]
    proof: Proof
    others: tuple[KeptKernel, ...]

    @property
    def fewer_blocks(self) -> int:
        """How many blocks per SM it costs, by shared memory or registers."""
        before, after = self.proof.resources_before, self.proof.resources_after
        return before.blocks_per_sm - after.blocks_per_sm if before and after else 0


@dataclass(eq=False, kw_only=True)
class Fixing:
    """The state of one kernel's fix: the text so far, the mappings in it, the last proof."""

    target: Target
    options: FixOptions
    context: Context
    text: bytes
    settings: EmulationSettings
    others: OtherKernels
    applied: tuple[Applied, ...] = ()
    proof: Proof | None = None
    along: Mapping[str, OtherKernel] = field(default_factory=dict)  # of other sources, for which all is proved, too

    def tiles(self) -> Iterator[TileFix]:
        """Fix one tile after the other; yield what came of each, then what is no tile of this source."""
        naming = self._naming()
        named = naming.fix() if not self.applied else None
        if named is not None and named.clean:
            yield from self._named(named)
            if named.proof.after.total == 0:
                return
            named = None
        tiles = [naming.explained(tile) for tile in self._by_tile()]
        if named is not None and not self.applied:
            tiles = list(self._named(named))
        yield from tiles

    def _by_tile(self) -> Iterator[TileFix]:
        subject = self._subject()
        others = list(left_out(subject, bool(self.applied)))
        yield from self._tiles(subject)
        yield from others

    def _naming(self) -> Naming:
        options = self.options
        return Naming(
            target=self.target,
            text=self.text,
            only=options.only,
            max_shared=options.max_shared,
            context=self.context,
            settings=self.settings,
            others=self.others,
        )

    def _named(self, named: NamedFix) -> Iterator[TileFix]:
        self.text, self.proof = named.text, named.proof
        self._keep(named.applied, named.others)
        yield from named.tiles

    def _tiles(self, subject: FixSubject) -> Iterator[TileFix]:
        starts = self._starts(subject)
        done = {each.name for each in self.applied if isinstance(each, AppliedByName)}
        while True:
            seen = next((seen for seen in subject.conflicting if seen.name not in done), None)
            if seen is None:
                return
            done.add(seen.name)
            fixed, text = self._tile(subject, seen, starts)
            yield fixed
            if text is not None:
                self.text = text
                if all(other.name in done for other in subject.conflicting):
                    return
                subject = self._subject()

    @cached_property
    def _original(self) -> Emulated:
        """The kernel before any patch."""
        return emulation.emulate_target(self.target, self.settings)

    def _subject(self) -> FixSubject:
        """Return the kernel as the text has it by now."""
        if self.text == source_of(self.target):
            return subject_of(self.target, self.text, self.settings)
        with rebuilt(self.target, self.text) as copy:
            return replace(subject_of(copy, self.text, self.settings), target=self.target)

    def _starts(self, subject: FixSubject) -> dict[str, int]:
        """Return where the arrays of the kernel as it was began, by their symbols then and now."""
        binary = self._original.binary
        dynamic = self.target.family.shared_memory(self.target.kernel, self.target.problem)
        arrays = shared_arrays(binary.cubin, binary.symbol, dynamic)
        now = (*subject.placed.values(), *subject.unplaced)
        renamed = {array.symbol: old.start for array in now for old in arrays if array.name == old.name}
        return renamed | {array.symbol: array.start for array in arrays}

    def _tile(self, subject: FixSubject, seen: TileSeen, starts: dict[str, int]) -> tuple[TileFix, bytes | None]:
        line = subject.at(declared := subject.file.line(seen.roots[0].root.place.declared))
        fixed = TileFix(name=seen.name, line=line[1], excess_before=seen.total, file=subject.named(line[0]))
        best, plain = candidates.ranked(
            seen, subject.shapes(seen), self._limits(seen, subject), subject.spelled_bytes(seen), self.options.only
        )
        if not best:
            why = (
                "no XOR, padding or swap of indices that was tried leaves fewer excessive wavefronts"
                if plain
                else "its rows are not known"
            )
            return _because(fixed, why, line, subject), None
        fixed = replace(fixed, mapping=_spelled(best[0]), excess_after=seen.in_launch(best[0].candidate.excessive))
        stop: Stop | None = None
        proved: list[Proved] = []
        attempts = 0
        for text in (text for made in best for text in written(subject, seen, made)):
            if isinstance(text, Unfit):
                stop = furthest(stop, result.unwritten(text, subject.at(text.line or declared), fixed.mapping))
                continue
            if attempts >= (ATTEMPTS if not proved else OTHERS):
                break
            attempts += 1
            applied = tuple(_applied(root, seen, text.ranked, starts) for root in seen.roots)
            proof = self._proved(text, (*self.applied, *applied))
            if proof.held:
                proved.append(Proved(text=text, applied=applied, proof=proof, others=self.others.kept))
                if not proved[-1].fewer_blocks:
                    break
                continue
            stop = furthest(stop, result.unproved(proof, line, _spelled(text.ranked)))
            attempts += ATTEMPTS // 2 if stop.unknown else 0
        if not proved:
            stop = stop or Stop(stage=0, reason=UNWRITTEN, line=line, mapping=fixed.mapping)
            why = stop.against(fixed.mapping)
            return _because(replace(fixed, unknown=stop.unknown, tried=attempts), why, stop.line, subject), None
        return self._accepted(fixed, seen, min(proved, key=lambda made: made.fewer_blocks))

    def _accepted(self, fixed: TileFix, seen: TileSeen, made: Proved) -> tuple[TileFix, bytes]:
        self.proof = made.proof
        self._keep(made.applied, made.others)
        return _done(fixed, made.text.ranked, made.proof, [root.root.name for root in seen.roots]), made.text.text

    def _keep(self, applied: Sequence[Applied], others: Sequence[KeptKernel]) -> None:
        self.applied = (*self.applied, *applied)
        self.along = {**self.along, **{each.shown.kernel: each.shown for each in others if each.elsewhere}}
        for each in others:
            each.keep()

    def _limits(self, seen: TileSeen, subject: FixSubject) -> Constraints:
        arch = f"sm_{subject.emulated.binary.cubin.sm}"
        limits = Constraints(arch=arch) if arch in candidates.KNOWN else Constraints()
        if self.options.max_shared is None:
            return limits
        taken = sum(array.size for array in subject.placed.values()) + sum(array.size for array in subject.unplaced)
        return replace(limits, max_bytes=max(0, self.options.max_shared - taken) // len(seen.roots))

    def _proved(self, text: WrittenPatch, applied: Sequence[Applied]) -> Proof:
        """Return the proof of a patch; one that fails if it does not compile, or its mapping loses elements."""
        dynamic = self.target.family.shared_memory(self.target.kernel, self.target.problem)
        with rebuilt(self.target, text.text) as after:
            try:
                emulated = emulation.emulate_target(after, self.settings)
                moved = [made.moved(emulated, dynamic) for made in applied]
                useless = self._useless(emulated, moved)
                if useless:  # which the proof would find, too
                    return Proof(claims=(useless,))
                proof = prove(self.target, after, moved, self.context)
                return self.others.judged(proof, emulated.binary.symbol, text.text, after, applied)
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError, StopIteration) as error:
                return result.unbuilt(error)

    def _useless(self, after: Emulated, moved: Sequence[Moved]) -> Claim | None:
        """Return a failed claim if the compiler made other accesses, which cost more than the mapping saves."""
        left = of_launch(after, {made.name: made.after for made in moved})
        more = grown(of_launch(self._original, {}), left)
        return more or next((claim for made in moved if (claim := stays(left, made))), None)


def _because(fixed: TileFix, why: str, line: Location, subject: FixSubject) -> TileFix:
    """Return a tile with the reason why nothing is proved, and where it is."""
    return replace(fixed, reason=why, reason_line=line[1], reason_file=subject.named(line[0]))


def _applied(root: RootSeen, seen: TileSeen, made: Ranked, starts: dict[str, int]) -> Applied:
    """Return a root's mapping, with its bytes as they were before any patch."""
    start = starts.get(root.array.symbol, root.array.start) + root.root.offset
    left = seen.in_launch(made.candidate.excessive)
    before = [other for other in seen.roots if other.array is root.array and other.start < root.start]
    ahead = len(before) if root.root.place.member else None
    return AppliedToTile(
        name=root.root.name,
        symbol=root.array.symbol,
        before=range(start, start + root.size),
        offset=root.root.offset,
        ranked=made,
        left=left,
        ahead=ahead,
    )


def _done(fixed: TileFix, made: Ranked, proof: Proof, names: Sequence[str]) -> TileFix:
    """Return the tile with the mapping that was proved, and the excess of the whole launch."""
    before, after = (
        [excess.moved.get(name) for name in names] if set(names) <= set(excess.moved) else []
        for excess in (proof.before, proof.after)
    )
    return replace(
        fixed,
        mapping=_spelled(made),
        excess_before=sum(n or 0 for n in before) if before and None not in before else fixed.excess_before,
        excess_after=sum(n or 0 for n in after) if after and None not in after else made.candidate.excessive,
        extra_bytes=made.candidate.extra_bytes * len(names),
        proved=True,
    )


def _spelled(made: Ranked) -> str:
    if isinstance(made.transform, RowXor):
        return f"{made.transform} on {unit(made.shape.element_bytes)}"
    if isinstance(made.transform, Swapped):
        return str(made.transform)
    longer = made.transform.every + made.transform.by
    return f"rows of {longer} instead of {made.transform.every} {unit(made.shape.element_bytes)}"


def fix(
    target: Target, options: FixOptions, context: Context, text: bytes | None = None, beside: Sequence[Neighbour] = (),
    applied: tuple[Applied, ...] = (), sources: OtherSources | None = None,
) -> KernelFix:  # fmt: skip
    """Return what fixing a kernel comes to, from its source or, after another kernel's fix, from `text`.

    `beside` are the other kernels of its source, `applied` the mappings of this one's arrays that the text has,
    `sources` those that may include its headers. Raises whatever emulating it raises.
    """
    before = source_of(target) if text is None else text
    settings = EmulationSettings.of(context.request)
    others = OtherKernels(target=target, beside=beside, sources=sources, context=context, settings=settings)
    work = Fixing(
        target=target, options=options, context=context, text=before, settings=settings, others=others, applied=applied
    )
    tiles = tuple(work.tiles())
    return KernelFix(
        kernel=target.name,
        source=target.source,
        before=before,
        after=work.text,
        tiles=tiles,
        proof=work.proof,
        applied=work.applied,
        along=bool(applied),
        others=tuple(work.along.values()),
        unread=() if all(tile.proved for tile in tiles) else unread(target),
    )
