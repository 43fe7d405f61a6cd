"""Fix a kernel by one name in its source: each patch that names another mapping is built, and the best is proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.executable import Executable, executable
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.fix import stops
from ncu_swizzle.fix.inferred import Unplaced, inferred
from ncu_swizzle.fix.named_edits import NamedEdit, in_words, named_edits
from ncu_swizzle.fix.other_kernels import KeptKernel, OtherKernels
from ncu_swizzle.fix.result import TileFix
from ncu_swizzle.fix.stops import Stop, furthest
from ncu_swizzle.patch.applied import AppliedByName
from ncu_swizzle.patch.candidates import MappingKind
from ncu_swizzle.patch.locations import located, shown_file
from ncu_swizzle.patch.rebuilt import rebuilt
from ncu_swizzle.proof import resources
from ncu_swizzle.proof.claims import Proof, Resources
from ncu_swizzle.proof.excess import of_launch
from ncu_swizzle.proof.moved import Moved
from ncu_swizzle.proof.proving import prove_version
from ncu_swizzle.source import cuda
from ncu_swizzle.source.arrays import SharedDeclaration, shared_declarations
from ncu_swizzle.source.scopes import Scopes

ATTEMPTS = 4  # patches to prove


@dataclass(frozen=True, eq=False)
class NamedFix:
    """A patch that names another mapping, with its proof and what it does to the arrays."""

    text: bytes
    tiles: tuple[TileFix, ...]
    applied: tuple[AppliedByName, ...]
    proof: Proof
    others: tuple[KeptKernel, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing is left of the excess of what moved."""
        return not any(tile.excess_after for tile in self.tiles)


@dataclass(frozen=True, eq=False)
class BuiltEdit:
    """A patch that compiles: what it leaves, and what it takes."""

    edit: NamedEdit
    excess: int
    resources: Resources
    instructions: int
    loads: int  # from global memory: of a mapping that is looked up

    @property
    def shared(self) -> int:
        return self.resources.shared_static + self.resources.shared_dynamic

    @property
    def cost(self) -> tuple[int, ...]:
        """The order of candidates: excess, look-ups, shared memory, blocks, instructions, registers, size."""
        taken = self.resources
        small = (self.instructions, taken.registers, self.edit.size)
        return self.excess, self.loads, self.shared, -taken.blocks_per_sm, *small


@dataclass(eq=False)
class Naming:
    """The search for a patch of one kernel; afterwards `stop` says what was in the way of the best one."""

    target: Target
    text: bytes
    only: MappingKind | None
    max_shared: int | None
    context: Context
    settings: EmulationSettings
    others: OtherKernels
    stop: Stop | None = None
    tried: int = 0

    def fix(self) -> NamedFix | None:
        """Return the cheapest patch that is proved, None if there is none."""
        file = cuda.parse(self.text, self.target.source.name)
        old = executable(self.target, self.settings)
        before = of_launch(old.emulated, {}).total
        if not before:
            return None
        scopes = Scopes(file)
        declared = list(shared_declarations(scopes))
        kernel = self.target.kernel.entry.partition("<")[0].rpartition("::")[2]
        edits, escapes = named_edits(scopes, kernel, old, declared)
        if escapes is not None:
            mapping, reason = escapes
            line = located(self.target, self.text, reason.line)
            self.stop = Stop(stops.WRITTEN + 1, f"{mapping} is not named instead: {reason}", line, mapping)
        built = [made for edit in edits if (made := self._built(edit, resources.resources(old))) is not None]
        for made in sorted((made for made in built if made.excess < before), key=lambda made: made.cost)[:ATTEMPTS]:
            fixed = self._proved(old, made, declared)
            if fixed is not None:
                return fixed
        return None

    def _built(self, edit: NamedEdit, taken: Resources) -> BuiltEdit | None:
        """Build a patch; None if it does not compile, or is not what is asked for."""
        with rebuilt(self.target, edit.text) as copy:
            try:
                new = executable(copy, self.settings)
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError) as error:
                self._stopped(stops.unbuilt(error), edit, edit.mapping)
                return None
            left, takes = of_launch(new.emulated, {}).total, resources.resources(new)
            loads = sum(each.text.count("LDG.") for each in new.code.instructions)
            made = BuiltEdit(edit, left or 0, takes, len(new.code.instructions), loads)
        kind = MappingKind.PADDING if made.shared > taken.shared_static + taken.shared_dynamic else MappingKind.SWIZZLE
        fits = self.max_shared is None or made.shared <= self.max_shared
        wanted = self.only in (None, kind) and fits and takes.blocks_per_sm
        return made if wanted and left is not None else None

    def _proved(self, old: Executable, made: BuiltEdit, declared: Sequence[SharedDeclaration]) -> NamedFix | None:
        mapping = made.edit.mapping
        self.tried += 1
        with rebuilt(self.target, made.edit.text) as copy:
            try:
                new = executable(copy, self.settings)
                moved = inferred(old, new, self.settings.toolchain.timeout_s)
                mapping = in_words(mapping, moved)
                applied = tuple(_applied(each, old) for each in moved)
                proof = prove_version(old, copy, moved, self.settings)
                proof = self.others.judged(proof, new.emulated.binary.symbol, made.edit.text, copy, applied)
            except Unplaced as error:
                proof = Proof((replace(error.claim, line=self._line(made.edit)),))
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError, StopIteration) as error:
                proof = stops.unbuilt(error)
        if not proof.held:
            self._stopped(proof, made.edit, mapping)
            return None
        tiles = tuple(self._tiles(moved, proof, mapping, declared, made.edit))
        return NamedFix(made.edit.text, tiles, applied, proof, self.others.kept)

    def _stopped(self, proof: Proof, edit: NamedEdit, mapping: str) -> None:
        self.stop = furthest(self.stop, stops.unproved(proof, self._line(edit), mapping))

    def _line(self, edit: NamedEdit) -> Location:
        return located(self.target, self.text, edit.line)

    def _tiles(
        self, moved: Sequence[Moved], proof: Proof, mapping: str, declared: Sequence[SharedDeclaration], edit: NamedEdit
    ) -> Iterator[TileFix]:
        """Yield what came of each array; its line is that of its declaration, else that of the patch."""
        for each in moved:
            lines = (d.declared.start_point[0] + 1 for d in declared if d.name == each.name)
            file, number = located(self.target, self.text, next(lines, edit.line))
            before, after = proof.before.moved.get(each.name), proof.after.moved.get(each.name)
            extra = len(each.after) - len(each.before)
            yield TileFix(
                each.name, number, before or 0, mapping, after or 0, extra, proved=True, tried=self.tried,
                file=shown_file(self.target, file),
            )  # fmt: skip

    def explained(self, tile: TileFix) -> TileFix:
        """Return a tile that is not fixed, with what stopped the best patch if its proof says more."""
        if tile.proved or self.stop is None or self.stop.stage <= stops.WRITTEN:
            return tile
        file, line = self.stop.line
        return replace(
            tile, mapping=self.stop.mapping, reason=self.stop.reason, unknown=self.stop.unknown, reason_line=line,
            reason_file=shown_file(self.target, file), tried=tile.tried + self.tried,
        )  # fmt: skip


def _applied(moved: Moved, old: Executable) -> AppliedByName:
    array = next(array for array in old.arrays if array.start == moved.before.start)
    named = [other for other in old.arrays if other.name == array.name]
    return AppliedByName(moved.name, array.symbol, moved.before, moved, named.index(array))
