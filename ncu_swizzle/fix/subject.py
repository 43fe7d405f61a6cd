"""What a fix works on: a kernel's source, the tiles in it, and what the emulator saw of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings, emulate_cubin
from ncu_swizzle.fix import cuda, edits
from ncu_swizzle.fix.candidates import Shape, TileSeen, tiles_seen, within
from ncu_swizzle.fix.cuda import CudaFile, Unfit
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.frames import tiles_of
from ncu_swizzle.fix.names import BYTES, Names, SharedDeclaration, shared_declarations, sizes_of
from ncu_swizzle.fix.probes import Known, answer, known_of
from ncu_swizzle.fix.walking import Walk
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.operations import LINE
from ncu_swizzle.smem.suggestions import Suggestion

ROUNDS = 3  # of asking the compiler: what it answers may lead to another question

# Lines of a text with spliced headers, as the cubin and the user name them.


def located(target: Target, text: bytes, line: int) -> Location:
    """Return a line of the text as the cubin names it: its file, and its number there."""
    file, number = edits.places(limits.plain(target.source), text)[line - 1]
    return file.relative_to(limits.plain(target.family.root)).as_posix(), number


def shown_file(target: Target, file: str) -> str:
    """Return the path of a file that the cubin names, from the source's folder; empty if it is the source."""
    root, source = (limits.plain(path) for path in (target.family.root, target.source))
    path = os.path.normpath(root / file)
    return "" if path == str(source) else os.path.relpath(path, source.parent)


