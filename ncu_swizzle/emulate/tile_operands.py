"""Judge what wgmmas read: whether an operand is a tile of a tensor, and whether products may be added up.

Products that may be added up have the same rows, and K of A and B advances together.

A chain is what one warpgroup accumulates in the same registers, until something else writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.emulate.tensor_map import (
    NOTHING,
    OTHER,
    SOURCE_BYTES,
    UNKNOWN_PHASE,
    BoxCopy,
    PlacedBoxes,
    Tiled,
)
from ncu_swizzle.smem.descriptors import CHUNK, FLIPPED
from ncu_swizzle.smem.operations import Bools, Ints

# The contents of one operand of a wgmma: the element of a tensor that arrives as each (m, k) or (n, k).
#
# A tile fits if its rows are rows of a tensor in order and all have the same elements along K, each once. Their
# order does not matter, as long as the other operand has the same; nor does where the tile begins.


MOST_ROWS = 1 << 40  # of a matrix that threads load tiles of
_PLAIN = {1: 0, 2: 1, 4: 2}  # by bytes of an element: a CUtensorMapDataType


@dataclass(frozen=True, kw_only=True)
class OperandOrigin:
    """Where the first row of an operand is in its tensor; the innermost dimension in elements of the wgmma."""

    copy: BoxCopy  # of the first element
    element: int  # bytes
    at: Ints  # (K, rank)
    along: Bools  # by axis: whether it changes along K
    moving: Bools  # by axis: whether it changes from row to row

    @property
    def row(self) -> tuple[int, ...]:
        """The tensor's row, without the dimensions that stay constant across rows."""
        return tuple(self.at[0][self.moving].tolist())

    def beyond(self, first: OperandOrigin) -> bool:
        """Return whether it is outside of the tensor in a dimension that K has moved along since the first product."""
        sizes = np.array(self.copy.scaled(self.copy.tensor.sizes, self.element))
        at, before = self.at[0][: len(sizes)], first.at[0][: len(sizes)]
        outside = ((at < 0) | (at >= sizes)) & ~self.moving[: len(sizes)] & ~self.along[: len(sizes)]
        return bool((outside & (at != before)).any()) if self.copy.map_at == first.copy.map_at else False

    @property
    def steps(self) -> Ints:
        """How far apart elements are in global memory along each dimension of the tensor, in bits."""
        tensor = self.copy.tensor
        return np.array([8 * self.element * tensor.bits // tensor.shared_bits, *tensor.steps[1:]])


@dataclass(frozen=True)
class Reading:
    """An operand: `trouble` says why it is not a tile; `k` is None if it is not followed."""

    trouble: str = ""
    missing: bool = False  # the trouble: nothing was written there
    k: Ints | None = None  # the coordinate along K, by k
    filled: Bools = field(
        default_factory=lambda: np.zeros(0, bool)
    )  # by k: whether it is outside of the tensor along K
    owners: tuple[int, ...] = ()  # the copies
    maps: frozenset[int] = frozenset()  # the addresses of their tensor maps
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # by row: which row of the tensor
    cut: Bools = field(default_factory=lambda: np.zeros(0, bool))  # by row: whether it is outside of the tensor
    origin: OperandOrigin | None = None  # of the first row
    why: str = "what threads write"  # if it is not followed


def read_operand(placed: PlacedBoxes, block: int | Ints, addresses: Ints, mn_major: bool, element: int) -> Reading:
    """Read the addresses of a descriptor's chunks, in the shape of `Descriptor.chunks`.

    Rows may be in different blocks: `block` is then one of each, (rows, 1).
    """
    chunks = addresses // CHUNK
    if int(chunks.max()) >= placed.owner.shape[1]:
        return Reading(f"it reaches beyond the block's shared memory, to {int(addresses.max()) + CHUNK:#x}")
    owner = placed.owner[block, chunks]
    if (by_threads := owner == OTHER).any():
        sources = None if placed.sources is None else placed.sources[block, chunks]
        if sources is None or int(sources[by_threads].min()) < 0 or (owner >= 0).any():
            return Reading()
        if by_threads.all():
            return _stored(placed, block, sources, mn_major, element)
    if (owner == NOTHING).any():
        missing = np.argwhere(owner == NOTHING)[0]
        row, k = missing * ((CHUNK // element, 1) if mn_major else (1, CHUNK // element))
        where = f"row {row}, k {k} is at {int(addresses[tuple(missing)]):#x}"
        return Reading(f"{where}, where no copy has written anything", missing=True)
    copies = {number: placed.copies[number] for number in np.unique(owner).tolist()}
    unit = 8 * element  # bits
    for copy in copies.values():
        odd = copy.corner[0] * copy.tensor.shared_bits % unit
        if odd or copy.tensor.swizzle == FLIPPED:
            inside = f"begins inside of an element of {element} bytes"
            what = inside if odd else "has the halves of every other chunk of 16 bytes exchanged"
            return Reading(f"the box at {copy.corner} {what}")
    part = placed.part[block, chunks]
    coordinates = _coordinates(copies, owner, part, element)
    wide = CHUNK // element
    along = 0 if mn_major else 1
    owner, coordinates = np.repeat(owner, wide, axis=along), np.repeat(coordinates, wide, axis=along)
    within = np.arange(owner.shape[along]) % wide
    coordinates[:, :, 0] += within[:, None] if mn_major else within
    return _judged(copies, owner, coordinates, element)


def _stored(placed: PlacedBoxes, block: int | Ints, sources: Ints, mn_major: bool, element: int) -> Reading:
    """Return what threads have stored in chunks, by the addresses that they loaded it from, (rows, chunks, 8)."""
    units = max(1, element // SOURCE_BYTES)
    if (np.diff(sources.reshape(*sources.shape[:2], -1, units), axis=-1) != SOURCE_BYTES).any():
        return Reading(why="elements that threads write in parts")
    at = sources[:, :, ::units]  # (rows, chunks, elements of each)
    if element < SOURCE_BYTES:
        at = (at[..., None] + np.arange(SOURCE_BYTES)).reshape(*at.shape[:2], -1)
    # (rows, K): MN-major, a chunk has elements of neighbouring rows.
    at = at.transpose(0, 2, 1).reshape(-1, at.shape[1]) if mn_major else at.reshape(len(at), -1)
    matrix = placed.matrix_of(int(at[0, 0]), int(np.min(block)))
    if matrix is None or (np.diff(at[:, 0]) == 0).any():  # where rows are clamped, the last one is there several times
        return Reading(why="what threads write from rows at no constant distance")
    beyond = np.flatnonzero((at[:, 0] < matrix.first) | (at[:, 0] >= matrix.end))
    if len(beyond):
        return Reading(f"row {beyond[0]} is of another matrix than row 0")
    placed.consumed = True
    rows, along = np.divmod(at - matrix.origin, matrix.pitch)
    columns = matrix.pitch // element
    tile = BoxCopy(
        offset=0,
        map_at=matrix.key,
        tensor=Tiled(matrix.origin, _PLAIN[element], (columns, MOST_ROWS), (matrix.pitch,), (columns, MOST_ROWS)),
        corner=(0, 0),
        block=0,
        barrier=UNKNOWN_PHASE,
        phase=placed.age,
        start=0,
        counted_in=0,
        by_threads=True,
    )
    reading = _judged({0: tile}, np.zeros(at.shape, np.int64), np.stack([along // element, rows], axis=-1), element)
    # The end of a matrix without a tensor map is not known.
    return replace(reading, owners=(), rows=reading.rows[:0], cut=reading.cut[:0], filled=np.zeros_like(reading.filled))


def _coordinates(copies: dict[int, BoxCopy], owner: Ints, part: Ints, element: int) -> Ints:
    """Return the coordinates of each chunk's first element, the innermost in elements of the wgmma.

    `owner` and `part` have the shape of `Descriptor.chunks`; the result has an axis more, the tensor's dimensions.
    """
    rank = max(len(copy.corner) for copy in copies.values())
    at = np.zeros((*owner.shape, rank), np.int64)
    for number, copy in copies.items():
        here = owner == number
        coordinates = copy.coordinates(part[here])
        coordinates[:, 0] = coordinates[:, 0] * copy.tensor.shared_bits // (8 * element)
        at[here, : len(copy.corner)] = coordinates
    return at


def _judged(copies: dict[int, BoxCopy], owner: Ints, at: Ints, element: int) -> Reading:
    """Return the operand of these elements, (rows, K) and their coordinates (rows, K, rank)."""
    numbers = np.array([*copies])
    maps = np.array([copy.map_at for copy in copies.values()])[np.searchsorted(numbers, owner)]
    # (rows, K, rank): how far each element is from the first of its row, which has to be the same in all rows.
    steps = at - at[:, :1]
    wrong = (maps != maps[:, :1]) | (steps != steps[:1]).any(axis=2)
    along = np.asarray((steps[0] != 0).any(axis=0))  # the axes of K
    across = at[:, 0] - at[0, 0]
    if not wrong.any():  # a row that begins elsewhere along K
        wrong[:, 0] = (across[:, along] != 0).any(axis=1)
    if wrong.any():
        row, k = (int(index) for index in np.argwhere(wrong)[0])
        start, here = copies[int(owner[0, 0])], copies[int(owner[row, k])]
        return Reading(
            f"row 0 begins with element {start.named(at[0, 0], element)}, but row {row}, k {k} is "
            f"{here.named(at[row, k], element)}{'' if here.map_at == start.map_at else ' of another tensor map'}"
        )
    first = copies[int(owner[0, 0])]
    sizes = first.scaled(first.tensor.sizes, element)
    box = first.scaled(first.tensor.box, element)  # the most that is outside
    along_k = linear_coordinate(at[0], along, sizes)
    if len(np.unique(along_k)) < len(along_k):
        return Reading("it has the same element along K twice")
    moving = np.asarray((across != 0).any(axis=0))
    if trouble := _disorder(copies, owner[:, 0], at[:, 0], moving, element):
        return Reading(trouble)
    rows = linear_coordinate(at[:, 0], moving, tuple(size + extent for size, extent in zip(sizes, box, strict=True)))
    if len(first_of_each := np.unique(rows, return_index=True)[1]) < len(rows) and len(set(maps[:, 0].tolist())) == 1:
        row = int(np.setdiff1d(np.arange(len(rows)), first_of_each)[0])
        return Reading(f"row {row} is element {first.named(at[row, 0], element)}, as a row before it is")
    outside = (at < 0) | (at >= np.array([*sizes, *[1] * (at.shape[2] - len(sizes))]))
    return Reading(
        k=along_k,
        filled=np.asarray(outside[0][:, along].any(axis=1)),
        owners=tuple(copies),
        maps=frozenset(copy.map_at for copy in copies.values()),
        rows=rows,
        cut=np.asarray(outside[:, 0][:, ~along].any(axis=1)),
        origin=OperandOrigin(copy=first, element=element, at=at[0], along=along, moving=moving),
    )


def linear_coordinate(at: Ints, axes: Bools, sizes: tuple[int, ...]) -> Ints:
    """Return coordinates along some axes as one, the lowest axis fastest."""
    total = np.zeros(len(at), np.int64)
    factor = 1
    for axis, size in enumerate(sizes):
        if axes[axis]:
            total += at[:, axis] * factor
            factor *= size
    return total


def _disorder(copies: dict[int, BoxCopy], owner: Ints, at: Ints, moving: Bools, element: int) -> str:
    """Describe where rows do not follow as in their box, or begin another box before the last one ends."""
    position, last = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    for number, copy in copies.items():
        here = owner == number
        box, corner = copy.scaled(copy.tensor.box, element), copy.scaled(copy.corner, element)
        rank = len(corner)
        position[here] = linear_coordinate(at[here][:, :rank] - np.array(corner), moving[:rank], box)
        last[here] = math.prod(extent for extent, moves in zip(box, moving, strict=False) if moves) - 1
    same = owner[1:] == owner[:-1]
    follows = np.where(same, position[1:] == position[:-1] + 1, (position[1:] == 0) & (position[:-1] == last[:-1]))
    if follows.all():
        return ""
    row = int(np.flatnonzero(~follows)[0]) + 1
    return (
        f"row {row - 1} is element {copies[int(owner[row - 1])].named(at[row - 1], element)} and row {row} is "
        f"{copies[int(owner[row])].named(at[row], element)}, which does not follow it in the box"
    )


Pair = tuple[OperandOrigin, OperandOrigin]
Key = tuple[int, int]  # the first warp of a warpgroup, and the first register of its results
Say = Callable[[int, str, str], None]  # records a misfit: the instruction's offset, its kind, the message
Doubt = Callable[[str], None]


def distances(first: OperandOrigin, here: OperandOrigin) -> set[int]:
    """Return how many elements `here` is from `first` along K: as coordinates count them, and as memory does."""
    step = np.where(first.moving | here.moving, 0, here.at[0] - first.at[0])
    tensor = first.copy.tensor
    sizes = first.copy.scaled(tensor.sizes, first.element)
    by_coordinates = {int(linear_coordinate(step[None], first.along | (step != 0), sizes)[0])}
    rank = len(tensor.sizes)
    pitch = math.gcd(*np.diff(first.at[:, :rank] @ first.steps).tolist())
    bits = int(step[:rank] @ first.steps)
    return by_coordinates | ({bits // pitch} if pitch and bits % pitch == 0 else set())


def advance_alike(first: Pair, here: Pair) -> bool:
    """Return whether A and B have moved equally far along K."""
    if any(before.copy.map_at != now.copy.map_at for before, now in zip(first, here, strict=True)):
        return True
    return bool(distances(first[0], here[0]) & distances(first[1], here[1]))


@dataclass
class _Chain:
    """The products that a warpgroup has added up, and where K of A and B did not advance together."""

    products: list[Pair] = field(default_factory=list)
    apart: tuple[int, Pair, Pair] | None = None  # the instruction, and the two products

    def first(self, here: Pair) -> Pair | None:
        """Return the first product of the same tensors."""
        maps = [side.copy.map_at for side in here]
        return next((pair for pair in self.products if [side.copy.map_at for side in pair] == maps), None)

    def twice(self, side: int) -> bool:
        """Return whether an operand has the same element along K in several products."""
        elements: set[tuple[int, ...]] = set()
        for pair in self.products:
            origin = pair[side]
            here = {(origin.copy.map_at, *at) for at in origin.at[:, ~origin.moving].tolist()}
            if elements & here:
                return True
            elements |= here
        return False


class Chains:
    """All chains of a run."""

    def __init__(self, say: Say, doubt: Doubt, reader: str) -> None:
        self.say, self.doubt, self.reader = say, doubt, reader
        self.open: dict[Key, _Chain] = {}

    def add(self, key: Key, offset: int, here: Pair) -> Pair:
        """Judge a product against those that it is added to; return the first of these, or itself."""
        chain = self.open.setdefault(key, _Chain())
        first = chain.first(here)
        if first is not None:
            rows = all(before.row == now.row for before, now in zip(first, here, strict=True))
            fits = advance_alike(first, here)
            if not rows and fits and 0 in distances(first[0], here[0]):
                self.end(key)  # K begins anew: the next tile of the result
                chain, first = self.open.setdefault(key, _Chain()), None
            elif not rows:
                self._other_rows(offset, first, here, fits)
            elif not fits and chain.apart is None:
                chain.apart = offset, first, here
        chain.products.append(here)
        return first or here

    def _other_rows(self, offset: int, first: Pair, here: Pair, fits: bool) -> None:
        if not fits:
            self.doubt("whether products of different rows may be added up, as where K goes on differs in A and B")
            return
        side = 0 if first[0].row != here[0].row else 1
        before, now = (_element(pair[side]) for pair in (first, here))
        self.say(
            offset,
            f"rows {'AB'[side]}",
            f"{self.reader} adds up products of different rows: {'AB'[side]} begins with element {now}, and did with "
            f"{before} in the first of them; the box's coordinates across K have to stay the same",
        )

    def end(self, key: Key) -> None:
        """End a chain: something else writes its registers."""
        chain = self.open.pop(key, None)
        if chain is None or chain.apart is None:
            return
        if chain.twice(0) and chain.twice(1):
            self.doubt("in which order K is added up: both operands have the same elements several times")
            return
        offset, first, here = chain.apart
        if any(origin.copy.by_threads for origin in here):
            self.doubt("whether A and B advance alike along K, as threads store tiles from different distances")
            return
        (a, b), (a0, b0) = (tuple(map(_element, pair)) for pair in (here, first))
        self.say(
            offset,
            "K",
            f"{self.reader} adds up products in which A and B are not side by side along K: A begins with element {a} "
            f"and B with {b}, after {a0} and {b0} in the first of them; both have to advance alike",
        )

    def touched(self, warps: list[int], spans: Sequence[tuple[int, int]]) -> None:
        """End the chains whose registers, from the first to before the last of a span, these warps write."""
        for warp, register in [*self.open]:
            if warp in warps and any(first <= register < end for first, end in spans):
                self.end((warp, register))

    def finish(self) -> None:
        """End all chains."""
        for key in [*self.open]:
            self.end(key)


def _element(origin: OperandOrigin) -> str:
    return origin.copy.named(origin.at[0], origin.element)
