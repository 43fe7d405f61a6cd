"""What would make an operand fit, tried: first its descriptor, then the tensor map that wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ncu_swizzle.emulate.operand_reading import Reading
from ncu_swizzle.emulate.placed_boxes import BoxCopy, PlacedBoxes
from ncu_swizzle.emulate.tensor_map import MOST_BOX, Tiled
from ncu_swizzle.emulate.tile_fit import what_fits, where_fits
from ncu_swizzle.emulate.tile_operand import OperandSeen
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, Descriptor

HALF = 2  # bytes of the elements that may be MN-major
Good = Callable[[Reading], bool]
Read = Callable[[PlacedBoxes, Descriptor, bool], Reading]


@dataclass(frozen=True)
class Repair:
    """An operand that does not fit, and `standards`, from strict to lenient, of what would."""

    seen: OperandSeen
    placed: PlacedBoxes
    block: int
    read: Read
    standards: tuple[Good, ...]
    missing: bool  # nothing was written where it is: a larger box is likelier than another descriptor

    def of_tile(self) -> str:
        """Return in words what would make it a tile; empty if nothing that was tried does."""
        one = self.seen
        for good in self.standards:

            def works(tried: Descriptor, mn_major: bool, good: Good = good) -> bool:
                return good(self.read(self.placed, tried, mn_major))

            larger = self._of_map(good) if self.missing else ""
            words = larger or what_fits(one.descriptor, one.mn_major, one.element == HALF, works)
            if words := words or self._of_map(good):
                return words
        return ""

    def of_place(self) -> str:
        """Return in words where it would have to start to go together with the other operand along K."""
        one = self.seen
        for good in self.standards:

            def works(tried: Descriptor, mn_major: bool, good: Good = good) -> bool:
                return good(self.read(self.placed, tried, mn_major))

            if words := where_fits(one.descriptor, one.mn_major, works):
                return words
        return ""

    def _of_map(self, good: Good) -> str:
        """Return the value of the tensor map that would fit."""
        copy = self.seen.copy(self.placed, self.block)
        for words, tensor in _maps(copy.tensor) if copy else ():
            if not tensor.refused and copy is not None:
                placed = self._placed_by(copy, tensor)
                if good(self.read(placed, self.seen.descriptor, self.seen.mn_major)):
                    return f"{words} in the tensor map would fit"
        return ""

    def _placed_by(self, copy: BoxCopy, tensor: Tiled) -> PlacedBoxes:
        """Return the block's shared memory as if another tensor map had been used for a copy and those like it."""
        owner = self.placed.owner
        placed = PlacedBoxes(len(owner), owner.shape[1] * CHUNK)
        for other in self.placed.copies:
            if other.block == self.block and not other.over:
                same = other.map_at == copy.map_at
                placed.place(made := replace(other, tensor=tensor) if same else other, made.addresses(other.start))
        return placed


def _maps(tensor: Tiled) -> Iterator[tuple[str, Tiled]]:
    """Yield what to try, the likeliest first."""
    for swizzle, span in enumerate(BOX_SPANS):
        named = f"CU_TENSOR_MAP_SWIZZLE_{f'{span}B' if swizzle else 'NONE'}"
        yield named, replace(tensor, swizzle=swizzle)
    for axis, extent in enumerate(tensor.box):
        for size in (2 * extent, 4 * extent, extent // 2):
            if 0 < size <= MOST_BOX:
                box = (*tensor.box[:axis], size, *tensor.box[axis + 1 :])
                yield f"a box of {' x '.join(map(str, box))}", replace(tensor, box=box)
