"""One operand of a wgmma as its descriptor gives it, and how a message names it."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.emulate.operand_reading import Reading, read_operand
from ncu_swizzle.emulate.placed_boxes import BoxCopy, PlacedBoxes
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, Descriptor


@dataclass(frozen=True)
class OperandSeen:
    """One operand in shared memory, as the instruction describes it."""

    side: str  # A or B
    descriptor: Descriptor
    rows: int
    mn_major: bool
    element: int  # bytes

    def read(self, placed: PlacedBoxes, block: int, at: Descriptor | None = None, major: bool | None = None) -> Reading:
        """Return what is read, by another descriptor or the other way if given."""
        mn_major = self.mn_major if major is None else major
        addresses = (at or self.descriptor).chunks(self.rows, mn_major)
        return read_operand(placed, block, addresses, mn_major, self.element)

    def copy(self, placed: PlacedBoxes, block: int) -> BoxCopy | None:
        """Return the copy that wrote the operand's first chunk, or one that the whole of it reads; None if none did."""
        chunks = self.descriptor.chunks(self.rows, self.mn_major).ravel() // CHUNK
        owners = [placed.owner[block, chunk] for chunk in chunks.tolist() if chunk < placed.owner.shape[1]]
        return next((placed.copies[number] for number in owners if number >= 0), None)

    def copied(self, placed: PlacedBoxes, block: int) -> str:
        """Say how TMA swizzled the tile if the descriptor says otherwise."""
        copy = self.copy(placed, block)
        span = BOX_SPANS[copy.tensor.swizzle] if copy else self.descriptor.span
        if span == self.descriptor.span:
            return ""
        return f", which TMA wrote with {f'the {span}-byte swizzle' if span > CHUNK else 'no swizzle'}"

    def __str__(self) -> str:
        return f"{self.side} ({'MN' if self.mn_major else 'K'}-major, {self.descriptor})"
