"""Fix a kernel: tile by tile, the cheapest mapping whose patch is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import Executable, emulate_target
from ncu_swizzle.engines.settings import ALWAYS
from ncu_swizzle.fix import candidates
from ncu_swizzle.fix.applied import Applied, AppliedByName, AppliedToTile
from ncu_swizzle.fix.by_name import Naming
from ncu_swizzle.fix.candidates import Ranked, RootSeen, TileSeen
from ncu_swizzle.fix.claims import Proof
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import Draft, PaddingEdits, Swapped, swapped
from ncu_swizzle.fix.edits import Edit, Overlap, edited, rebuilt, source_of, unread
from ncu_swizzle.fix.excess import excess_of
from ncu_swizzle.fix.guard import guard, unobstructed
from ncu_swizzle.fix.result import FixJob, KernelFix, ProvedPatch, Stop, TileFix, furthest, unproved
from ncu_swizzle.fix.subject import FixSubject, subject_of
from ncu_swizzle.fix.xor_edits import XorEdits
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.smem.swizzle import RowXor

# Patches of one tile: each mapping in the source, as it would be written by hand first, through an accessor next.

COLUMNS, FACTORS, FLAT = "columns", "factors of columns", "flat"  # what a mapping is written into


def written(subject: FixSubject, seen: TileSeen, mapping: Ranked) -> Iterator[bytes | Unfit]:
    """Yield the texts that a mapping can be written as, or why it cannot be."""
    launched, plain = subject.launched(seen), subject.draft(seen)
    # What is right for rows of any length comes first; the other asks launches for one, see `xor_edits`.
    ways = [(launched, COLUMNS)] if launched is not None else []
    texts: set[bytes] = set()
    for draft, way in ((plain, COLUMNS), (plain, FACTORS), (plain, FLAT), *ways):
        try:
            edits = _edits(subject, draft, mapping, way)
            guard(draft, mapping.transform, edits, way == FLAT)
            text = edited(subject.file.text, edits)
        except Unfit as reason:
            yield reason
            continue
        except Overlap:
            yield Unfit("two uses of the tile stand within each other", 0)
            continue
        if text != subject.file.text and text not in texts:
            texts.add(text)
            yield text


def _edits(subject: FixSubject, draft: Draft, mapping: Ranked, way: str) -> list[Edit]:
    transform, flat = mapping.transform, way == FLAT
    unobstructed(draft, transform)
    if isinstance(transform, Swapped):
        return swapped(draft)
    if isinstance(transform, RowXor):
        return XorEdits(draft=draft, xor=transform, flat=flat, factors=way == FACTORS).edits()
    return PaddingEdits(draft=draft, padding=transform, declarations=subject.declarations, flat=flat).edits()


# What conflicts in a kernel, but not in an array that its source declares: the kernel is not clean.


def left_out(subject: FixSubject, mapped: bool) -> Iterator[TileFix]:
    """Yield the arrays with excess that the source does not declare, or whatever else of it is in no tile.

    With `mapped`, the source has mappings by now, and what they leave is not asked for again.
    """
    arrays = (*subject.unplaced, *subject.placed.values())
    launch = excess_of(subject.emulated, {array.name: array.span for array in arrays})
    outside = [array.name for array in subject.unplaced if launch.moved[array.name] != 0]
    for name in outside:
        why = f"{name} is not declared in {subject.target.source.name}, nor in a header that is rewritten with it"
        yield _refused(subject, name, launch.moved[name], why)
    if not (outside or mapped or subject.conflicting) and launch.total != 0:
        name = next((name for name, excess in launch.moved.items() if excess != 0), "shared memory")
        unknown = "the wavefronts of some accesses are unknown"
        why = unknown if launch.total is None else f"no index in {subject.file.name} accounts for it"
        yield _refused(subject, name, launch.total, why)


def _refused(subject: FixSubject, name: str, excess: int | None, why: str) -> TileFix:
    """Return the worst access through which the source reaches an array: its own line, and where it leads."""
    tile = TileFix(name=name, line=1, excess_before=excess or 0, unknown=excess is None, reason=why, reason_line=1)
    accesses = [access for access in subject.emulated.profile.shared() if access.excessive != 0 and access.stack]
    if not accesses:
        return tile
    stack = max(accesses, key=lambda access: access.excessive or 0).stack
    source = subject.target.source.name
    line = next((number for path, number in stack if PurePath(path).name == source), 1)
    inner, number = PurePath(stack[0][0]).name, stack[0][1]
    there = "" if inner == source else f"; the access is at {inner}:{number}"
    return replace(tile, line=line, reason=f"{why}{there}", reason_line=line)


OTHERS = 4  # patches to rebuild, if one is proved but costs blocks per SM
ATTEMPTS = 8  # patches of one tile that are rebuilt
UNWRITTEN = "the source does not show where its elements are indexed"


@dataclass(eq=False, kw_only=True)
class FixState:
    """The state of one kernel's fix: the text so far, the mappings in it, the last proof."""

    job: FixJob
    text: bytes
    applied: tuple[Applied, ...] = ()
    proof: Proof | None = None
    unknowns: tuple[UnknownCounts, ...] = ()  # of the kernel as its text was last looked at

    def tiles(self) -> Iterator[TileFix]:
        """Fix one tile after the other; yield what came of each, then what is no tile of this source."""
        naming = Naming(job=self.job)
        named = naming.cheapest() if not self.applied else None
        if named is not None and named.clean:
            yield from self._accepted(named)
            if named.proof.after.total == 0:
                return
            named = None
        tiles = [naming.explained(tile) for tile in self._by_tile()]
        if named is not None and not self.applied:
            tiles = list(self._accepted(named))
        yield from tiles

    def _accepted(self, patch: ProvedPatch) -> tuple[TileFix, ...]:
        """Take over a patch; return what came of its tiles."""
        self.text, self.proof = patch.text, patch.proof
        self.applied = (*self.applied, *patch.applied)
        for other in patch.others:
            other.keep()
        return patch.tiles

    def _by_tile(self) -> Iterator[TileFix]:
        subject = self._subject()
        outside = list(left_out(subject, bool(self.applied)))
        starts = self._starts(subject)
        done = {mapping.name for mapping in self.applied if isinstance(mapping, AppliedByName)}
        while (seen := next((tile for tile in subject.conflicting if tile.name not in done), None)) is not None:
            done.add(seen.name)
            fixed = self._patch(subject, seen, starts)
            if isinstance(fixed, TileFix):
                yield fixed
                continue
            yield from self._accepted(fixed)
            if all(other.name in done for other in subject.conflicting):
                break
            subject = self._subject()
        yield from outside

    def _subject(self) -> FixSubject:
        """Return the kernel as the text has it by now."""
        target, settings = self.job.target, self.job.settings
        if self.text == source_of(target):
            subject = subject_of(target, self.text, settings)
        else:
            with rebuilt(target, self.text) as copy:
                subject = replace(subject_of(copy, self.text, settings), target=target)
        self.unknowns = subject.emulated.profile.unknowns
        return subject

    def _starts(self, subject: FixSubject) -> dict[str, int]:
        """Return where the arrays of the kernel as it was began, by their symbols then and now."""
        arrays = self.job.old.arrays
        now = (*subject.placed.values(), *subject.unplaced)
        renamed = {array.symbol: old.start for array in now for old in arrays if array.name == old.name}
        return renamed | {array.symbol: array.start for array in arrays}

    def _patch(self, subject: FixSubject, seen: TileSeen, starts: dict[str, int]) -> ProvedPatch | TileFix:
        """Return the proved patch of a tile that costs the fewest blocks, or the tile with what is in the way."""
        line = subject.at(declared := seen.roots[0].root.place.declared.line)
        tile = TileFix(name=seen.name, line=line[1], excess_before=seen.total, file=subject.named(line[0]))
        only, spelled = self.job.options.only, subject.spelled_bytes(seen)
        best, plain = candidates.ranked(seen, subject.shapes(seen), self._limits(seen, subject), spelled, only)
        if not best:
            untried = "no XOR, padding or swap of indices that was tried leaves fewer excessive wavefronts"
            return _because(tile, untried if plain else "its rows are not known", line, subject)
        tile = replace(tile, mapping=str(best[0]), excess_after=seen.in_launch(best[0].candidate.excessive))
        stop: Stop | None = None
        proved: list[ProvedPatch] = []
        attempts = 0
        for mapping, text in ((ranked, text) for ranked in best for text in written(subject, seen, ranked)):
            if isinstance(text, Unfit):
                at = subject.at(text.line or declared)
                stop = furthest(stop, Stop(stage=0, reason=str(text), line=at, mapping=tile.mapping))
                continue
            if attempts >= (ATTEMPTS if not proved else OTHERS):
                break
            attempts += 1
            applied = tuple(_applied(root, seen, mapping, starts) for root in seen.roots)
            proof, _, others = self.job.proved(text, _known(*self.applied, *applied))
            if proof.held:
                done = _done(tile, mapping, proof, [root.root.name for root in seen.roots])
                patch = ProvedPatch(text=text, tiles=(done,), applied=applied, proof=proof, others=others)
                proved.append(patch)
                if not patch.fewer_blocks:
                    break
                continue
            stop = furthest(stop, unproved(proof, line, str(mapping)))
            attempts += (
                ATTEMPTS // 2 if stop.unknown else 0
            )  # the data decide, whatever the mapping: few more are tried
        if proved:
            return min(proved, key=lambda patch: patch.fewer_blocks)
        stop = stop or Stop(stage=0, reason=UNWRITTEN, line=line, mapping=tile.mapping)
        return _because(replace(tile, unknown=stop.unknown), stop.against(tile.mapping), stop.line, subject)

    def _limits(self, seen: TileSeen, subject: FixSubject) -> Constraints:
        arch = f"sm_{subject.emulated.binary.cubin.sm}"
        limits = Constraints(arch=arch) if arch in candidates.KNOWN else Constraints()
        if self.job.options.max_shared is None:
            return limits
        taken = sum(array.size for array in (*subject.placed.values(), *subject.unplaced))
        return replace(limits, max_bytes=max(0, self.job.options.max_shared - taken) // len(seen.roots))


def _known(*mappings: Applied) -> Callable[[Executable], Sequence[Applied]]:
    """Return mappings that are known without the new kernel."""
    return lambda new: mappings


def _because(tile: TileFix, why: str, line: Location, subject: FixSubject) -> TileFix:
    """Return a tile with the reason why nothing is proved, and where it is."""
    return replace(tile, reason=why, reason_line=line[1], reason_file=subject.named(line[0]))


def _applied(root: RootSeen, seen: TileSeen, mapping: Ranked, starts: dict[str, int]) -> Applied:
    """Return a root's mapping, with its bytes as they were before any patch."""
    start = starts.get(root.array.symbol, root.array.start) + root.root.offset
    before = [other for other in seen.roots if other.array is root.array and other.start < root.start]
    return AppliedToTile(
        name=root.root.name,
        symbol=root.array.symbol,
        before=range(start, start + root.size),
        offset=root.root.offset,
        ranked=mapping,
        left=seen.in_launch(mapping.candidate.excessive),
        ahead=len(before) if root.root.place.member else None,
    )


def _done(tile: TileFix, mapping: Ranked, proof: Proof, names: Sequence[str]) -> TileFix:
    """Return the tile with the mapping that was proved, and the excess of the whole launch."""
    before, after = (
        [excess.moved.get(name) for name in names] if set(names) <= set(excess.moved) else []
        for excess in (proof.before, proof.after)
    )
    return replace(
        tile,
        mapping=str(mapping),
        excess_before=sum(n or 0 for n in before) if before and None not in before else tile.excess_before,
        excess_after=sum(n or 0 for n in after) if after and None not in after else mapping.candidate.excessive,
        extra_bytes=mapping.candidate.extra_bytes * len(names),
        proved=True,
    )


def _profiles(job: FixJob, text: bytes) -> tuple[Profile, ...]:
    """Return the kernel as it was; if that is simulated, also as the text has it now, simulated, too."""
    old = job.old.emulated.profile
    if text == job.text or old.simulated is None or old.simulated.cycles is None:
        return (old,)
    with rebuilt(job.target, text) as after:
        return old, emulate_target(after, replace(job.settings, cycles=ALWAYS)).profile


def fix_kernel(job: FixJob, applied: tuple[Applied, ...] = ()) -> KernelFix:
    """Return what fixing a kernel comes to; `applied` are the mappings of its arrays that the text has already.

    Raises whatever emulating it raises.
    """
    work = FixState(job=job, text=job.text, applied=applied)
    tiles = tuple(work.tiles())
    return KernelFix(
        kernel=job.target.name,
        source=job.target.source,
        before=job.text,
        after=work.text,
        tiles=tiles,
        proof=work.proof,
        applied=work.applied,
        along=bool(applied),
        unknowns=work.unknowns,
        profiles=_profiles(job, work.text),
        unread=() if all(tile.proved for tile in tiles) else unread(job.target),
    )
