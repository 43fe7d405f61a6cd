"""Fix a kernel: tile by tile, the cheapest mapping whose patch is proved, else the best that is not refuted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.cycles.simulated import saved_by
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.fix import candidates
from ncu_swizzle.fix.accessors import Both
from ncu_swizzle.fix.candidates import Ranked, RootSeen, TileSeen
from ncu_swizzle.fix.claims import About, Moved, Proof, excess_of
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import Draft, PaddingEdits, swapped
from ncu_swizzle.fix.edits import Edit, Overlap, edited
from ncu_swizzle.fix.named import Naming
from ncu_swizzle.fix.result import KernelFix, TileFix, TriedPatch
from ncu_swizzle.fix.subject import FixSubject, subject_of
from ncu_swizzle.fix.trial import FixJob, Stop, furthest, stop_of
from ncu_swizzle.fix.xor_edits import MatrixEdits, XorEdits
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.smem.access import KIB_PER_SM
from ncu_swizzle.smem.judge import Candidate, Constraints
from ncu_swizzle.smem.swizzle import Padding, RowXor, Swapped, XorMatrix

# Patches of one tile: each mapping in the source, as it would be written by hand first, through an accessor next.

# What a mapping is written into.
COLUMNS, VECTORS, FLAT = "columns", "vectors of columns", "flat"


def written(subject: FixSubject, seen: TileSeen, mapping: Ranked) -> Iterator[tuple[str, bytes | Unfit]]:
    """Yield the texts that a mapping can be written as, or why it cannot be, each with the way of writing."""
    draft, texts = subject.draft(seen), set[bytes]()
    for way in (COLUMNS, VECTORS, FLAT):
        try:
            text = edited(subject.file.text, _edits(draft, mapping, way))
        except Unfit as reason:
            yield way, reason
            continue
        except Overlap:
            yield way, Unfit("two uses of the tile stand within each other", 0)
            continue
        if text != subject.file.text and text not in texts:
            texts.add(text)
            yield way, text


def _edits(draft: Draft, mapping: Ranked, way: str) -> list[Edit]:
    transform, flat = mapping.transform, way == FLAT
    if isinstance(transform, Swapped):
        return swapped(draft)
    if isinstance(transform, Both):
        rows = PaddingEdits(draft=draft, padding=transform.rows).edits()
        xor = _xor_edits(draft, transform.xor, way, transform.rows.every)
        return [*rows, *xor] if way != FLAT and xor else []
    if isinstance(transform, XorMatrix):
        return MatrixEdits(draft=draft, matrix=transform).edits()
    if isinstance(transform, RowXor):
        return _xor_edits(draft, transform, way)
    return PaddingEdits(draft=draft, padding=transform, flat=flat).edits()


def _xor_edits(draft: Draft, xor: RowXor, way: str, now: int = 0) -> list[Edit]:
    return XorEdits(draft=draft, xor=xor, now=now, flat=way == FLAT, vectors=way == VECTORS).edits()


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


NO_OTHER = "no other mapping that was tried leaves fewer"
FEW_LANES = "a few active lanes are spread over several phases, which takes as many wavefronts under any mapping"


_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}")  # of a source's path, in names that are one file's alone


def _symbol(array: SharedArray) -> str:
    """Return the name by which an array is found in another copy of its source."""
    return _HASH.sub(r"\1", array.symbol)


@dataclass(frozen=True, eq=False, kw_only=True)
class Applied:
    """A mapping in the text, of a tile's bytes as they were in the kernel before any patch."""

    root: RootSeen
    before: range
    ranked: Ranked
    left: int  # excessive wavefronts of the launch that the mapping leaves

    def moved(self, arrays: Sequence[SharedArray]) -> Moved:
        """Return where the tile's bytes are in the new kernel. Raises ValueError if the kernel lacks the array."""
        root = self.root
        array = next((array for array in arrays if _symbol(array) == _symbol(root.array)), None)
        if array is None:
            raise ValueError(f"{root.root.label} is not a shared array of the new kernel")
        start, size = array.start + root.root.offset, len(self.before)
        # Padding makes the array longer, and moves whatever of a struct lies behind it: all of it counts.
        after = range(start, start + size)
        if isinstance(self.ranked.transform, Padding | Both):
            after = array.span if root.root.member else range(start, array.start + array.size)
        reason = (FEW_LANES if self.ranked.candidate.clean else NO_OTHER) if self.left else ""
        return Moved(name=root.root.label, before=self.before, after=after, least=self.left, reason=reason)


# A tile that conflicts for random inputs may do so by chance: a mapping has to leave at most this share of its excess,
# which has to be at least that large.
MOST_LEFT, CHANCE = 0.25, 32
OTHERS = 4  # patches to try further, if one is proved but costs blocks per SM, or one is not proved
ATTEMPTS = 10  # patches of one tile that are tried
ALIKE = 3  # patches of one kind that may leave too much before others are tried
Kind = tuple[type, str, bool]  # of a patch: the transform, how it is written, whether it takes vectors apart
UNWRITTEN = "the source does not show where its elements are indexed"


