"""Which element of which tensor each chunk of shared memory holds, as tensor copies have written it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.smem.banks import Bools, Ints
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, box_chunks

NOTHING, OTHER = -1, -2  # that wrote a chunk, but for copies
UNKNOWN_PHASE = -1


@functools.lru_cache(maxsize=64)
def _within(box: tuple[int, ...], element: int) -> Ints:
    """Return the coordinates of each chunk's first element in its box, (chunks, rank)."""
    per_row = box[0] * element // CHUNK
    number = np.arange(per_row * math.prod(box[1:]))
    axes = [number % per_row * (CHUNK // element)]
    rest = number // per_row
    for extent in box[1:]:
        axes.append(rest % extent)
        rest = rest // extent
    return np.stack(axes, axis=1)


@dataclass(eq=False)
class BoxCopy:
    """One tensor copy to the shared memory of one block."""

    offset: int  # of the instruction
    map_at: int  # generic address of the tensor map
    tensor: Tiled
    corner: tuple[int, ...]
    block: int
    barrier: int
    phase: int  # of the barrier that its bytes are counted in
    start: int  # in shared memory, bytes
    read: Bools = field(init=False)  # by chunk: whether a wgmma has read it
    over: bool = False  # something else was written over it

    def __post_init__(self) -> None:
        self.read = np.zeros(len(_within(self.tensor.box, self.tensor.element_bytes)), bool)

    @property
    def stage(self) -> tuple[int, int]:
        """What the threads wait for together."""
        return self.barrier, self.phase

    def coordinates(self, part: Ints | slice = slice(None)) -> Ints:
        """Return the coordinates of some chunks' first elements."""
        chosen: Ints = _within(self.tensor.box, self.tensor.element_bytes)[part] + np.array(self.corner)
        return chosen

    def scaled(self, sizes: tuple[int, ...], element: int) -> tuple[int, ...]:
        """Return sizes or coordinates with the innermost in elements of so many bytes."""
        return (sizes[0] * self.tensor.element_bytes // element, *sizes[1:])

    def named(self, at: Ints, element: int) -> str:
        """Return scaled coordinates in words, as the tensor map counts them."""
        innermost, *others = at[: len(self.corner)].tolist()
        return f"({', '.join(map(str, [innermost * element // self.tensor.element_bytes, *others]))})"

    @property
    def cut_off(self) -> bool:
        """Whether part of the box is outside of the tensor."""
        tensor = self.tensor
        ends = zip(self.corner, tensor.box, tensor.sizes, strict=True)
        return any(first < 0 or first + extent > size for first, extent, size in ends)

    def inside(self) -> Bools:
        """Return which chunks are inside of the tensor; the others are filled."""
        at = self.coordinates()
        within: Bools = np.asarray(((at >= 0) & (at < np.array(self.tensor.sizes))).all(axis=1))
        return within

    def addresses(self, start: int) -> Ints:
        """Return where the chunks go in shared memory."""
        tensor = self.tensor
        return box_chunks(math.prod(tensor.box[1:]), tensor.row_bytes, BOX_SPANS[tensor.swizzle], start).ravel()

    def reach(self) -> tuple[int, int] | None:
        """Return the first and behind the last byte that it reads of global memory; None if it reads none."""
        at = self.coordinates()[self.inside()]
        if not len(at):
            return None
        strides = np.array([self.tensor.element_bytes, *self.tensor.strides])
        bytes_ = self.tensor.address + at @ strides
        return int(bytes_.min()), int(bytes_.max()) + CHUNK


class PlacedBoxes:
    """The chunks of the shared memory of the running blocks."""

    def __init__(self, blocks: int, size: int) -> None:
        self.owner = np.full((blocks, size // CHUNK), NOTHING, np.int64)
        self.part = np.zeros((blocks, size // CHUNK), np.int64)
        self.copies: list[BoxCopy] = []

    def place(self, copy: BoxCopy, addresses: Ints) -> None:
        """Write a copy's chunks."""
        chunks = addresses // CHUNK
        self.overwrite(copy.block, chunks)
        inside = chunks < self.owner.shape[1]
        self.owner[copy.block, chunks[inside]] = len(self.copies)
        self.part[copy.block, chunks[inside]] = np.arange(len(chunks))[inside]
        self.copies.append(copy)

    def overwrite(self, block: int, chunks: Ints | slice) -> None:
        """Write something else to some chunks."""
        chunks = chunks if isinstance(chunks, slice) else chunks[chunks < self.owner.shape[1]]
        for number in np.unique(self.owner[block, chunks]).tolist():
            if number >= 0:
                self.copies[number].over = True
        self.owner[block, chunks] = OTHER
