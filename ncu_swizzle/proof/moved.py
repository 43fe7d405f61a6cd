"""Where the elements of a shared array lie before and after a fix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.smem.banks import Ints

NOWHERE = -1  # the place of what is never accessed


@dataclass(frozen=True, eq=False)
class Moved:
    """One shared array whose elements have new places.

    Addresses are those of the emulator: offsets into the block's shared memory, of which the driver has the first
    1,024 bytes on sm_90. An array that has moved as a whole needs no entry: the proof finds by how much.
    """

    name: str
    before: range  # its bytes in the old kernel
    after: range  # and in the new one
    element_bytes: int  # the granule that moves as one
    places: Ints  # by granule of the old array: its byte offset from after.start, or NOWHERE; no two overlap
    least: int = 0  # excessive wavefronts that no mapping avoids
    reason: str = ""  # why not, if `least` is not 0

    def __post_init__(self) -> None:
        """Raise ValueError if two elements would share a byte, or one would lie outside."""
        granules, size = len(self.before) // self.element_bytes, self.element_bytes
        if self.places.shape != (granules,) or granules * size != len(self.before):
            raise ValueError(f"{self.name}: {granules} elements of {size} bytes, but {self.places.shape} places")
        ordered = np.sort(self.places[self.places != NOWHERE])
        inside = len(ordered) == 0 or (ordered[0] >= 0 and ordered[-1] + size <= len(self.after))
        if not inside or (np.diff(ordered) < size).any():
            raise ValueError(f"{self.name}: two elements share a place, or one lies outside of the array")
