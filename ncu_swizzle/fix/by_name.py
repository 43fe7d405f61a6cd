"""Fix a kernel by one name in its source: each patch that names another mapping is built, and the best is proved."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.emulate.accesses import Contended
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.tracing import Version, side_by_side
from ncu_swizzle.engines.emulation import Executable, executable
from ncu_swizzle.fix import claims, cuda, result
from ncu_swizzle.fix.applied import NO_OTHER, AppliedByName
from ncu_swizzle.fix.candidates import MappingKind
from ncu_swizzle.fix.claims import Proof, Resources, Unplaced
from ncu_swizzle.fix.edits import rebuilt
from ncu_swizzle.fix.excess import NOWHERE, SPACE, Moved, excess_of
from ncu_swizzle.fix.named import NamedEdit, named_edits
from ncu_swizzle.fix.result import FixJob, ProvedPatch, Stop, TileFix, furthest
from ncu_swizzle.fix.rows import Numbers, Rows, instruction_rows
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration, shared_declarations
from ncu_swizzle.fix.subject import located, shown_file
from ncu_swizzle.smem.operations import Ints

# Where elements went, inferred from both versions' accesses: for patches that do not say it themselves.
#
# Nothing is believed of it: a place that the accesses do not agree on is refused here, and what is inferred is proved
# like any other mapping.

ENOUGH = 1 << 22  # accesses to units that the places are inferred from
LARGEST = 16  # bytes of an element: the widest access of a lane
_FACTORS = np.random.default_rng(0).integers(1, 1 << 63, 5, np.uint64) | np.uint64(1)  # that hash accesses
_LAST = np.uint64(0x9E3779B97F4A7C15)


def inferred(old: Executable, new: Executable, timeout_s: float) -> list[Moved]:
    """Return the arrays whose elements have other places; raise Unplaced if these are not one to each."""
    arrays = list(paired(old.arrays, new.arrays))
    places = _Places(old=old, new=new, arrays=arrays)
    try:
        places.learn(timeout_s)
    except Contended as error:
        raise Unplaced("lanes want the same word of shared memory in a loop of compare-and-swap", True) from error
    except ProgramFailed as error:
        raise Unplaced(str(error), True) from error
    if (found := places.signed(lines=True)) is None and (found := places.signed(lines=False)) is None:
        raise Unplaced(places.contradiction)
    return [moved for pair in arrays if (moved := _moved(*pair, found, places.unit, new)) is not None]


def paired(old: Sequence[SharedArray], new: Sequence[SharedArray]) -> Iterator[tuple[SharedArray, SharedArray]]:
    """Yield the arrays of both versions by their names in the source, several of one name in their order."""
    named: dict[str, list[SharedArray]] = {}
    for array in new:
        named.setdefault(array.name, []).append(array)
    if not old or Counter(array.name for array in old) != Counter(array.name for array in new):
        raise Unplaced("it is not known where its shared arrays lie before and after", unknown=True)
    for array in old:
        yield array, named[array.name].pop(0)


@dataclass(eq=False, kw_only=True)
class _Places:
    """What both versions access: where, and by which thread in which line; `found` is the new place of an old byte."""

    old: Executable
    new: Executable
    arrays: Sequence[tuple[SharedArray, SharedArray]]
    unit: int = LARGEST
    seen: list[tuple[Rows, Rows]] = field(default_factory=list)
    contradiction: str = "the accesses do not agree on one place for each element"

    def learn(self, timeout_s: float) -> None:
        """Trace both versions in blocks that stand for all of the grid."""
        clock, kinds, lines = Clock(timeout_s=timeout_s), Numbers(), Numbers()
        versions = [Version(each.code, each.launch(None), clock) for each in (self.old, self.new)]
        tables = instruction_rows(self.old, self.new, versions, kinds, lines)
        widths = np.concatenate([table.width for table in tables])
        starts = [array.start for pair in self.arrays for array in pair]
        self.unit = functools.reduce(math.gcd, [*map(int, widths[widths > 0]), *starts], LARGEST)
        for pair in side_by_side(*versions):
            for trace in (pair.first, pair.second):
                if trace.unknown:
                    raise Unplaced(trace.unknown[min(trace.unknown)], unknown=True)
            both = (pair.first, pair.second)
            first, second = (Rows.of(t.accesses, table, self.unit) for t, table in zip(both, tables, strict=True))
            self.seen.append((first, second))
            if sum(len(rows) for rows, _ in self.seen) > ENOUGH:  # what other blocks access is proved all the same
                return

    def signed(self, lines: bool) -> Ints | None:
        """Pair the elements that the same threads access between the same barriers, in the same lines if asked for."""
        old, new = (_signatures([rows[side] for rows in self.seen], lines) for side in (0, 1))
        (places, signs), (others, other_signs) = old, new
        order, other = np.argsort(signs, kind="stable"), np.argsort(other_signs, kind="stable")
        if len(signs) == len(other_signs) and (signs[order] == other_signs[other]).all():
            return _table(places[order], others[other])
        lost = np.flatnonzero(~np.isin(signs, other_signs))
        at = int(places[lost].min()) if len(lost) else -1
        array = next((old for old, _ in self.arrays if at in old.span), None)
        if array is not None:
            element = f"{array.name}[{(at - array.start) // self.unit}]"
            self.contradiction = f"the accesses do not agree on one place for {element}, of {self.unit} bytes"
        return None


def _table(old: Ints, new: Ints) -> Ints:
    found = np.full(SPACE, NOWHERE, np.int64)
    found[old] = new
    return found


def _signatures(seen: Sequence[Rows], lines: bool) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    """Return the accessed elements in the order of their first access, [element], and a hash of what accesses each."""
    total, first = np.zeros(SPACE, np.uint64), np.full(SPACE, -1, np.int64)
    for number, rows in enumerate(seen):
        key = np.full(len(rows), number, np.uint64)
        columns = (rows.block, rows.thread, rows.epoch, rows.kind, *([rows.line] if lines else []))
        for factor, column in zip(_FACTORS, columns, strict=False):
            key = (key ^ column.astype(np.uint64)) * factor
            key ^= key >> np.uint64(29)
        # Of an access that is repeated, only the first counts: the compiler may keep what it has read.
        _, once = np.unique(key ^ rows.at.astype(np.uint64) * _LAST, return_index=True)
        # The sum of the hashes of an element's accesses, as their order may differ. Elements with equal sums are
        # paired; should that be wrong, the proof fails.
        np.add.at(total, rows.at[once], key[once])
        fresh = np.sort(once[first[rows.at[once]] < 0])[::-1]  # the earliest is written last
        # In the order of execution over all traced pairs: the pair's number, then the row in it.
        first[rows.at[fresh]] = (number << 32) + fresh
    places = np.flatnonzero(first >= 0)
    places = places[np.argsort(first[places], kind="stable")]
    return places, total[places]


def _moved(old: SharedArray, new: SharedArray, found: Ints, unit: int, version: Executable) -> Moved | None:
    """Return where the elements of an array went; None if it stays as it is, as far as it is accessed."""
    count = old.size // unit
    places = found[old.start : old.start + count * unit : unit]
    known = places != NOWHERE
    places = np.where(known, places - new.start, NOWHERE)
    if ((places[known] < 0) | (places[known] + unit > new.size)).any():
        raise Unplaced(f"an element of {old.name} has gone to another array")
    same = (places[known] == np.arange(count)[known] * unit).all()
    if same and (old.symbol == new.symbol or not known.any()):
        return None
    size = _element(places, unit)
    whole = places.reshape(-1, size // unit)[:, 0]
    left = excess_of(version.emulated, {"": new.span}).moved[""] or 0
    return Moved(
        name=old.name,
        before=range(old.start, old.start + count * unit),
        after=new.span,
        element_bytes=size,
        places=whole,
        least=left,
        reason=NO_OTHER if left else "",
    )


def _element(places: Ints, unit: int) -> int:
    """Return the most bytes that move as one, all of them accessed or none."""
    size = unit
    while size * 2 <= LARGEST and len(places) % (size * 2 // unit) == 0:
        parts = places.reshape(-1, size * 2 // unit)
        steps = np.arange(parts.shape[1]) * unit
        nowhere = (parts == NOWHERE).all(axis=1)
        whole = ((parts == parts[:, :1] + steps) & (parts != NOWHERE)).all(axis=1) & (parts[:, 0] % (size * 2) == 0)
        if not (nowhere | whole).all():
            break
        size *= 2
    return size


ATTEMPTS = 4  # patches to prove


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltEdit:
    """A patch that compiles: what it leaves, and what it takes."""

    edit: NamedEdit
    excess: int
    resources: Resources
    instructions: int
    loads: int  # from global memory: of a mapping that is looked up

    @property
    def cost(self) -> tuple[int, ...]:
        """The order of candidates: excess, look-ups, shared memory, blocks, instructions, registers, size."""
        taken = self.resources
        small = (self.instructions, taken.registers, self.edit.size)
        return self.excess, self.loads, taken.shared, -taken.blocks_per_sm, *small


@dataclass(eq=False, kw_only=True)
class Naming:
    """The search for a patch of one kernel; afterwards `stop` says what was in the way of the best one."""

    job: FixJob
    stop: Stop | None = None

    def cheapest(self) -> ProvedPatch | None:
        """Return the cheapest patch that is proved, None if there is none."""
        file = cuda.parse(self.job.text, self.job.target.source.name)
        old = self.job.old
        before = excess_of(old.emulated, {}).total
        if not before:
            return None
        scopes = Scopes(file)
        declared = list(shared_declarations(scopes))
        kernel = self.job.target.kernel.entry.partition("<")[0].rpartition("::")[2]
        edits, escapes = named_edits(scopes, kernel, old, declared)
        if escapes is not None:
            mapping, reason = escapes
            line = located(self.job.target, self.job.text, reason.line)
            self.stop = Stop(
                stage=result.WRITTEN + 1, reason=f"{mapping} is not named instead: {reason}", line=line, mapping=mapping
            )
        built = [made for edit in edits if (made := self._built(edit, claims.resources_of(old))) is not None]
        for made in sorted((made for made in built if made.excess < before), key=lambda made: made.cost)[:ATTEMPTS]:
            fixed = self._proved(made, declared)
            if fixed is not None:
                return fixed
        return None

    def _built(self, edit: NamedEdit, taken: Resources) -> BuiltEdit | None:
        """Build a patch; None if it does not compile, or is not what is asked for."""
        with rebuilt(self.job.target, edit.text) as copy:
            try:
                new = executable(copy, self.job.settings)
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError) as error:
                self._stopped(result.unbuilt(error), edit, edit.mapping)
                return None
            left, takes = excess_of(new.emulated, {}).total, claims.resources_of(new)
            loads = sum(each.text.count("LDG.") for each in new.code.instructions)
            made = BuiltEdit(
                edit=edit, excess=left or 0, resources=takes, instructions=len(new.code.instructions), loads=loads
            )
        kind = MappingKind.PADDING if takes.shared > taken.shared else MappingKind.SWIZZLE
        fits = self.job.options.max_shared is None or takes.shared <= self.job.options.max_shared
        wanted = self.job.options.only in (None, kind) and fits and takes.blocks_per_sm
        return made if wanted and left is not None else None

    def _proved(self, made: BuiltEdit, declared: Sequence[SharedDeclaration]) -> ProvedPatch | None:
        old, moved = self.job.old, list[Moved]()

        def applied(new: Executable) -> list[AppliedByName]:
            moved.extend(inferred(old, new, self.job.settings.toolchain.timeout_s))
            return [_applied(each, old) for each in moved]

        proof, mappings, others = self.job.proved(made.edit.text, applied)
        if not proof.held:
            self._stopped(proof, made.edit, made.edit.mapping)
            return None
        tiles = tuple(self._tiles(moved, proof, declared, made.edit))
        return ProvedPatch(text=made.edit.text, tiles=tiles, applied=mappings, proof=proof, others=others)

    def _stopped(self, proof: Proof, edit: NamedEdit, mapping: str) -> None:
        self.stop = furthest(self.stop, result.unproved(proof, self._line(edit), mapping))

    def _line(self, edit: NamedEdit) -> Location:
        return located(self.job.target, self.job.text, edit.line)

    def _tiles(
        self, moved: Sequence[Moved], proof: Proof, declared: Sequence[SharedDeclaration], edit: NamedEdit
    ) -> Iterator[TileFix]:
        """Yield what came of each array; its line is that of its declaration, else that of the patch."""
        for each in moved:
            lines = (d.declared.line for d in declared if d.name == each.name)
            file, number = located(self.job.target, self.job.text, next(lines, edit.line))
            before, after = proof.before.moved.get(each.name), proof.after.moved.get(each.name)
            extra = len(each.after) - len(each.before)
            yield TileFix(
                name=each.name,
                line=number,
                excess_before=before or 0,
                mapping=edit.mapping,
                excess_after=after or 0,
                extra_bytes=extra,
                proved=True,
                file=shown_file(self.job.target, file),
            )

    def explained(self, tile: TileFix) -> TileFix:
        """Return a tile that is not fixed, with what stopped the best patch if its proof says more."""
        if tile.proved or self.stop is None or self.stop.stage <= result.WRITTEN:
            return tile
        file, line = self.stop.line
        return replace(
            tile, mapping=self.stop.mapping, reason=self.stop.reason, unknown=self.stop.unknown, reason_line=line,
            reason_file=shown_file(self.job.target, file),
        )  # fmt: skip


def _applied(moved: Moved, old: Executable) -> AppliedByName:
    array = next(array for array in old.arrays if array.start == moved.before.start)
    named = [other for other in old.arrays if other.name == array.name]
    return AppliedByName(
        name=moved.name, symbol=array.symbol, before=moved.before, inferred=moved, number=named.index(array)
    )
