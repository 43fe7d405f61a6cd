"""Mappings already applied to a source, and the other kernels that a patch must leave unchanged or be proved for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.fix.candidates import Ranked
from ncu_swizzle.fix.claims import Proof
from ncu_swizzle.fix.excess import NOWHERE, Moved
from ncu_swizzle.fix.proving import prove
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import ARCH, cubin
from ncu_swizzle.smem.swizzle import Padding

# A mapping that a source has, as the proof is given it.

NO_OTHER = "no other mapping that was tried leaves fewer"
FEW_LANES = "a few active lanes are spread over several phases, which takes as many wavefronts under any mapping"


@dataclass(frozen=True, eq=False)
class Applied:
    """A mapping already applied to a source: of an array's bytes before, in the kernel as it was."""

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

    def moved(self, arrays: Sequence[SharedArray]) -> Moved:
        """Return where the elements have gone; `arrays` are the new kernel's. Raises ValueError if two share a place.

        Raises StopIteration if the new kernel does not have the array.
        """
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

    def moved(self, arrays: Sequence[SharedArray]) -> Moved:
        array = next(array for array in arrays if array.symbol == self.symbol)
        size, transform = self.ranked.shape.element_bytes, self.ranked.transform
        places = transform(np.arange(len(self.before) // size, dtype=np.int64)) * size
        start = array.start + self.offset
        bytes_ = array.size - self.offset if isinstance(transform, Padding) else len(self.before)
        if self.ahead is not None and isinstance(transform, Padding):
            # Arrays of a struct, one behind the other: each padded one ahead moves this one by as much as it grew.
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

    def moved(self, arrays: Sequence[SharedArray]) -> Moved:
        named = [array for array in arrays if array.name == self.name][self.number :]
        if not named:
            raise ValueError(f"{self.name} is no array of the new kernel")
        return replace(self.inferred, after=named[0].span)


def arrays_of(target: Target, emulated: Emulated) -> tuple[SharedArray, ...]:
    """Return the shared arrays of a version of a kernel that was emulated, as far as they are known."""
    dynamic = target.launch.shared
    return shared_arrays(emulated.binary.cubin, emulated.binary.symbol, dynamic)


_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}")  # of a source's path, in names of one file's own


def code_of(target: Target, settings: EmulationSettings) -> Mapping[str, bytes]:
    """Return the code of every kernel in a target's source, by its symbol."""
    arch = target.family.arch or ARCH
    binary = Cubin(cubin(target.family, target.kernel, arch, settings.toolchain, settings.cached), target.source.name)
    return {_HASH.sub(r"\1", symbol): binary.section(f".text.{symbol}") for symbol in binary.kernels}


def changed_code(before: Mapping[str, bytes], after: Mapping[str, bytes], own: str) -> Iterator[str]:
    """Yield the kernels, except for one's own, whose code a patch changes."""
    for symbol, code in before.items():
        if symbol != _HASH.sub(r"\1", own) and after.get(symbol) != code:
            yield symbol


@dataclass(eq=False, kw_only=True)
class Neighbour:
    """Another kernel whose launch is described, and the mappings already applied to its arrays."""

    target: Target
    settings: EmulationSettings
    symbol: str
    applied: tuple[Applied, ...] = ()

    def proof(self, after: Target, applied: Sequence[Applied]) -> tuple[Proof, tuple[Applied, ...]]:
        """Return the proof for this kernel of a patch made for another one, and its own mappings with that patch.

        `after` is this kernel with the patch, `applied` are the other one's mappings. Raises ValueError if elements
        are lost.
        """
        was, now = (emulation.emulate_target(target, self.settings) for target in (self.target, after))
        arrays = arrays_of(self.target, now)
        failed: Proof | None = None  # the first one says why
        for mappings in self._mappings(arrays_of(self.target, was), applied):
            proof = prove(self.target, after, [mapping.moved(arrays) for mapping in mappings], self.settings)
            if proof.held:
                return proof, mappings
            failed = failed or proof
        assert failed is not None
        return failed, ()

    def _mappings(self, arrays: Sequence[SharedArray], applied: Sequence[Applied]) -> Iterator[tuple[Applied, ...]]:
        """Yield the mappings that its arrays may have by a patch: those of their names, or of their sizes, or none."""
        fresh = [mapping for mapping in applied if mapping.name not in {own.name for own in self.applied}]
        named = [mapping.of(array) for mapping in fresh for array in arrays if array.name == mapping.array]
        sized = [mapping.of(array) for mapping in fresh for array in arrays if array.size == len(mapping.before)]
        yield (*self.applied, *(named or sized))
        if named or sized:
            yield self.applied


def neighbour(target: Target, settings: EmulationSettings) -> Neighbour:
    """Return a kernel beside the one that is fixed. Raises what emulating it raises."""
    symbol = emulation.emulate_target(target, settings).binary.symbol
    return Neighbour(target=target, settings=settings, symbol=symbol)


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptKernel:
    """Another kernel that a patch was proved for, and the mappings that its arrays have with it."""

    neighbour: Neighbour
    applied: tuple[Applied, ...]

    def keep(self) -> None:
        """Note that the patch is in the source now."""
        self.neighbour.applied = self.applied or self.neighbour.applied
