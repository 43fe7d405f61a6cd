"""Other kernels than the one that is fixed: a patch of one must leave them as they are, or be proved for them too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.settings import Context
from ncu_swizzle.fix.candidates import Ranked
from ncu_swizzle.fix.claims import Proof
from ncu_swizzle.fix.excess import NOWHERE, Moved
from ncu_swizzle.fix.proving import prove
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain
from ncu_swizzle.kernels.toolchain import cubin as compiled_cubin
from ncu_swizzle.smem.swizzle import Padding

# A mapping that a source has, as the proof is told of it.


NO_OTHER = "no other mapping that was tried leaves fewer"
FEW_LANES = "a few active lanes are spread over several phases, which takes as many wavefronts under any mapping"


@dataclass(frozen=True, eq=False)
class Applied:
    """A mapping that a source has by now: of an array's bytes before, in the kernel as it was."""

    name: str
    symbol: str
    before: range

    def of(self, array: SharedArray) -> Applied:
        """Return the same for another kernel's array."""
        raise NotImplementedError

    @property
    def array(self) -> str:
        """The array's name in the source."""
        return self.name

    def moved(self, after: Emulated, dynamic: int) -> Moved:
        """Return where the elements have gone; raise ValueError if two share a place."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class AppliedToTile(Applied):
    """A mapping that is written into a tile's declaration and its subscripts."""

    offset: int  # of the tile in the array
    ranked: Ranked
    left: int  # excessive wavefronts of the launch that the mapping leaves
    ahead: int | None = None  # of a struct's array: how many of the same mapping lie before it

    def of(self, array: SharedArray) -> AppliedToTile:
        start = array.start + self.offset
        before = array.span if self.ahead is None else range(start, start + len(self.before))
        return replace(self, symbol=array.symbol, before=before)

    @property
    def array(self) -> str:
        return self.name if self.ahead is None else re.split(r"[.\[]", self.name)[0]

    def moved(self, after: Emulated, dynamic: int) -> Moved:
        arrays = shared_arrays(after.binary.cubin, after.binary.symbol, dynamic)
        array = next(array for array in arrays if array.symbol == self.symbol)
        size, transform = self.ranked.shape.element_bytes, self.ranked.transform
        places = transform(np.arange(len(self.before) // size, dtype=np.int64)) * size
        start = array.start + self.offset
        bytes_ = array.size - self.offset if isinstance(transform, Padding) else len(self.before)
        if self.ahead is not None and isinstance(transform, Padding):
            bytes_ = len(self.before) // transform.every * (transform.every + transform.by)
            start += self.ahead * (bytes_ - len(self.before))
        reason = FEW_LANES if self.ranked.candidate.clean else NO_OTHER
        return Moved(
            name=self.name,
            before=self.before,
            after=range(start, start + bytes_),
            element_bytes=size,
            places=places,
            least=self.left,
            reason=reason if self.left else "",
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AppliedByName(Applied):
    """A mapping that the source names, with the places inferred from the accesses."""

    inferred: Moved
    number: int  # of the arrays of its name

    def of(self, array: SharedArray) -> AppliedByName:
        granules = array.size // self.inferred.element_bytes
        places = np.full(granules, NOWHERE)
        places[: len(self.inferred.places)] = self.inferred.places[:granules]
        before = range(array.start, array.start + granules * self.inferred.element_bytes)
        moved = replace(self.inferred, name=array.name, before=before, places=places)
        return AppliedByName(name=array.name, symbol=array.symbol, before=before, inferred=moved, number=0)

    def moved(self, after: Emulated, dynamic: int) -> Moved:
        arrays = shared_arrays(after.binary.cubin, after.binary.symbol, dynamic)
        named = [array for array in arrays if array.name == self.name][self.number :]
        if not named:
            raise ValueError(f"{self.name} is no array of the new kernel")
        return replace(self.inferred, after=named[0].span)


_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}")  # of a source's path, in names of one file's own


def code_of(target: Target, toolchain: Toolchain, cached: bool) -> Mapping[str, bytes]:
    """Return the code of every kernel in a target's source, by its symbol."""
    code = compiled_cubin(target.family, target.kernel, target.family.arch or ARCH, toolchain, cached)
    cubin = Cubin(code, target.source.name)
    return {_HASH.sub(r"\1", symbol): cubin.section(f".text.{symbol}") for symbol in cubin.kernels}


def changed_code(before: Mapping[str, bytes], after: Mapping[str, bytes], own: str) -> Iterator[str]:
    """Yield the kernels, except for one's own, whose code a patch changes."""
    for symbol, code in before.items():
        if symbol != _HASH.sub(r"\1", own) and after.get(symbol) != code:
            yield symbol


@dataclass(eq=False, kw_only=True)
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
    return Neighbour(target=target, symbol=emulation.emulate_target(target, settings).binary.symbol)
