"""A mapping that a source has, as the proof is told of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.patch.candidates import Ranked
from ncu_swizzle.proof.moved import NOWHERE, Moved
from ncu_swizzle.smem.swizzle import Padding

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


@dataclass(frozen=True, eq=False)
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
            self.name, self.before, range(start, start + bytes_), size, places, self.left, reason if self.left else ""
        )


@dataclass(frozen=True, eq=False)
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
        return AppliedByName(array.name, array.symbol, before, moved, 0)

    def moved(self, after: Emulated, dynamic: int) -> Moved:
        arrays = shared_arrays(after.binary.cubin, after.binary.symbol, dynamic)
        named = [array for array in arrays if array.name == self.name][self.number :]
        if not named:
            raise ValueError(f"{self.name} is no array of the new kernel")
        return replace(self.inferred, after=named[0].span)