@dataclass(eq=False, kw_only=True)
class FixState:
    """The state of one kernel's fix: the text so far, with what is proved; the mappings in it; what is not proved."""

    job: FixJob
    text: bytes
    candidate: bytes = b""  # with what is not proved
    applied: tuple[Applied, ...] = ()
    proof: Proof | None = None
    unknowns: tuple[UnknownCounts, ...] = ()  # of the kernel as its text was last looked at
    _profiles: dict[bytes, tuple[Profile, ...]] = field(default_factory=dict)  # by text
    _subjects: dict[bytes, FixSubject] = field(default_factory=dict)  # by text

    def tiles(self) -> Iterator[TileFix]:
        """Fix the tiles one by one; yield the outcome of each, then the arrays that are not tiles of this source."""
        naming = Naming(job=self.job)
        named = naming.cheapest()
        if named is not None and named.clean and not self._cost(named):
            yield from self._accepted(named)
            if named.proof.after.total == 0:
                return
            named = None
        tiles = [naming.explained(tile) for tile in self._by_tile()]
        if named is not None and not self.applied and not self._cost(named):
            tiles = list(self._accepted(named))
        elif naming.open is not None and not (self.applied or self.candidate or self.proof):
            self.candidate = naming.open.text
            tiles = list(naming.open.tiles)
        yield from tiles

    def _accepted(self, patch: TriedPatch) -> tuple[TileFix, ...]:
        """Take over a patch that is proved; return what came of its tiles."""
        self.text, self.proof = patch.text, patch.proof
        return patch.tiles

    def _by_tile(self) -> Iterator[TileFix]:
        subject = self._subject(self.text)
        outside = list(left_out(subject, self.proof is not None))
        done = {tile.name for tile in subject.tiles if self.proof and tile.name in self.proof.before.moved}
        results: dict[str, TileFix] = {}
        while (seen := next((tile for tile in subject.conflicting if tile.name not in done), None)) is not None:
            done.add(seen.name)
            fixed, applied = self._patch(subject, seen, self.applied)
            if isinstance(fixed, TileFix):
                results[seen.name] = fixed
            elif not fixed.proof.held:
                (results[seen.name],) = fixed.tiles
            else:
                (results[seen.name],) = self._accepted(fixed)
                self.applied = applied
                if not all(other.name in done for other in subject.conflicting):
                    subject = self._subject(self.text)
        # What is not proved goes into one text, on top of what is.
        text, applied = self.text, self.applied
        for name in [name for name, tile in results.items() if tile.offered]:
            seen = next((tile for tile in self._subject(text).conflicting if tile.name == name), None)
            patch, mappings = self._patch(self._subject(text), seen, applied) if seen else (None, ())
            results[name] = replace(results[name], offered=isinstance(patch, TriedPatch))
            if isinstance(patch, TriedPatch):
                text, applied = patch.text, mappings
                self.candidate = text
        yield from (*results.values(), *outside)

    def _subject(self, text: bytes) -> FixSubject:
        """Return the kernel as a text has it."""
        if text not in self._subjects:
            job = self.job
            self._subjects[text] = subject_of(job.target, text, job.version(text).emulated, job.settings)
        self.unknowns = self._subjects[text].emulated.profile.unknowns
        return self._subjects[text]

    def _starts(self, subject: FixSubject) -> dict[str, int]:
        """Return where the arrays of the kernel as it was began, by their symbols then and now."""
        arrays = self.job.old.arrays
        now = (*subject.placed.values(), *subject.unplaced)
        renamed = {array.symbol: old.start for array in now for old in arrays if array.name == old.name}
        return renamed | {array.symbol: array.start for array in arrays}

    def _patch(
        self, subject: FixSubject, seen: TileSeen, before: tuple[Applied, ...]
    ) -> tuple[TriedPatch | TileFix, tuple[Applied, ...]]:
        """Return the patch of a tile and all mappings with it: proved and cheap, else one that may be right.

        Or the tile with what is in the way. `before` are the mappings that the text has.
        """
        line = subject.at(declared := seen.roots[0].root.declared.line)
        tile, best, named = self._ranked(subject, seen, line)
        if not best:
            return tile, ()
        tile = replace(tile, mapping=str(best[0]), excess_after=seen.in_launch(best[0].candidate.excessive))
        starts, missed = self._starts(subject), self._missed(subject, seen, tile)
        stop: Stop | None = None
        proved: list[tuple[str, TriedPatch, tuple[Applied, ...]]] = []  # with what each costs
        possible: list[tuple[TriedPatch, tuple[Applied, ...]]] = []
        attempts = 0
        failures = Counter[Kind]()
        only = self.job.options.only  # and why what others name is not what is written
        not_named = f"--only {only} leaves it out" if only else "it cannot be written into this source"
        for mapping, way, text in ((each, *one) for each in best for one in written(subject, seen, each)):
            if isinstance(text, Unfit):
                stop = furthest(stop, _unwritten(text, subject.at(text.line or declared), seen, mapping, tile))
                not_named = f"{text}" if mapping.named else not_named
                continue
            kind = type(mapping.transform), way, mapping.narrower
            if failures[kind] >= ALIKE:
                continue
            if attempts >= (OTHERS if proved or possible or missed else ATTEMPTS):
                break
            attempts += 1
            new = tuple(_applied(root, seen, mapping, starts) for root in seen.roots)
            applied = (*before, *new)
            proof = self.job.tried(text, partial(_moved, applied))
            names = [root.root.label for root in seen.roots]
            patch = TriedPatch(text=text, tiles=(_done(tile, mapping, proof, names),), proof=proof)
            if proof.held:
                proved.append((self._cost(patch), patch, applied))
                if not proved[-1][0] and patch.left <= seen.in_launch(mapping.candidate.excessive):
                    break
                continue
            stopped = stop_of(proof, line, str(mapping))
            not_named = stopped.reason if mapping.named else not_named
            stop = furthest(stop, stopped)
            # Another mapping in the same places is wrong, too, or as hard to prove: an index may be longer than a row.
            failures[kind] += 1 if proof.failed(About.EXCESS) and not missed else ALIKE
            if proof.offered:
                (done,) = patch.tiles
                done = _because(
                    replace(done, proved=False, offered=True, unknown=True), stopped.reason, stopped.line, subject
                )
                possible.append((replace(patch, tiles=(done,)), applied))
        if proved:
            cost, cheapest, applied = min(proved, key=lambda each: (bool(each[0]), each[1].left, each[1].fewer_blocks))
            if cost:
                slower = _because(replace(tile, slower=True), f"{cost}: --allow-slower offers it", line, subject)
                return slower, ()
            return _with_other(cheapest, best, named, applied[-1].ranked, not_named), applied
        if possible:
            return possible[0]
        stop = missed or stop or Stop(stage=0, reason=UNWRITTEN, line=line, mapping=tile.mapping)
        return _because(replace(tile, unknown=stop.unknown), stop.against(tile.mapping), stop.line, subject), ()

    def _ranked(
        self, subject: FixSubject, seen: TileSeen, line: Location
    ) -> tuple[TileFix, list[Ranked], Candidate | None]:
        """Return a tile, the mappings for it, and the one that `lint` names; if there are none, the tile says why."""
        tile = TileFix(name=seen.name, line=line[1], excess_before=seen.total, file=subject.named(line[0]))
        only, spelled, advice = self.job.options.only, subject.spelled_bytes(seen), subject.advice(seen)
        named = candidates.named_by(advice)
        limits, sampled = self._limits(seen, subject), subject.emulated.profile.sample is not None
        best, plain = candidates.ranked(seen, subject.shapes(seen), limits, spelled, only, advice, sampled)
        if sampled and advice is not None and advice.plain.clean:
            # What conflicts is chance: a mapping that removes a little of it suits this sample, and no other.
            best = [ranked for ranked in best if MOST_LEFT * seen.total >= seen.in_launch(ranked.candidate.excessive)]
            best = best if seen.total >= CHANCE else []
        if best:
            return tile, best, named
        untried = "no XOR, padding or swap of indices that was tried leaves fewer excessive wavefronts"
        why = untried if plain else "its rows are not known"
        least = advice is not None and named in (None, advice.plain) and advice.complete
        if sampled and advice is not None and advice.plain.clean and not advice.fixed:
            why = "its conflicts depend on data, and no mapping removes most of those of a random sample"
        elif advice is not None and advice.plain.clean:
            why = "; ".join(dict.fromkeys(why for _, why in advice.fixed)) or FEW_LANES
        elif advice is not None and least:
            why = f"none of {advice.tried} frees it of conflicts, and none leaves fewer"
        return _because(replace(tile, least=least), why, line, subject), [], named

    def _missed(self, subject: FixSubject, seen: TileSeen, tile: TileFix) -> Stop | None:
        """Return the first access to a tile that is not followed: if no patch is right, that is what it has missed."""
        if (line := subject.missed(seen)) is None:
            return None
        name = seen.roots[0].root.declared.text
        reason = f"the access in this line is not followed back to the array: index {name} itself there"
        return Stop(stage=0, reason=reason, line=line, mapping=tile.mapping)

    def _cost(self, patch: TriedPatch) -> str:
        """Return why a patch that is proved is not worth having; empty if it is, or is wanted all the same."""
        told = [profile.simulated for profile in self.profiles(patch.text)]
        saved = saved_by(*told) if len(told) > 1 else None
        if self.job.options.slower:
            return ""
        if saved is not None and saved.high < 0:  # within the simulation's error it does not count
            return f"it is proved, but it would take an estimated {-saved.point:.0%} more cycles"
        # Fewer blocks hide less latency; a simulation of both versions knows what that costs.
        if patch.fewer_blocks and not (saved is not None and saved.low >= 0):
            before, after = patch.proof.resources_before, patch.proof.resources_after
            assert before is not None
            assert after is not None
            return f"it is proved, but {after.blocks_per_sm} blocks fit on an SM for {before.blocks_per_sm}"
        return ""

    def profiles(self, text: bytes) -> tuple[Profile, ...]:
        """Return the kernel as it was; if that is simulated, also as a text has it, simulated, too."""
        job, old = self.job, self.job.old.emulated.profile
        if text == job.text or old.simulated is None or old.simulated.cycles is None:
            return (old,)
        if text not in self._profiles:
            self._profiles[text] = old, job.simulated(text)
        return self._profiles[text]

    def _limits(self, seen: TileSeen, subject: FixSubject) -> Constraints:
        arch = f"sm_{subject.emulated.binary.cubin.sm}"
        limits = Constraints(arch=arch) if arch in KIB_PER_SM else Constraints()
        if self.job.options.max_shared is None:
            return limits
        taken = sum(array.size for array in (*subject.placed.values(), *subject.unplaced))
        return replace(limits, max_bytes=max(0, self.job.options.max_shared - taken) // len(seen.roots))


def _with_other(
    patch: TriedPatch, best: Sequence[Ranked], named: Candidate | None, written: Ranked, why: str
) -> TriedPatch:
    """Return the patch with the mapping that `lint` and `explain` name, if it differs, and why it is not used."""
    if named is None or written.named or (named.mapping == named.mapping.plain and not named.was):
        return patch
    (tile,) = patch.tiles
    theirs = next((ranked for ranked in best if ranked.named), None)
    if theirs is not None and theirs.cost > written.cost:
        more = theirs.candidate.extra_bytes - written.candidate.extra_bytes
        why = f"it takes {more:,} bytes more" if more > 0 else "it takes more instructions"
    return replace(patch, tiles=(replace(tile, other=f"lint and explain name {named.spelled}; not written: {why}"),))


def _unwritten(unfit: Unfit, line: Location, seen: TileSeen, mapping: Ranked, tile: TileFix) -> Stop:
    """Return why a mapping cannot be written, and how the source would have to look."""
    name, columns = seen.roots[0].root.declared.text, mapping.shape.columns
    flat = seen.roots[0].root.rank < 2
    wanted = f"{name}[row * {columns} + column]" if flat else f"{name}[row][column]"
    reason = f"{unfit}: index it there as {wanted}"
    return Stop(stage=0, reason=reason, line=line, mapping=tile.mapping)


def _moved(applied: Sequence[Applied], new: Executable) -> list[Moved]:
    return [one.moved(new.arrays) for one in applied]


def _because(tile: TileFix, why: str, line: Location, subject: FixSubject) -> TileFix:
    """Return a tile with the reason why nothing is proved, and where it is."""
    return replace(tile, reason=why, reason_line=line[1], reason_file=subject.named(line[0]))


def _applied(root: RootSeen, seen: TileSeen, mapping: Ranked, starts: dict[str, int]) -> Applied:
    """Return a root's mapping, with its bytes as they were before any patch."""
    start = starts.get(root.array.symbol, root.array.start) + root.root.offset
    left = seen.in_launch(mapping.candidate.excessive)
    return Applied(root=root, before=range(start, start + root.size), ranked=mapping, left=left)


def _done(tile: TileFix, mapping: Ranked, proof: Proof, names: Sequence[str]) -> TileFix:
    """Return the tile with the mapping that was tried, and the excess of the whole launch."""
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


def fix_kernel(job: FixJob, earlier: Sequence[Proof] = ()) -> KernelFix:
    """Return what fixing a kernel comes to; `earlier` are the proofs of the patches that the text has already.

    Raises whatever emulating it raises.
    """
    work = FixState(job=job, text=job.text)
    tiles = tuple(work.tiles())
    symbol = job.old.emulated.binary.symbol
    along = any(one.kernel == symbol and one.mapped for proof in earlier for one in proof.kernels)
    return KernelFix(
        kernel=job.target.name,
        source=job.target.source,
        before=job.text,
        after=work.text,
        candidate=work.candidate,
        tiles=tiles,
        proof=work.proof,
        along=along,
        unknowns=work.unknowns,
        profiles=work.profiles(work.text),
    )