@dataclass(frozen=True, eq=False, kw_only=True)
class FixSubject:
    """A kernel with its source taken apart."""

    target: Target
    emulated: Emulated
    file: CudaFile
    placed: Mapping[int, SharedArray]  # arrays of the binary, by the declared identifier
    tiles: tuple[TileSeen, ...]  # the worst first
    known: Known
    unplaced: tuple[SharedArray, ...]  # whose declaration is not in the source
    certain: Profile  # with what holds for all data alone, if those that the emulator had were drawn

    def at(self, line: int) -> Location:
        """Return a line of the text as the cubin names it: its file, and its number there."""
        return located(self.target, self.file.text, line)

    def named(self, file: str) -> str:
        """Return the path of a file that the cubin names, from the source's folder; empty if it is the source."""
        return shown_file(self.target, file)

    @property
    def conflicting(self) -> tuple[TileSeen, ...]:
        return tuple(tile for tile in self.tiles if tile.excess)

    def missed(self, seen: TileSeen) -> Location | None:
        """Return the line of the worst access to a tile that the source's walk has not come to; None if there is none.

        Of a header that is not the user's, it is the line that leads there.
        """
        found = {self.at(line) for access in seen.tile.accesses for line in access.lines}
        own = {file for file, _ in found}
        accesses = sorted(self.emulated.profile.shared(), key=lambda access: -(access.excessive or 0))
        for access in accesses:
            requests = self.emulated.counts.requests.get(access.pc)
            reaches = requests is not None and any(within(requests, root.start, root.end) for root in seen.roots)
            if reaches and access.stack and found.isdisjoint(access.stack):
                return next((at for at in access.stack if at[0] in own), access.stack[0])
        return None

    def advice(self, seen: TileSeen) -> Suggestion | None:
        """Return what `lint` and `explain` find for a tile; None if they see several tiles in it, or none."""
        profile, root = self.certain, seen.roots[0]
        tiles = [tile for tile in attribution.tiles(profile) if tile.first < root.end and tile.end > root.start]
        if len(tiles) != 1 or tiles[0].first != root.start:
            return None
        try:
            return tiles[0].suggestion(attribution.constraints(profile))
        except UsageError:
            return None

    def draft(self, seen: TileSeen) -> Draft:
        """Return a tile for the writers of a patch."""
        element = self.element_bytes(seen)
        accesses = seen.tile.accesses
        units = {step.unit: access for access in accesses for step in access.steps}
        units |= {access.unit: access for access in accesses}
        return Draft(
            file=self.file,
            tile=seen.tile,
            constants=self.known.constants,
            element_bytes=element,
            declared_bytes=self._declared(seen) or element,
            unit_bytes={
                unit: self.known.unit_bytes(unit, self.known.place(access.node, access.frame))
                for unit, access in units.items()
                if unit
            },
        )

    def ask(self, seen: TileSeen) -> None:
        """Ask the compiler for what the patches of a tile depend on: sizes, and what is constant in its indices."""
        self.shapes(seen)
        draft, constants = self.draft(seen), self.known.constants
        for root in seen.roots:
            for size in sizes_of(root.root.declared, self.file):
                constants.value(size, self.known.walk.kernel)
        for access in seen.tile.accesses:
            for step in access.steps:
                draft.terms(step, draft.home(access))
            if access.leading:
                constants.terms(access.leading, access.frame)

    def _declared(self, seen: TileSeen) -> int | None:
        return self.known.element_bytes(*seen.roots[0].root.shape)

    def element_bytes(self, seen: TileSeen) -> int:
        """Return the bytes that a mapping counts: an element's as declared, or of the narrowest access."""
        return min(self._declared(seen) or seen.narrowest, seen.narrowest)

    def spelled_bytes(self, seen: TileSeen) -> int:
        """Return the widest access in the source, in bytes; wider ones are the compiler's."""
        draft, most = self.draft(seen), 1
        for access in seen.tile.accesses:
            plain = access.node.type not in ("call_expression", "gnu_asm_input_operand")
            plain = plain or access.node.called.startswith("atomic") or access.pointer.rank == 0
            if not plain or access.unit == BYTES:
                return seen.widest
            try:
                most = max(most, draft.size(access.steps[-1].unit if access.steps else access.unit, access.node))
            except Unfit:
                return seen.widest
        return most

    def shapes(self, seen: TileSeen) -> list[Shape]:
        """Return how the rows of a tile may lie: as declared, or as its indices say."""
        element, (declared, rank) = self.element_bytes(seen), seen.roots[0].root.shape
        strides = self._strides(seen)
        if rank < 2:
            strides |= self._declared_rows(seen) | {LINE}
            size = max(root.size for root in seen.roots)
            return [
                Shape(columns=stride // element, rows=0, element_bytes=element)
                for stride in sorted(strides)
                if 2 * stride <= size and stride % element == 0 and stride > element
            ]
        bytes_ = self._declared(seen) or element
        columns = self.known.row(declared, rank - 1) * bytes_ // element
        rows = self.known.row(declared, rank - 2)
        shapes = [Shape(columns=columns, rows=rows, element_bytes=element)] if columns > 1 else []
        # Rows may also lie behind each other in the last dimension, as in ``t[2][32 * 32]``.
        lengths = sorted({stride // element for stride in strides if stride % element == 0})
        shapes += [
            Shape(columns=length, rows=columns // length, element_bytes=element)
            for length in lengths
            if 1 < length < columns and columns % length == 0
        ]
        return shapes

    def _declared_rows(self, seen: TileSeen) -> set[int]:
        """Return the bytes of a row by the types of a flat tile's pointers, such as ``float (*p)[32]``."""
        draft, lengths = self.draft(seen), set[int]()
        for declared in seen.tile.named:
            sizes = sizes_of(declared, self.file)
            length = self.known.constants.value(sizes[-1], self.known.walk.kernel) if sizes else None
            lengths |= {length * draft.declared_bytes} if length else set()
        return lengths

    def _strides(self, seen: TileSeen) -> set[int]:
        """Return the strides that a tile's indices contain, in bytes."""
        draft, strides = self.draft(seen), set[int]()
        drafts = draft, replace(draft, constants=self.known.launched)  # rows may be as long as the launch says
        for access in seen.tile.accesses:
            for step in (step for step in access.steps if step.rank == 1):
                try:
                    unit = draft.size(step.unit, access.node)
                except Unfit:
                    continue
                terms = (term for made in drafts for term in made.terms(step) if term.variable)
                strides |= {abs(term.constant) * unit for term in terms}
        return strides


def subject_of(target: Target, text: bytes, emulated: Emulated, settings: EmulationSettings) -> FixSubject:
    """Return a kernel taken apart, as a text has it; `emulated` is that text's."""
    certain = emulated.profile
    if certain.sample is not None:
        undrawn = replace(target, family=replace(target.family, sample=None))
        certain = emulate_cubin(undrawn, emulated.binary.cubin.data, settings=settings).profile
    arrays = shared_arrays(emulated.binary.cubin, emulated.binary.symbol, target.launch.shared)
    file = cuda.parse(text, target.source.name)
    names = Names(file)
    every = tuple(shared_declarations(names))
    walk = Walk(names, every, target.kernel.entry.partition("<")[0].rpartition("::")[2])
    placed = _placed(arrays, every)
    known = known_of(target, walk)

    def subject() -> FixSubject:
        accesses = [access for access in walk.accesses.values() if access.pointer.array.declared.id in placed]
        tiles = tiles_of(accesses, known.offsets, known.members)
        return FixSubject(
            target=target,
            emulated=emulated,
            file=file,
            placed=placed,
            tiles=tuple(tiles_seen(tiles, placed, emulated)),
            known=known,
            unplaced=tuple(array for array in arrays if array not in placed.values()),
            certain=certain,
        )

    asked = -1
    for _ in range(ROUNDS):
        now = subject()
        for seen in now.tiles:
            now.ask(seen)
        if len(known.asked) == asked:
            return now
        asked = len(known.asked)
        answer(known, settings)
    return subject()


def _placed(arrays: tuple[SharedArray, ...], every: tuple[SharedDeclaration, ...]) -> dict[int, SharedArray]:
    """Return the array of the binary for each declaration that it comes from, by the declared identifier."""
    placed: dict[int, SharedArray] = {}
    for array in arrays:
        named = [d for d in every if d.name == array.name and d.declared.id not in placed]
        # Of several with one name, the one whose function is part of the array's symbol.
        holders = ((d, d.statement.above("function_definition").function_declarator.part("declarator")) for d in named)
        within = [d for d, holder in holders if holder and holder.text.rpartition("::")[2] in array.symbol]
        for declaration in (within or named)[:1]:
            placed[declaration.declared.id] = array
    return placed
