"""The other kernels of a source: a patch of one must leave them as they are, or be proved for them too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.build import compiled
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.shared_arrays import shared_arrays
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix.applied import Applied
from ncu_swizzle.fix.claims import Proof
from ncu_swizzle.fix.proof import prove

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
    """Another kernel of the same source whose launch is described, and the mappings that its arrays have by now."""

    target: Target
    symbol: str
    applied: tuple[Applied, ...] = ()
    tried: tuple[Applied, ...] = ()

    def proved(self, after: Target, applied: Sequence[Applied], context: Context, settings: EmulationSettings) -> Proof:
        """Return the proof for this kernel of a patch made for another one; raise ValueError if elements are lost."""
        dynamic = self.target.family.shared_memory(self.target.kernel, self.target.problem)
        copied = replace(self.target.family, folder=after.family.folder, options=after.family.options)
        same = replace(self.target, family=copied)
        was, now = (emulation.emulate_target(target, settings) for target in (self.target, same))
        arrays = {array.name: array for array in shared_arrays(was.binary.cubin, was.binary.symbol, dynamic)}
        self.tried = (
            *self.applied,
            *(
                made.of(arrays[made.array])
                for made in applied
                if made.array in arrays and made.name not in {own.name for own in self.applied}
            ),
        )
        return prove(self.target, same, [made.moved(now, dynamic) for made in self.tried], context)

    def keep(self, tried: tuple[Applied, ...]) -> None:
        """Keep the mappings of the patch that is in the source now."""
        self.applied, self.tried = tried or self.applied, ()


def neighbour(target: Target, settings: EmulationSettings) -> Neighbour:
    return Neighbour(target, emulation.emulate_target(target, settings).binary.symbol)
