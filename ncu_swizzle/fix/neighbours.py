"""Other kernels than the one that is fixed: a patch of one must leave them as they are, or be proved for them too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.build import compiled
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.patch.applied import Applied
from ncu_swizzle.proof.claims import Proof
from ncu_swizzle.proof.proving import prove

_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}")  # of a source's path, in names of one file's own


def code_of(target: Target, toolchain: Toolchain, cached: bool) -> Mapping[str, bytes]:
    """Return the code of every kernel in a target's source, by its symbol."""
    code = compiled.cubin(target.family, target.kernel, target.family.arch or ARCH, toolchain, cached)
    cubin = Cubin(code, target.source.name)
    return {_HASH.sub(r"\1", symbol): cubin.section(f".text.{symbol}") for symbol in cubin.kernels}


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes], own: str) -> Iterator[str]:
    """Yield the kernels, except for one's own, whose code a patch changes."""
    for symbol, code in before.items():
        if symbol != _HASH.sub(r"\1", own) and after.get(symbol) != code:
            yield symbol


@dataclass(eq=False)
class Neighbour:
    """Another kernel whose launch is described, and the mappings that its arrays have by now."""

    target: Target
    symbol: str
    applied: tuple[Applied, ...] = ()
    tried: tuple[Applied, ...] = ()

    def proved(self, after: Target, applied: Sequence[Applied], context: Context, settings: EmulationSettings) -> Proof:
        """Return the proof for this kernel of a patch made for another one; raise ValueError if elements are lost.

        `after` is this kernel with the patch.
        """
        dynamic = self.target.family.shared_memory(self.target.kernel, self.target.problem)
        was, now = (emulation.emulate_target(target, settings) for target in (self.target, after))
        arrays = shared_arrays(was.binary.cubin, was.binary.symbol, dynamic)
        proof: Proof | None = None
        for tried in self._mappings(arrays, applied):
            self.tried = tried
            made = prove(self.target, after, [each.moved(now, dynamic) for each in self.tried], context)
            proof = proof or made
            if made.held:
                return made
        assert proof is not None
        return proof

    def _mappings(self, arrays: Sequence[SharedArray], applied: Sequence[Applied]) -> Iterator[tuple[Applied, ...]]:
        """Yield the mappings that its arrays may have by a patch: those of their names, or of their sizes, or none."""
        fresh = [made for made in applied if made.name not in {own.name for own in self.applied}]
        named = [made.of(array) for made in fresh for array in arrays if array.name == made.array]
        sized = [made.of(array) for made in fresh for array in arrays if array.size == len(made.before)]
        yield (*self.applied, *(named or sized))
        if named or sized:
            yield self.applied

    def keep(self, tried: tuple[Applied, ...]) -> None:
        """Keep the mappings of the patch that is in the source now."""
        self.applied, self.tried = tried or self.applied, ()


def neighbour(target: Target, settings: EmulationSettings) -> Neighbour:
    return Neighbour(target, emulation.emulate_target(target, settings).binary.symbol)
