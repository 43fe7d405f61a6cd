"""Fix a kernel by one name in its source: each patch that names another mapping is built, and the best is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import brief
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import Executable, executable
from ncu_swizzle.fix import claims, cuda, trial
from ncu_swizzle.fix.candidates import MappingKind
from ncu_swizzle.fix.claims import Proof, Resources
from ncu_swizzle.fix.edits import rebuilt
from ncu_swizzle.fix.excess import Moved, excess_of
from ncu_swizzle.fix.named import NamedEdit, named_edits
from ncu_swizzle.fix.names import Names, SharedDeclaration, shared_declarations
from ncu_swizzle.fix.result import TileFix, TriedPatch
from ncu_swizzle.fix.subject import located, shown_file
from ncu_swizzle.fix.trial import FixJob, Stop, furthest

ATTEMPTS = 4  # patches to try
LEFT = "no other mapping that was tried leaves fewer"


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
    """The search for a patch of one kernel; afterwards `stop` says what stopped the best one.

    `open` is the best that is not proved, and not refuted.
    """

    job: FixJob
    stop: Stop | None = None
    open: TriedPatch | None = None

    def cheapest(self) -> TriedPatch | None:
        """Return the cheapest patch that is proved, None if there is none."""
        file = cuda.parse(self.job.text, self.job.target.source.name)
        old = self.job.old
        before = excess_of(old.emulated, {}).total
        if not before:
            return None
        declared = list(shared_declarations(Names(file)))
        kernel = self.job.target.kernel.entry.partition("<")[0].rpartition("::")[2]
        edits = list(named_edits(file, kernel, old, declared))
        built = [made for edit in edits if (made := self._built(edit, claims.resources_of(old))) is not None]
        for made in sorted((made for made in built if made.excess < before), key=lambda made: made.cost)[:ATTEMPTS]:
            patch = self._tried(made, declared)
            if patch is not None and patch.proof.held:
                return patch
            self.open = self.open or patch
        return None

    def _built(self, edit: NamedEdit, taken: Resources) -> BuiltEdit | None:
        """Build a patch; None if it does not compile, or the options exclude it."""
        with rebuilt(self.job.target, edit.text) as copy:
            try:
                new = executable(copy, self.job.settings)
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError) as error:
                reason = f"the patched source does not compile or cannot be emulated: {brief(error)}"
                self._stopped(Stop(stage=trial.WRITTEN, reason=reason, line=self._line(edit), mapping=edit.mapping))
                return None
            left, takes = excess_of(new.emulated, {}).total, claims.resources_of(new)
            loads = sum(instruction.text.count("LDG.") for instruction in new.code.instructions)
            built = BuiltEdit(
                edit=edit, excess=left or 0, resources=takes, instructions=len(new.code.instructions), loads=loads
            )
        kind = MappingKind.PADDING if takes.shared > taken.shared else MappingKind.SWIZZLE
        fits = self.job.options.max_shared is None or takes.shared <= self.job.options.max_shared
        wanted = self.job.options.only in (None, kind) and fits and takes.blocks_per_sm
        return built if wanted and left is not None else None

    def _tried(self, made: BuiltEdit, declared: Sequence[SharedDeclaration]) -> TriedPatch | None:
        """Return a patch that is proved, or may be right; None if it is refuted."""
        proof = self.job.tried(made.edit.text, partial(_moved, self.job.old))
        if proof.held:
            return TriedPatch(text=made.edit.text, tiles=tuple(self._tiles(proof, declared, made.edit)), proof=proof)
        stop = trial.stop_of(proof, self._line(made.edit), made.edit.mapping)
        self._stopped(stop)
        if not proof.offered:
            return None
        file, line = stop.line
        tiles = tuple(
            replace(
                tile, proved=False, offered=True, unknown=True, reason=stop.reason, reason_line=line,
                reason_file=shown_file(self.job.target, file),
            )
            for tile in self._tiles(proof, declared, made.edit)
        )  # fmt: skip
        return TriedPatch(text=made.edit.text, tiles=tiles, proof=proof)

    def _stopped(self, stop: Stop) -> None:
        self.stop = furthest(self.stop, stop)

    def _line(self, edit: NamedEdit) -> Location:
        return located(self.job.target, self.job.text, edit.line)

    def _tiles(self, proof: Proof, declared: Sequence[SharedDeclaration], edit: NamedEdit) -> Iterator[TileFix]:
        """Yield the outcome for each array that conflicted, at the line of its declaration or else of the patch."""
        before, after = proof.resources_before, proof.resources_after
        taken = after.shared - before.shared if before and after else 0
        for name, excess in proof.before.moved.items():
            lines = (d.declared.line for d in declared if d.name == name)
            file, number = located(self.job.target, self.job.text, next(lines, edit.line))
            yield TileFix(
                name=name,
                line=number,
                excess_before=excess or 0,
                mapping=edit.mapping,
                excess_after=proof.after.moved.get(name) or 0,
                extra_bytes=taken,
                proved=True,
                file=shown_file(self.job.target, file),
            )

    def explained(self, tile: TileFix) -> TileFix:
        """Return a tile that is not fixed, with what stopped the best patch if its proof says more."""
        if tile.proved or tile.offered or self.stop is None or self.stop.stage <= trial.WRITTEN:
            return tile
        file, line = self.stop.line
        return replace(
            tile, mapping=self.stop.mapping, reason=self.stop.reason, unknown=self.stop.unknown, reason_line=line,
            reason_file=shown_file(self.job.target, file),
        )  # fmt: skip


def _moved(old: Executable, new: Executable) -> list[Moved]:
    """Return the arrays that conflict, by their names in the source, with their bytes in both versions."""
    spans: dict[str, list[range]] = {}
    for array in new.arrays:
        spans.setdefault(array.name, []).append(array.span)
    excess = excess_of(old.emulated, {array.symbol: array.span for array in old.arrays}).moved
    pairs = ((array, excess[array.symbol], spans.get(array.name)) for array in old.arrays)
    every = [(array, now.pop(0)) for array, conflicts, now in pairs if conflicts and now]
    left = excess_of(new.emulated, {array.name: after for array, after in every}).moved
    return [
        Moved(name=array.name, before=array.span, after=after, least=left[array.name] or 0, reason=LEFT)
        for array, after in every
    ]
