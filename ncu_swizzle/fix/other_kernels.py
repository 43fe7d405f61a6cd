"""What a patch does to other kernels than the one that is fixed: of its source, and of those that include a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.demangled import demangle
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import neighbours
from ncu_swizzle.fix.neighbours import Neighbour
from ncu_swizzle.fix.other_sources import OtherSources
from ncu_swizzle.fix.result import OtherKernel
from ncu_swizzle.patch.applied import Applied
from ncu_swizzle.patch.headers import source_of
from ncu_swizzle.patch.rebuilt import files_of, rebuilt
from ncu_swizzle.proof.claims import About, Claim, Proof, State


@dataclass(frozen=True, eq=False)
class KeptKernel:
    """Another kernel that a patch was proved for, and the mappings that its arrays have with it."""

    neighbour: Neighbour
    tried: tuple[Applied, ...]
    elsewhere: bool  # of another source

    def keep(self) -> None:
        """Note that the patch is in the source now."""
        self.neighbour.keep(self.tried)

    @property
    def shown(self) -> OtherKernel:
        return OtherKernel(self.neighbour.target.name, self.neighbour.target.source, bool(self.tried))


@dataclass(eq=False)
class OtherKernels:
    """The kernels beside one in its source, and in the others of its project."""

    target: Target
    beside: Sequence[Neighbour]
    sources: OtherSources | None
    context: Context
    settings: EmulationSettings
    _codes: Mapping[str, bytes] | None = field(default=None, init=False)  # of all kernels in the source as it was
    _elsewhere: Sequence[Neighbour] = field(default=(), init=False)  # that the last patch is proved for

    def judged(self, proof: Proof, own: str, text: bytes, after: Target, applied: Sequence[Applied]) -> Proof:
        """Return the proof of a patch with what it breaks here, or may break; one that does not hold stays as it is.

        `own` is the symbol of the kernel that is proved, `after` that kernel with the patch.
        """
        if not proof.held:
            return proof
        self._elsewhere = ()
        stopped = self._in_source(own, text, after, applied) or self._in_others(text, applied)
        return replace(proof, claims=(*proof.claims, stopped)) if stopped else proof

    @property
    def kept(self) -> tuple[KeptKernel, ...]:
        """What the last patch was proved for."""
        beside = (KeptKernel(each, each.tried, elsewhere=False) for each in self.beside)
        return (*beside, *(KeptKernel(each, each.tried, elsewhere=True) for each in self._elsewhere))

    def _in_source(self, own: str, text: bytes, after: Target, applied: Sequence[Applied]) -> Claim | None:
        for each in self.beside:
            each.tried = ()
        toolchain, cached = self.settings.toolchain, self.settings.cached
        if self._codes is None:
            self._codes = neighbours.code_of(self.target, toolchain, cached)
        for symbol in neighbours.changed(self._codes, neighbours.code_of(after, toolchain, cached), own):
            known = next((other for other in self.beside if other.symbol == symbol), None)
            if known is None:
                reason = f"the patch changes {demangle(symbol)} too, of which no launch is described"
                return Claim(About.MEANING, State.UNKNOWN, reason)
            with rebuilt(known.target, text) as copy:
                proof = known.proved(copy, applied, self.context, self.settings)
            if not proof.held:
                reason = f"the patch changes {demangle(symbol)} too, for which it is not proved"
                return Claim(About.MEANING, proof.state, reason)
        return None

    def _in_others(self, text: bytes, applied: Sequence[Applied]) -> Claim | None:
        if self.sources is None:
            return None
        before, after = (files_of(self.target, each) for each in (source_of(self.target), text))
        changed = {file: made for file, made in after.items() if before.get(file) != made}
        stopped, self._elsewhere = self.sources.stopped(changed, applied, self.context)
        return stopped
