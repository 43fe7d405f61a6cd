"""Tensor maps, encoded and decoded, and which element of a tensor each chunk of shared memory holds after copies."""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.smem.descriptors import BOX_ATOMS, BOX_SPANS, CHUNK, box_chunks
from ncu_swizzle.smem.operations import Bools, Ints

# Tensor maps without a driver: their 128 bytes, and how many bytes a copy by one of them moves.
#
# The encoding is undocumented. Its fields were found by encoding maps that differ in one argument
# (tests/data/tensor_maps_h100.jsonl.gz). The driver also stores the product of these fields; a map in which the two
# differ is not understood. Blackwell's additions, for which we have no driver, come from instructions that ptxas 13.0
# makes of tensormap.replace for sm_100a: the codes of packed types, and the atoms of the 128-byte swizzle.


TENSOR_MAP_BYTES = 128
ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 32, 64, 16, 4, 4, 6)  # in global memory, by the type's code
_MODE, _STEPS, _OUTER_BOX, _PIXELS, _COPIED = 8, 52, 56, 60, 64  # bytes from the map's start
_STRIDES, _HIGH_STRIDES, _SIZES, _PATTERN = 12, 28, 32, 72
_IM2COL = 1  # of the mode word
_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7 | 512, 8 | 512, 11, 12, 13)  # by CUtensorMapDataType
_FLAG = 512  # of types that are rounded on their way
# CUtensorMapDataTypes of 16 values of 4 or 6 bits, which fill 16 bytes of shared memory but in the first, which has 32.
PACKED, PADDED_4, PADDED_6 = 13, 14, 15
PADDED = (PADDED_4, PADDED_6)
_WIDE, _FAR = 128, 32  # padded types: elements that a box has and a size is a multiple of; bytes of address and strides
MOST_RANK, MOST_BOX, LEAST_INTERLEAVED = 5, 256, 3
_PATTERN_BYTES = (16, 256, 512, 1024)  # by CUtensorMapSwizzle: what the permutation repeats after
_MODE_128, _MODE_ATOMS_32 = 3, 4
# Bit of the mode word from which on 2 say how large the atoms of the 128-byte swizzle are. ptxas replaces a third, too,
# and the CuTe DSL sets that one for atoms of 16 bytes.
_ATOMS_AT = 19


def element_bytes(data_type: int) -> int:
    """Return the size of a CUtensorMapDataType of whole bytes."""
    return _bits(_CODES[data_type]) // 8


def _bits(code: int) -> int:
    return ELEMENT_BITS[code & 15]


