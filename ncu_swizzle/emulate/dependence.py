"""How values depend on the block index, and on the iterations of loops.

One block is run; each value that depends on the block index carries a `Tag`. If such a value decides something (a
comparison, an address), only blocks for which the decision is the same are represented by the one that ran: see
`boxes`. In the same way one iteration of a loop can represent those that follow it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace

WORD = 1 << 32
MOST_STRIDE = 1 << 12  # a coarser stride would leave more kinds of blocks than are worth telling apart

BLOCK_AXES = 3  # x, y and z of the block index
LOOP_AXES = 3  # iterations of a loop, of a loop around it, and of one around both
AXES = BLOCK_AXES + LOOP_AXES
OPEN_AXIS = AXES - 1  # of values left by a loop whose trip count is unknown, see `supposed`
CACHED_TAGS = 1 << 12

Steps = tuple[int, ...]  # one per axis
EVERY: Steps = (1,) * AXES
ALIKE = 32  # bits: numbers that differ by multiples of 2^32 are the same
NOTHING: Steps = (0,) * AXES


@dataclass(frozen=True, kw_only=True)
class Tag:
    """How a value changes between blocks, or iterations, whose indices differ by multiples of `stride`, by axis.

    `coefficients`: the change per stride, the same for all threads, modulo 2^32; 0 in each dimension whose index the
    value depends on only modulo the stride, as in ``blockIdx.x % 8``. If that is None, it changes by a multiple of
    2^`align` that is the same for all threads of a warp, and by a multiple of 2^`apart` that may be another for each:
    0x100 + 16 u + 128 v(thread), with any u and v, has an `align` of 4 and an `apart` of 7. `dims` are the axes on
    which it changes at all between such blocks: bit 0 for x, 1 for y, 2 for z, 3 to 5 for loops; what `every_launch`
    names is above.
    """

    dims: int
    coefficients: Steps | None = None
    align: int = 0
    apart: int = 0
    stride: Steps = EVERY

    @property
    def uniform(self) -> bool:
        """Whether it changes by the same amount for all threads of a warp."""
        return self.apart >= ALIKE

    @functools.lru_cache(CACHED_TAGS)  # noqa: B019  tags are few and small
    def lattice(self, bits: int = 32) -> tuple[Steps, int]:
        """Return the stride at which the value's lower bits do not change, and the dimensions without one."""
        if self.coefficients is None:
            if self.align >= bits:
                return self.stride, 0
            return _without(self.stride, self.dims), self.dims
        # k c is 0 modulo 2^bits first for k = 2^(bits - trailing zeros of c).
        factors = [1 << max(0, bits - trailing_zeros(c)) for c in self.coefficients]
        stride = tuple(step * factor for step, factor in zip(self.stride, factors, strict=True))
        coarse = _bits(step > MOST_STRIDE for step in stride)
        return _without(stride, coarse), coarse

    @property
    def loops(self) -> int:
        """The axes of loops on which it changes, or is known only at a stride."""
        strided = _bits(step != 1 for step in self.stride)
        return (self.dims | strided) >> BLOCK_AXES << BLOCK_AXES

    def per_iteration(self, axis: int) -> int | None:
        """Return the change from one iteration to the next on a loop's axis; None if it has none."""
        if self.stride[axis] != 1:
            return None
        if not self.dims >> axis & 1:
            return 0
        return None if self.coefficients is None else self.coefficients[axis]

    @functools.lru_cache(CACHED_TAGS)  # noqa: B019
    def outside(self, axis: int) -> Tag | None:
        """Return the tag of the value in one iteration of the loop on this axis."""
        stride = _without(self.stride, 1 << axis)
        if self.coefficients is not None:
            return affine_tag(tuple(0 if at == axis else c for at, c in enumerate(self.coefficients)), stride)
        return _any_change(self.dims & ~(1 << axis), self.align, self.apart, stride)


def block_axis(axis: int) -> Tag | None:
    """Return the tag of the block index in x, y or z."""
    return affine_tag(tuple(int(at == axis) for at in range(AXES)))


def open_tag(align: int) -> Tag | None:
    """Return the tag of a value to which some multiple of 2^`align` is added, the same in all threads."""
    return _any_change(1 << OPEN_AXIS, align, ALIKE, EVERY) if align < 32 else None


