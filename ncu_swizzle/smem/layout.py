"""CuTe layouts, ``(shape):(stride)``: the offset of each coordinate, for whole arrays of them at once; mma's fragments.

Coordinates and offsets count elements. Modes may be nested; an integer coordinate of a nested mode runs through it
first part fastest, as in CuTe (CUTLASS, "CuTe Layouts" and "CuTe Layout Algebra").
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Union

import numpy as np
import numpy.typing as npt

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem.operations import WARP, Ints

IntTuple = Union[int, tuple["IntTuple", ...]]  # noqa: UP007 - a recursive alias has to be quoted

LARGEST = 1 << 18  # elements of a tile: even of 1 byte each, more than the shared memory of any SM
LONGEST_TEXT = 10_000  # characters: parsing takes a stack, and more than linear time
LONGEST_NUMBER = 18  # digits, which 64 bits hold
DEEPEST = 32  # nested parentheses
EXAMPLE = '"(64,64):(64,1)", 64 rows of 64 elements, or "((4,2),8):((1,32),4)" for a nested one'


def product(shape: IntTuple) -> int:
    """Return how many elements a shape has."""
    return shape if isinstance(shape, int) else math.prod(map(product, shape))


@dataclass(frozen=True)
class Layout:
    """A function from coordinates to offsets: the integers of the shape, each with its stride."""

    shape: IntTuple
    stride: IntTuple

    def __post_init__(self) -> None:
        if not _congruent(self.shape, self.stride):
            raise UsageError(f"the layout {self} has a shape and a stride of different structure", EXAMPLE)
        for size, stride in self.leaves:
            if size < 1 or stride < 0:
                raise UsageError(f"the layout {self} needs sizes of at least 1 and strides of at least 0", EXAMPLE)
        largest = max(self.cosize, self.size)
        if largest > LARGEST:
            raise UsageError(f"the layout {self} has {largest:,} elements, more than shared memory holds", EXAMPLE)

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"

    def __call__(self, *coordinates: npt.ArrayLike) -> Ints:
        """Return the offsets of coordinates, one integer array per mode, or one for the whole layout.

        Coordinates beyond the shape continue along the last part of their mode, as in CuTe.
        """
        if len(coordinates) == 1:
            return _offsets(np.asarray(coordinates[0], dtype=np.int64), self.shape, self.stride)
        modes = self.modes
        if len(coordinates) != len(modes):
            raise UsageError(f"the layout {self} takes {len(modes)} coordinates, not {len(coordinates)}", EXAMPLE)
        parts = (mode(coordinate) for mode, coordinate in zip(modes, coordinates, strict=True))
        return np.asarray(sum(parts), dtype=np.int64)

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The layout's top-level parts; a layout of one integer is its own single mode."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            return (self,)
        return tuple(Layout(shape, stride) for shape, stride in zip(self.shape, self.stride, strict=True))

    @property
    def leaves(self) -> tuple[tuple[int, int], ...]:
        """Size and stride of every integer, fastest first."""
        return tuple(_leaves(self.shape, self.stride))

    @property
    def size(self) -> int:
        """The number of elements."""
        return product(self.shape)

    @property
    def cosize(self) -> int:
        """The number of elements of memory it spans: its largest offset plus one."""
        return 1 + sum((size - 1) * stride for size, stride in self.leaves)

    def offsets(self) -> Ints:
        """Return the offsets of all elements in order."""
        return self(np.arange(self.size))

    def coalesce(self) -> Layout:
        """Return the flat layout with the fewest parts that is the same function of one integer."""
        parts: list[tuple[int, int]] = []
        for size, stride in self.leaves:
            if size == 1:
                continue
            # s0:d0 followed by s1:(s0 d0) continues where it ended, so it is (s0 s1):d0.
            if parts and stride == parts[-1][0] * parts[-1][1]:
                parts[-1] = (parts[-1][0] * size, parts[-1][1])
            else:
                parts.append((size, stride))
        return _flat(parts)

    def compose(self, inner: Layout) -> Layout:
        """Return the layout of ``self(inner(c))``, with the structure of `inner`.

        Raises UsageError if that is not a layout: a stride or size of `inner` does not divide this one's.
        """
        if isinstance(inner.shape, tuple):
            modes = [self.compose(mode) for mode in inner.modes]
            composed = Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
            if (composed.offsets() != self(inner.offsets())).any():  # one mode carries into the range of another
                raise UsageError(f"{self} o {inner} is not a layout", EXAMPLE)
            return composed
        ((size, stride),) = inner.leaves
        return _flat(list(_compose_leaf(self, size, stride)))


def parse_layout(text: str) -> Layout:
    """Read a layout as CuTe writes it, ``(8,8):(1,8)``, or compositions of them: ``A o B``. Raises UsageError."""
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"a layout of {len(text):,} characters is too long", EXAMPLE)
    layouts = []
    for part in re.split(r"(?<!\s)\s++o\s++|∘", text.strip()):
        shape, colon, stride = part.partition(":")
        if not colon:
            raise UsageError(f"{part!r} is not a valid layout: write shape:stride", EXAMPLE)
        layouts.append(Layout(_parse_ints(shape, part), _parse_ints(stride, part)))
    return reduce(lambda inner, outer: outer.compose(inner), reversed(layouts))


def _parse_ints(part: str, whole: str) -> IntTuple:
    tokens = re.findall(r"[(),]|\d+|\S", part.replace("_", ""))  # CuTe prints static integers as _8
    if max(accumulate((token == "(") - (token == ")") for token in tokens), default=0) > DEEPEST:
        raise UsageError(f"{whole!r} is nested too deeply", EXAMPLE)
    value, rest = _parse_value(tokens, whole)
    if rest:
        raise _unreadable(whole)
    return value


def _parse_value(tokens: Sequence[str], whole: str) -> tuple[IntTuple, Sequence[str]]:
    if not tokens:
        raise _unreadable(whole)
    head, rest = tokens[0], tokens[1:]
    if head.isdecimal() and len(head) > LONGEST_NUMBER:
        raise UsageError(f"{whole!r} has a number with {len(head):,} digits", EXAMPLE)
    if head.isdecimal():
        return int(head), rest
    if head != "(":
        raise _unreadable(whole)
    values: list[IntTuple] = []
    while True:
        value, rest = _parse_value(rest, whole)
        values.append(value)
        if not rest or rest[0] not in "),":
            raise _unreadable(whole)
        closing, rest = rest[0] == ")", rest[1:]
        if closing:
            return tuple(values), rest


def _unreadable(text: str) -> UsageError:
    return UsageError(f"{text!r} is not a valid layout", EXAMPLE)


def _offsets(index: Ints, shape: IntTuple, stride: IntTuple) -> Ints:
    """Return the offsets of integer coordinates of a mode; its last part takes the remainder."""
    offsets = np.zeros_like(index)
    leaves = list(_leaves(shape, stride))
    for position, (size, step) in enumerate(leaves):
        last = position == len(leaves) - 1
        offsets = offsets + (index if last else index % size) * step
        index = index // size
    return offsets


def _leaves(shape: IntTuple, stride: IntTuple) -> Iterator[tuple[int, int]]:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        for part, step in zip(shape, stride, strict=True):
            yield from _leaves(part, step)
    elif isinstance(shape, int) and isinstance(stride, int):
        yield shape, stride


def _congruent(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        return len(shape) == len(stride) > 0 and all(map(_congruent, shape, stride))
    return isinstance(shape, int) and isinstance(stride, int)


def _text(value: IntTuple) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(_text, value))})"


def _flat(parts: Sequence[tuple[int, int]]) -> Layout:
    if len(parts) == 1:
        return Layout(*parts[0])
    return Layout(tuple(size for size, _ in parts), tuple(stride for _, stride in parts)) if parts else Layout(1, 0)


def _compose_leaf(outer: Layout, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield the parts that make up `size` elements of `outer`, `stride` apart."""
    # From the fastest part of `outer` on, the stride first skips whole parts, s:d dividing it by s; where it falls
    # within one, it takes every stride-th element of it; the rest continues in the next part with stride 1. The last
    # part has no end: coordinates beyond it continue along it.
    *parts, (_, last) = outer.coalesce().leaves
    if stride == 0:
        yield size, 0
        return
    composition = f"{outer} o {size}:{stride}"
    for length, step in parts:
        if size == 1:
            break
        if stride >= length:
            if stride % length:
                raise UsageError(f"{composition} is not a layout: {length} does not divide {stride}", EXAMPLE)
            stride //= length
            continue
        take = min(length // stride, size)
        if length % stride or size % take:
            raise UsageError(f"{composition} is not a layout: {size}:{stride} does not fit {length}:{step}", EXAMPLE)
        yield take, step * stride
        size, stride = size // take, 1
    if size > 1:
        yield size, last * stride


# ---------------------------------------------------------------------------------------------- fragments


# Which lane holds which element of mma.m16n8k8 and mma.m16n8k16 with 16-bit operands.
#
# Source: PTX ISA, "Matrix Fragments for mma.m16n8k8" and "… for mma.m16n8k16" with .f16 and .bf16.


@dataclass(frozen=True, eq=False)
class Fragment:
    """One operand: the lane that holds element (row, column), and its index within the lane."""

    name: str  # A, B or C
    lane: Ints  # (rows, columns)
    element: Ints

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.lane.shape
        return rows, columns

    @property
    def elements(self) -> int:
        """The number of elements per lane."""
        return self.lane.size // WARP


def fragments(depth: int) -> tuple[Fragment, ...]:
    """Return A (16 x depth), B (depth x 8) and C (16 x 8, also D) of mma.m16n8k<depth>, depth 8 or 16."""
    a_row, a_column = np.indices((16, depth))
    b_row, b_column = np.indices((depth, 8))
    return (
        _by_pairs("A", a_row, a_column),
        _by_pairs("B", b_column, b_row),  # like A, along its columns
        _by_pairs("C", *np.indices((16, 8))),
    )


def _by_pairs(name: str, row: Ints, column: Ints) -> Fragment:
    """Lane 4 r + c / 2 holds two adjacent elements of a row; the next two are 8 rows down, then 8 columns on."""
    # In A, a0 and a1 are in row g, a2 and a3 in row g + 8, a4 to a7 the same 8 columns further on; B has no row g + 8,
    # so its b2 and b3 are 8 further along K (PTX ISA, "Matrix Fragments for mma.m16n8k16").
    lane = row % 8 * 4 + column % 8 // 2
    element = column % 2 + row // 8 * 2 + column // 8 * 2 * (1 + int(row.max() >= 8))
    return Fragment(name, lane, element)