@dataclass(frozen=True)
class Tiled:
    """The arguments of cuTensorMapEncodeTiled, innermost dimension first; element strides are 1."""

    address: int
    data_type: int  # a CUtensorMapDataType
    sizes: tuple[int, ...]  # elements
    strides: tuple[int, ...]  # bytes, of all dimensions but the innermost; multiples of 16
    box: tuple[int, ...]  # elements
    swizzle: int = 0  # a CUtensorMapSwizzle
    interleave: int = 0
    promotion: int = 0
    fill: int = 0

    def encoded(self) -> bytes:
        """Return the map, 128 bytes, as the driver encodes it."""
        content = bytearray(TENSOR_MAP_BYTES)
        code = _CODES[self.data_type]
        mode = len(self.sizes) - 1 << 4 | code << 7 | self.interleave << 11
        plain = min(self.swizzle, _MODE_128)
        mode |= plain << 13 | self.fill << 15 | self.promotion << 17 | self.swizzle - plain << _ATOMS_AT
        struct.pack_into("<QI", content, 0, self.address, mode)
        for axis, stride in enumerate(self.strides):
            # A stride counts 16 bytes and has 36 bits: 32 in its word, and 4 of the byte that it shares with another
            # one.
            struct.pack_into("<I", content, _STRIDES + 4 * axis, stride >> 4 & 0xFFFFFFFF)
            content[_HIGH_STRIDES + axis // 2] |= stride >> 36 << 4 * (axis % 2)
        for axis, size in enumerate(self.sizes):
            struct.pack_into("<I", content, _SIZES + 4 * axis, size - 1)
        for place, length in enumerate(self.box):
            content[_STEPS + 3 + place] = length - 1
        struct.pack_into("<I", content, _COPIED, self.copied)
        struct.pack_into("<I", content, _PATTERN, _PATTERN_BYTES[plain])
        return bytes(content)

    @property
    def bits(self) -> int:
        """The bits of an element in global memory."""
        return _bits(_CODES[self.data_type])

    @property
    def shared_bits(self) -> int:
        """The bits that an element takes in shared memory."""
        return 8 if self.data_type in PADDED else self.bits

    @property
    def copied(self) -> int:
        """The bytes that an mbarrier counts for a box: gaps between packed values are not among them (CUTLASS)."""
        return math.prod(self.box) * self.bits // 8

    @property
    def row_bytes(self) -> int:
        """The bytes of a row of the box in shared memory."""
        return self.box[0] * self.shared_bits // 8

    @property
    def steps(self) -> Ints:
        """How far apart elements are in global memory along each dimension, in bits."""
        return np.array([self.bits, *(8 * stride for stride in self.strides)])

    @property
    def extent(self) -> int:
        """The bytes from its first element to the end of its last."""
        steps = zip(self.sizes[1:], self.strides, strict=True)
        return self.sizes[0] * self.bits // 8 + sum((size - 1) * stride for size, stride in steps)

    @property
    def overlap(self) -> tuple[int, int] | None:
        """A stride that is too small for what is inside of it, and one that would fit; None if all fit.

        A stride of 0 repeats elements on purpose.
        """
        inside = self.sizes[0] * self.bits // 8
        for stride, size in sorted(zip(self.strides, self.sizes[1:], strict=True)):
            if size > 1 and stride:
                if stride < inside:
                    return stride, inside
                inside += (size - 1) * stride
        return None

    @property
    def refused(self) -> str:
        """Why cuTensorMapEncodeTiled refuses it: the wrong value, and what would fit; empty if it does not."""
        span = BOX_SPANS[self.swizzle]
        if self.swizzle and self.row_bytes > span:
            return (
                f"a box of {self.box[0]} elements, {self.row_bytes} bytes wide, exceeds the {span}-byte swizzle: "
                f"at most {8 * span // self.shared_bits} elements"
            )
        if self.row_bytes % CHUNK:
            return f"rows of {self.row_bytes} bytes in a box: a multiple of 16 fits"
        if self.address % CHUNK or any(stride % CHUNK for stride in self.strides):
            return "the matrix's address and strides must be multiples of 16 bytes"
        if max(self.box) > MOST_BOX:
            return f"a box of {' x '.join(map(str, self.box))}: at most {MOST_BOX} in each dimension"
        if self.interleave and len(self.sizes) < LEAST_INTERLEAVED:
            return "interleaved layouts have at least 3 dimensions: no interleave fits"
        return self._refused_padded() if self.data_type in PADDED else ""

    def _refused_padded(self) -> str:
        """Return why it is refused for a type with gaps (cuda.h, cuTensorMapEncodeTiled)."""
        if self.box[0] != _WIDE or self.sizes[0] % _WIDE:
            words = f"{self.box[0]} elements in a row of the box, {self.sizes[0]} in one of the matrix"
            return f"{words}: of packed types with gaps, {_WIDE} and a multiple of it fit"
        if self.address % _FAR or any(stride % _FAR for stride in self.strides):
            return f"the matrix's address and strides must be multiples of {_FAR} bytes for packed types with gaps"
        if self.swizzle not in (0, _MODE_128, _MODE_ATOMS_32):
            return "packed types with gaps take no swizzle but the 128-byte one, with atoms of 16 or 32 bytes"
        return ""


def decoded_map(tensor_map: bytes) -> Tiled | None:
    """Return the arguments that a map was encoded from; None for im2col maps, element strides, and unknown codes."""
    mode, steps = (struct.unpack_from("<I", tensor_map, at)[0] for at in (_MODE, _STEPS))
    rank, code = (mode >> 4 & 7) + 1, mode >> 7 & (15 | _FLAG)
    if mode & _IM2COL or code not in _CODES or rank > MOST_RANK or steps & 0xFFFFFF & (1 << 3 * rank) - 1:
        return None
    # Refused above: element strides, of which 3 bits per dimension hold the stride less 1.
    address, plain, atoms = struct.unpack_from("<Q", tensor_map, 0)[0], mode >> 13 & 3, mode >> _ATOMS_AT & 3
    if plain + atoms >= len(BOX_SPANS) or (atoms and plain < _MODE_128):
        return None
    low = [struct.unpack_from("<I", tensor_map, _STRIDES + 4 * axis)[0] for axis in range(rank - 1)]
    high = [tensor_map[_HIGH_STRIDES + axis // 2] >> 4 * (axis % 2) & 15 for axis in range(rank - 1)]
    return Tiled(
        address=address,
        data_type=_CODES.index(code),
        sizes=tuple(struct.unpack_from("<I", tensor_map, _SIZES + 4 * axis)[0] + 1 for axis in range(rank)),
        strides=tuple((part | more << 32) << 4 for part, more in zip(low, high, strict=True)),
        box=tuple(tensor_map[_STEPS + 3 + place] + 1 for place in range(rank)),
        swizzle=plain + atoms,
        interleave=mode >> 11 & 3,
        promotion=mode >> 17 & 3,
        fill=mode >> 15 & 1,
    )


def copied_bytes(tensor_map: bytes) -> int | None:
    """Return the bytes that one copy writes to shared memory, those outside of the tensor included; None if unclear."""
    copied, code = _box_bytes(tensor_map), struct.unpack_from("<I", tensor_map, _MODE)[0] >> 7 & 15
    if code >= _CODES[PACKED]:  # what the driver stores of packed types is not known
        return copied
    return copied if copied == struct.unpack_from("<I", tensor_map, _COPIED)[0] else None


def completed_map(tensor_map: bytes) -> bytes:
    """Return a map as the driver encodes it, given one with only the half that the hardware needs.

    A map that is not understood is returned unchanged.
    """
    copied, mode = _box_bytes(tensor_map), struct.unpack_from("<I", tensor_map, _MODE)[0]
    if copied is None:
        return tensor_map
    content = bytearray(tensor_map[:_COPIED].ljust(TENSOR_MAP_BYTES, b"\0"))
    struct.pack_into("<I", content, _COPIED, copied)
    struct.pack_into("<I", content, _PATTERN, _PATTERN_BYTES[mode >> 13 & 3])
    return bytes(content)


def _box_bytes(tensor_map: bytes) -> int | None:
    """Return the bytes of a map's box; None if its type is not a known one."""
    mode, steps, outer, pixels = (
        struct.unpack_from("<I", tensor_map, at)[0] for at in (_MODE, _STEPS, _OUTER_BOX, _PIXELS)
    )
    rank, code = (mode >> 4 & 7) + 1, mode >> 7 & 15
    if code >= len(ELEMENT_BITS):
        return None
    inner = (steps >> 24) + 1  # elements of a box row, or channels
    if mode & _IM2COL:
        elements = inner * ((pixels & 0x3FF) + 1)
    else:
        box = [inner, *((outer >> 8 * axis & 0xFF) + 1 for axis in range(rank - 1))]
        elements = math.prod(-(-size // ((steps >> 3 * axis & 7) + 1)) for axis, size in enumerate(box))
    return int(elements * ELEMENT_BITS[code]) // 8


NOTHING, OTHER = -1, -2  # that wrote a chunk, but for copies
UNKNOWN_PHASE = -1
NO_SOURCE, SOURCE_BYTES = -1, 2  # see PlacedBoxes.sources
FAR_AWAY = 1 << 20


@functools.lru_cache(maxsize=64)
def _within(box: tuple[int, ...], bits: int) -> Ints:
    """Return the coordinates of each chunk's first element in its box, (chunks, rank)."""
    wide = 8 * CHUNK // bits
    per_row = box[0] // wide
    number = np.arange(per_row * math.prod(box[1:]))
    axes = [number % per_row * wide]
    rest = number // per_row
    for extent in box[1:]:
        axes.append(rest % extent)
        rest = rest // extent
    return np.stack(axes, axis=1)


@dataclass(eq=False, kw_only=True)
class BoxCopy:
    """One tensor copy to the shared memory of one block."""

    offset: int  # of the instruction
    map_at: int  # generic address of the tensor map
    tensor: Tiled
    corner: tuple[int, ...]
    block: int
    barrier: int
    phase: int  # of the barrier that counts its bytes
    start: int  # in shared memory, bytes
    counted_in: int  # the block whose barrier it is: of a pair, that may be the other one
    read: Bools = field(init=False)  # by chunk: whether a wgmma has read it
    over: bool = False  # it was overwritten
    by_threads: bool = False  # no copy: threads have stored it, from consecutive addresses of global memory

    def __post_init__(self) -> None:
        chunks = 0 if self.by_threads else len(_within(self.tensor.box, self.tensor.shared_bits))
        self.read = np.zeros(chunks, bool)

    @property
    def stage(self) -> tuple[int, int]:
        """What the threads wait for together."""
        return self.barrier, self.phase

    def coordinates(self, chunks: Ints | slice = slice(None)) -> Ints:
        """Return the coordinates of some chunks' first elements, (chunks, rank), innermost first."""
        chosen: Ints = _within(self.tensor.box, self.tensor.shared_bits)[chunks] + np.array(self.corner)
        return chosen

    def scaled(self, sizes: tuple[int, ...], element: int) -> tuple[int, ...]:
        """Return sizes or coordinates with the innermost in elements of `element` bytes."""
        return (sizes[0] * self.tensor.shared_bits // (8 * element), *sizes[1:])

    def named(self, at: Ints, element: int) -> str:
        """Spell out scaled coordinates, as the tensor map counts them."""
        innermost, *others = at[: len(self.corner)].tolist()
        return f"({', '.join(map(str, [innermost * 8 * element // self.tensor.shared_bits, *others]))})"

    @property
    def cut_off(self) -> bool:
        """Whether part of the box is outside of the tensor."""
        tensor = self.tensor
        ends = zip(self.corner, tensor.box, tensor.sizes, strict=True)
        return any(first < 0 or first + extent > size for first, extent, size in ends)

    def inside(self) -> Bools:
        """Return which chunks, (chunks,), are inside of the tensor; the others are filled."""
        at = self.coordinates()
        within: Bools = np.asarray(((at >= 0) & (at < np.array(self.tensor.sizes))).all(axis=1))
        return within

    def addresses(self, start: int) -> Ints:
        """Return where the chunks go in shared memory: byte addresses, (chunks,)."""
        tensor = self.tensor
        span, atom = BOX_SPANS[tensor.swizzle], BOX_ATOMS[tensor.swizzle]
        return box_chunks(math.prod(tensor.box[1:]), tensor.row_bytes, span, start, atom).ravel()

    def reach(self) -> tuple[int, int] | None:
        """Return the first byte of global memory that it reads, and the end of the last; None if it reads none."""
        at = self.coordinates()[self.inside()]
        if not len(at):
            return None
        chunk = CHUNK * self.tensor.bits // self.tensor.shared_bits
        bytes_ = self.tensor.address + at @ self.tensor.steps // 8
        return int(bytes_.min()), int(bytes_.max()) + chunk


@dataclass(frozen=True)
class Matrix:
    """A matrix that threads load tiles of: its buffer, where its first tile begins, and bytes from row to row."""

    key: int
    first: int
    end: int
    origin: int
    pitch: int


class PlacedBoxes:
    """The chunks of the shared memory of the running blocks."""

    def __init__(self, blocks: int, size: int) -> None:
        self.owner = np.full((blocks, size // CHUNK), NOTHING, np.int64)
        self.part = np.zeros((blocks, size // CHUNK), np.int64)
        self.copies: list[BoxCopy] = []
        # Where threads loaded what they have stored, by chunk and two bytes, (blocks, chunks, 8); `age`: how often they
        # have begun to store anew after something was read.
        self.sources: Ints | None = None
        self.age, self.consumed = 0, False
        self.buffers: list[tuple[int, int]] = []  # the first address of each, and that behind it
        self.matrices: dict[int, Matrix] = {}  # by the first address of the buffer

    def matrix_of(self, address: int, block: int) -> Matrix | None:
        """Return the matrix whose tile threads have stored in a block; None if it has no constant pitch."""
        first, end = next((one for one in self.buffers if one[0] <= address < one[1]), (0, 1 << 63))
        if first in self.matrices or self.sources is None:
            return self.matrices.get(first)
        here = self.sources[block]
        stored = np.unique(here[(here >= first) & (here < end)])
        # What lies side by side is a row of the tile.
        begins = stored[np.diff(stored, prepend=stored[0] - CHUNK) != SOURCE_BYTES]
        if not first:  # no buffer is known: a far address is another matrix
            cuts = np.flatnonzero(np.diff(begins) > FAR_AWAY) + 1
            begins = next(part for part in np.split(begins, cuts)[::-1] if part[0] <= address)
        pitches = np.unique(np.diff(begins))
        if len(pitches) != 1:
            return None
        matrix = Matrix(first or int(begins[0]) // FAR_AWAY, first, end, int(begins[0]), int(pitches[0]))
        return self.matrices.setdefault(first, matrix) if first else matrix

    def bring(self, blocks: Ints, at: Ints, sources: Ints) -> None:
        """Write what comes from these addresses of global memory, two bytes each."""
        if self.sources is None:
            self.sources = np.full((*self.owner.shape, CHUNK // SOURCE_BYTES), NO_SOURCE, np.int64)
        inside = at < self.owner.shape[1] * CHUNK
        blocks, at = blocks[inside], at[inside]
        self.sources[blocks, at // CHUNK, at % CHUNK // SOURCE_BYTES] = sources[inside]
        self.age, self.consumed = self.age + self.consumed, False

    def place(self, copy: BoxCopy, addresses: Ints) -> None:
        """Write a copy's chunks."""
        chunks = addresses // CHUNK
        self.overwrite(copy.block, chunks)
        inside = chunks < self.owner.shape[1]
        self.owner[copy.block, chunks[inside]] = len(self.copies)
        self.part[copy.block, chunks[inside]] = np.arange(len(chunks))[inside]
        self.copies.append(copy)

    def overwrite(self, block: int, chunks: Ints | slice, *, in_part: bool = False) -> None:
        """Overwrite some chunks; `in_part`: `bring` tells which bytes, and with what."""
        chunks = chunks if isinstance(chunks, slice) else chunks[chunks < self.owner.shape[1]]
        lost = self.owner[block, chunks] != OTHER if in_part else np.ones(len(self.owner[block, chunks]), bool)
        for number in np.unique(self.owner[block, chunks]).tolist():
            if number >= 0:
                self.copies[number].over = True
        self.owner[block, chunks] = OTHER
        if self.sources is not None:
            self.sources[block, np.arange(self.owner.shape[1])[chunks][lost]] = NO_SOURCE