def is_open(tag: Tag | None) -> bool:
    """Return whether a value depends on a loop's unknown trip count."""
    return tag is not None and bool(tag.dims >> OPEN_AXIS & 1)


def same_at_multiples(cluster: tuple[int, int, int]) -> Tag | None:
    """Return the tag of a value that is the same for blocks whose indices differ by multiples of these."""
    return affine_tag(NOTHING, (*cluster, *EVERY[BLOCK_AXES:]))


def iteration(axis: int, change: int) -> Tag | None:
    """Return the tag of a value that changes by this much in each iteration of the loop on an axis."""
    return affine_tag(tuple(change if at == axis else 0 for at in range(AXES)))


@functools.lru_cache(CACHED_TAGS)
def affine_tag(coefficients: Steps, stride: Steps = EVERY) -> Tag | None:
    """Return the tag of a value with these changes per stride; None if it is the same for all blocks."""
    # Changes modulo 2^32, as signed numbers.
    centred = tuple((c + WORD // 2) % WORD - WORD // 2 for c in coefficients)
    dims = _bits(c != 0 for c in centred)
    if not dims and stride == EVERY:
        return None
    align = min(map(trailing_zeros, centred))
    return Tag(dims=dims, coefficients=centred, align=align, apart=ALIKE, stride=stride)


def _any_change(dims: int, align: int, apart: int, stride: Steps) -> Tag | None:
    """Return the tag of a value that changes on these axes, and on no others: see `Tag`."""
    return Tag(dims=dims, align=align, apart=apart, stride=stride) if dims else affine_tag(NOTHING, stride)


def changing_tag(dims: int, align: int = 0, apart: int = ALIKE) -> Tag | None:
    """Return the tag of a value that changes between any blocks, or launches, with what `dims` names: see `Tag`."""
    if align >= ALIKE:
        return None
    assert dims, "a change without a cause"
    return Tag(dims=dims, align=align, apart=max(align, apart))


def arbitrary_tag(*tags: Tag | None) -> Tag | None:
    """Return the tag of an arbitrary function of values with these tags."""
    return function_tag(*((tag, 32) for tag in tags if tag))


@functools.lru_cache(CACHED_TAGS)
def function_tag(*arguments: tuple[Tag | None, int], uniform: bool = False) -> Tag | None:
    """Return the tag of an arbitrary function of the low `bits` of values with these tags.

    `uniform` if all threads of a warp have the same values.
    """
    lattices = [tag.lattice(bits) for tag, bits in arguments if tag]
    stride = _least_common(stride for stride, _ in lattices)
    dims = _bits(step > MOST_STRIDE for step in stride)
    for _, more in lattices:
        dims |= more
    return _any_change(dims, 0, ALIKE if uniform else 0, _without(stride, dims))


def sum_tag(*tags: Tag | None) -> Tag | None:
    """Return the tag of a sum."""
    present = tuple(tag for tag in tags if tag)
    if len(present) <= 1:
        return present[0] if present else None
    return _total(present)


@functools.lru_cache(CACHED_TAGS)
def _total(present: tuple[Tag, ...]) -> Tag | None:
    stride = _least_common(tag.stride for tag in present)
    if max(stride) > MOST_STRIDE:
        return arbitrary_tag(*present)
    if not all(tag.uniform for tag in present):
        moved, apart = bitwise_tag(present), min(tag.apart for tag in present)
        return moved and replace(moved, apart=max(moved.apart, apart))
    coarser = [_at_stride(tag, stride) for tag in present]
    if all(coarser):
        return affine_tag(tuple(sum(steps) for steps in zip(*filter(None, coarser), strict=True)), stride)
    dims = functools.reduce(operator.or_, (tag.dims for tag in present))
    return Tag(dims=dims, align=min(tag.align for tag in present), apart=ALIKE, stride=stride)


def _at_stride(tag: Tag, stride: Steps) -> Steps | None:
    """Return a tag's coefficients for a multiple of its stride."""
    if tag.coefficients is None:
        return None
    return tuple(c * (to // step) for c, step, to in zip(tag.coefficients, tag.stride, stride, strict=True))


@functools.lru_cache(CACHED_TAGS)
def bitwise_tag(tags: tuple[Tag, ...], uniform: bool = False) -> Tag | None:
    """Return the tag of a function whose low bits depend on no higher bits of its arguments, such as a sum.

    `uniform` if all threads of a warp have the same values.
    """
    if not tags:
        return None
    anything = function_tag(*((tag, 32) for tag in tags), uniform=uniform)
    stride, align = _least_common(tag.stride for tag in tags), min(tag.align for tag in tags)
    if anything is None or not anything.dims or not align or max(stride) > MOST_STRIDE:
        return anything
    dims = functools.reduce(operator.or_, (tag.dims for tag in tags))
    return _any_change(dims, align, ALIKE if uniform else align, stride)


@functools.lru_cache(CACHED_TAGS)
def scaled_tag(tag: Tag | None, factor: int) -> Tag | None:
    """Return the tag of a multiple; `factor` is the same for all threads and blocks."""
    if tag is None or factor % WORD == 0:
        return None
    if tag.coefficients:
        return affine_tag(tuple(c * factor for c in tag.coefficients), tag.stride)
    zeros = trailing_zeros(factor)
    align, apart = tag.align + zeros, min(ALIKE, tag.apart + zeros)
    return _any_change(tag.dims if align < ALIKE else 0, align, apart, tag.stride)


def aligned_tag(tag: Tag | None, bits: int, most: int) -> Tag | None:
    """Return the tag for a stride at which the value changes by multiples of 2^bits; None if it exceeds `most`."""
    if tag is None or tag.align >= bits or tag.coefficients is None:
        return tag if tag and tag.align >= bits else None
    stride, lost = tag.lattice(bits)
    if lost or max(stride) > most:
        return None
    return affine_tag(_at_stride(tag, stride) or NOTHING, stride)


def right_shift_tag(tag: Tag, bits: int) -> Tag | None:
    """Return the tag of a right shift of an `aligned_tag` value that stays in range for all blocks."""
    assert tag.coefficients is not None
    return affine_tag(tuple(c >> bits for c in tag.coefficients), tag.stride)


def product_halves(
    tag: Tag, factor: int, grid: tuple[int, int, int], most: int
) -> tuple[Tag | None, Tag | None] | None:
    """Return the tags of the lower and the upper 32 bits of a product with a constant, which is how compilers divide.

    At some stride, the divisor for instance, the product changes by nearly a multiple of 2^32: the upper half by that
    multiple, the lower half by the rest, which may carry nothing. None if a dimension of the grid, in blocks, has no
    such stride up to `most`.
    """
    assert tag.coefficients is not None
    # A compiler divides by d with a factor of about 2^(32 + s) / d: over d indices the product grows by about
    # 2^(32 + s).
    changes = [c * factor for c in tag.coefficients]
    extents = (*grid, *(WORD,) * LOOP_AXES)  # how often a loop is run is not known beforehand
    multiples = [_dividing_multiple(change, extent, most) for change, extent in zip(changes, extents, strict=True)]
    if not all(multiples):
        return None
    stride = tuple(step * multiple for step, multiple in zip(tag.stride, multiples, strict=True))
    wholes = [change * multiple for change, multiple in zip(changes, multiples, strict=True)]
    quotients = [(whole + WORD // 2) // WORD for whole in wholes]
    rests = [whole - quotient * WORD for whole, quotient in zip(wholes, quotients, strict=True)]
    return affine_tag(tuple(rests), stride), affine_tag(tuple(quotients), stride)


def _dividing_multiple(change: int, blocks: int, most: int) -> int:
    """Return the least multiple of a change so near a multiple of 2^32 that it cannot add up to a carry, or 0."""
    for multiple in range(1, most + 1):
        # The number nearest to 0: the lower half changes by this much, blocks // multiple times across the grid.
        rest = (change * multiple + WORD // 2) % WORD - WORD // 2
        if abs(rest) * (blocks // multiple) < WORD // 2:
            return multiple
    return 0


def trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else 32


def _bits(conditions: Iterable[bool]) -> int:
    return sum(1 << axis for axis, condition in enumerate(conditions) if condition)


def _without(stride: Steps, dims: int) -> Steps:
    """Return the stride with 1 in these dimensions."""
    return tuple(1 if dims >> axis & 1 else step for axis, step in enumerate(stride))


def _least_common(strides: Iterable[Steps]) -> Steps:
    return tuple(math.lcm(*steps) for steps in zip(EVERY, *strides, strict=True))
