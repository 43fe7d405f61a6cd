"""Fix a kernel: tile by tile, the cheapest mapping whose patch is proved, else the best that is not refuted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cycles.simulated import saved_by
from ncu_swizzle.fix import candidates, trial
from ncu_swizzle.fix.accessors import Both
from ncu_swizzle.fix.candidates import Ranked, TileSeen
from ncu_swizzle.fix.claims import About, Proof, excess_of, spans_of
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import Draft, PaddingEdits, swapped
from ncu_swizzle.fix.edits import Edit, Overlap, edited
from ncu_swizzle.fix.named import NamedPatch, cheapest
from ncu_swizzle.fix.result import KernelFix, TileFix, TriedPatch
from ncu_swizzle.fix.subject import FixSubject, located, shown_file, subject_of
from ncu_swizzle.fix.trial import FixJob, Stop, furthest, stop_of
from ncu_swizzle.fix.xor_edits import MatrixEdits, XorEdits
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.smem.access import KIB_PER_SM
from ncu_swizzle.smem.judge import Candidate, Constraints
from ncu_swizzle.smem.swizzle import RowXor, Swapped, XorMatrix

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
        xor = XorEdits(draft=draft, xor=transform.xor, now=transform.rows.every, vectors=way == VECTORS).edits()
        return [*rows, *xor] if way != FLAT and xor else []
    if isinstance(transform, XorMatrix):
        return MatrixEdits(draft=draft, matrix=transform).edits()
    if isinstance(transform, RowXor):
        return XorEdits(draft=draft, xor=transform, flat=flat, vectors=way == VECTORS).edits()
    return PaddingEdits(draft=draft, padding=transform, flat=flat).edits()


FEW_LANES = "a few active lanes are spread over several phases, which takes as many wavefronts under any mapping"
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
    """The state of one kernel's fix: the text so far, with what is proved, and what is not proved."""

    job: FixJob
    text: bytes
    candidate: bytes = b""  # with what is not proved
    proof: Proof | None = None
    unknowns: tuple[UnknownCounts, ...] = ()  # of the kernel as its text was last looked at
    _profiles: dict[bytes, tuple[Profile, ...]] = field(default_factory=dict)  # by text
    _subjects: dict[bytes, FixSubject] = field(default_factory=dict)  # by text

    def tiles(self) -> Iterator[TileFix]:
        """Fix the tiles one by one; yield the outcome of each, then the arrays that are not tiles of this source."""
        named, stop = cheapest(self.job)
        patch = self._named(named) if named else None
        held = patch is not None and patch.proof.held and not self._cost(patch)
        if patch and held and not patch.left:
            yield from self._accepted(patch)
            if patch.proof.after.total == 0:
                return
        tiles = [self._explained(tile, stop) for tile in self._by_tile()]
        if patch and held and self.text == self.job.text:
            tiles = list(self._accepted(patch))
        elif patch and patch.proof.offered and not (patch.proof.held or self.candidate or self.proof):
            self.candidate, tiles = patch.text, list(patch.tiles)
        yield from tiles

    def _accepted(self, patch: TriedPatch) -> tuple[TileFix, ...]:
        """Take over a patch that is proved; return what came of its tiles."""
        self.text, self.proof = patch.text, patch.proof
        return patch.tiles

    def _named(self, named: NamedPatch) -> TriedPatch:
        """Return a patch that names another mapping, with what comes of each array."""
        proof, job = named.proof, self.job
        before, after = proof.resources_before, proof.resources_after
        taken = after.shared - before.shared if before and after else 0
        tiles: list[TileFix] = []
        for name, excess in proof.before.moved.items():
            file, number = located(job.target, job.text, named.lines.get(name, named.edit.line))
            tile = TileFix(
                name=name, line=number, excess_before=excess or 0, mapping=named.edit.mapping,
                excess_after=proof.after.moved[name] or 0, extra_bytes=taken, file=shown_file(job.target, file),
            )  # fmt: skip
            tiles.append(replace(tile, proved=True) if named.stop is None else self._offered(tile, named.stop))
        return TriedPatch(text=named.text, tiles=tuple(tiles), proof=proof)

    def _explained(self, tile: TileFix, stop: Stop | None) -> TileFix:
        """Return a tile that is not fixed, with what stopped the best naming of another mapping if that says more."""
        if tile.proved or tile.offered or stop is None or stop.stage <= trial.WRITTEN:
            return tile
        return self._because(replace(tile, mapping=stop.mapping, unknown=stop.unknown), stop.reason, stop.line)

    def _because(self, tile: TileFix, why: str, line: Location) -> TileFix:
        """Return a tile with the reason why nothing is proved, and where it is."""
        return replace(tile, reason=why, reason_line=line[1], reason_file=shown_file(self.job.target, line[0]))

    def _offered(self, tile: TileFix, stop: Stop) -> TileFix:
        return self._because(replace(tile, offered=True, unknown=True), stop.reason, stop.line)

    def _by_tile(self) -> Iterator[TileFix]:
        subject = self._subject(self.text)
        outside = list(self._left_out(subject))
        moved = self.proof.before.moved if self.proof else {}
        done = {seen.name for seen in subject.tiles if any(root.array.name in moved for root in seen.roots)}
        results: dict[str, TileFix] = {}
        while (seen := next((tile for tile in subject.conflicting if tile.name not in done), None)) is not None:
            done.add(seen.name)
            fixed = self._patch(subject, seen)
            if isinstance(fixed, TileFix):
                results[seen.name] = fixed
            elif not fixed.proof.held:
                (results[seen.name],) = fixed.tiles
            else:
                (results[seen.name],) = self._accepted(fixed)
                if not all(other.name in done for other in subject.conflicting):
                    subject = self._subject(self.text)
        # What is not proved goes into one text, on top of what is.
        text = self.text
        for name in [name for name, tile in results.items() if tile.offered]:
            subject = self._subject(text)
            seen = next((tile for tile in subject.conflicting if tile.name == name), None)
            patch = self._patch(subject, seen) if seen else None
            results[name] = replace(results[name], offered=isinstance(patch, TriedPatch))
            if isinstance(patch, TriedPatch):
                self.candidate = text = patch.text
        yield from (*results.values(), *outside)

    def _subject(self, text: bytes) -> FixSubject:
        """Return the kernel as a text has it."""
        if text not in self._subjects:
            job = self.job
            self._subjects[text] = subject_of(job.target, text, job.version(text).emulated, job.settings)
        self.unknowns = self._subjects[text].emulated.profile.unknowns
        return self._subjects[text]

    # What conflicts in a kernel, but not in an array that its source declares: the kernel is not clean.

    def _left_out(self, subject: FixSubject) -> Iterator[TileFix]:
        """Yield the arrays with excess that the source does not declare, or whatever else of it is in no tile."""
        launch = excess_of(subject.emulated, spans_of((*subject.unplaced, *subject.placed.values())))
        outside = [array.name for array in subject.unplaced if launch.moved[array.name] != 0]
        for name in outside:
            why = f"{name} is not declared in {subject.target.source.name}, nor in a header that is rewritten with it"
            yield self._refused(subject, name, launch.moved[name], why)
        # What mappings in the source leave is not asked for again.
        if not (outside or self.proof or subject.conflicting) and launch.total != 0:
            name = next((name for name, excess in launch.moved.items() if excess != 0), "shared memory")
            unknown = "the wavefronts of some accesses are unknown"
            why = unknown if launch.total is None else f"no index in {subject.file.name} accounts for it"
            yield self._refused(subject, name, launch.total, why)

    def _refused(self, subject: FixSubject, name: str, excess: int | None, why: str) -> TileFix:
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

    # The patches of a tile, one after the other.

    def _patch(self, subject: FixSubject, seen: TileSeen) -> TriedPatch | TileFix:
        """Return the patch of a tile: proved and cheap, else one that may be right; or the tile with what stops it."""
        line = subject.at(declared := seen.roots[0].root.declared.line)
        tile, best, named = self._ranked(subject, seen, line)
        if not best:
            return tile
        tile = replace(tile, mapping=str(best[0]), excess_after=seen.in_launch(best[0].candidate.excessive))
        missed = self._missed(subject, seen, tile)
        spans = spans_of(self.job.version(subject.file.text).arrays)
        excess, own = excess_of(subject.emulated, spans).moved, [root.array.span for root in seen.roots]
        aimed = {name: excess[name] for name, span in spans.items() if span in own and excess[name] != 0}
        stop: Stop | None = None
        proved: list[tuple[str, TriedPatch, Ranked]] = []  # with what each costs
        possible: list[TriedPatch] = []
        attempts, failures = 0, Counter[Kind]()
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
            proof = self.job.tried(text, aimed)
            patch = TriedPatch(text=text, tiles=(_done(tile, seen, mapping, aimed, proof),), proof=proof)
            if proof.held:
                proved.append((self._cost(patch), patch, mapping))
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
                possible.append(replace(patch, tiles=(self._offered(replace(done, proved=False), stopped),)))
        if proved:
            cost, cheapest_, mapping = min(proved, key=lambda each: (bool(each[0]), each[1].left, each[1].fewer_blocks))
            if cost:
                return self._because(replace(tile, slower=True), f"{cost}: --allow-slower offers it", line)
            return _with_other(cheapest_, best, named, mapping, not_named)
        if possible:
            return possible[0]
        stop = missed or stop or Stop(stage=0, reason=UNWRITTEN, line=line, mapping=tile.mapping)
        return self._because(replace(tile, unknown=stop.unknown), stop.against(tile.mapping), stop.line)

    def _ranked(
        self, subject: FixSubject, seen: TileSeen, line: Location
    ) -> tuple[TileFix, list[Ranked], Candidate | None]:
        """Return a tile, the mappings for it, and the one that `lint` names; if there are none, the tile says why."""
        file = shown_file(self.job.target, line[0])
        tile = TileFix(name=seen.name, line=line[1], excess_before=seen.total, file=file)
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
        why = "no XOR, padding or swap of indices that was tried leaves fewer excessive wavefronts"
        why = why if plain else "its rows are not known"
        least = advice is not None and named in (None, advice.plain) and advice.complete
        if sampled and advice is not None and advice.plain.clean and not advice.fixed:
            why = "its conflicts depend on data, and no mapping removes most of those of a random sample"
        elif advice is not None and advice.plain.clean:
            why = "; ".join(dict.fromkeys(why for _, why in advice.fixed)) or FEW_LANES
        elif advice is not None and least:
            why = f"none of {advice.tried} frees it of conflicts, and none leaves fewer"
        return self._because(replace(tile, least=least), why, line), [], named

    def _missed(self, subject: FixSubject, seen: TileSeen, tile: TileFix) -> Stop | None:
        """Return the first access to a tile that is not followed: if no patch is right, that is what it has missed."""
        if (line := subject.missed(seen)) is None:
            return None
        name = seen.roots[0].root.declared.text
        reason = f"the access in this line is not followed back to the array: index {name} itself there"
        return Stop(stage=0, reason=reason, line=line, mapping=tile.mapping)

    def _cost(self, patch: TriedPatch) -> str:
        """Return why a patch that is proved is not worth having; empty if it is, or is wanted all the same."""
        if self.job.options.slower:
            return ""
        told = [profile.simulated for profile in self.profiles(patch.text)]
        saved = saved_by(*told) if len(told) > 1 else None
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


def _done(tile: TileFix, seen: TileSeen, mapping: Ranked, aimed: Mapping[str, int | None], proof: Proof) -> TileFix:
    """Return the tile with the mapping that was tried, and what is left: by how much its arrays' excess fell."""
    fell = [(before, proof.after.moved.get(name)) for name, before in aimed.items()]
    left = seen.in_launch(mapping.candidate.excessive)
    if all(before is not None and after is not None for before, after in fell):
        left = max(0, seen.total - sum((before or 0) - (after or 0) for before, after in fell))
    extra = mapping.candidate.extra_bytes * len(seen.roots)
    return replace(tile, mapping=str(mapping), excess_after=left, extra_bytes=extra, proved=True)


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
