"""Values: 32-bit numbers or booleans of all lanes of some warps at once, known or unknown lane by lane, with a tag."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.emulate.dependence import Tag, bitwise_tag, function_tag
from ncu_swizzle.smem.operations import Bools, Ints

Bits = NDArray[Any]  # uint32 for numbers, bool for predicates; (warps, 32), either can be 1 if uniform
Known = bool | NDArray[np.bool_]

U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
MASK = np.uint64(0xFFFFFFFF)


Patches = tuple[tuple[NDArray[np.bool_], Tag | None], ...]  # disjoint lanes of all warps, (W, 32), and their tags


class Value:
    """`bits`, valid where `known`; unknowns came from the instruction at `origin`. `tag`: see `dependence`.

    The bits in `sure` are valid even where the rest is unknown. A register that was written in parts has
    `patches`: the tags of the parts, where `tag` holds for all of them.
    """

    __slots__ = ("bits", "known", "origin", "patches", "sure", "tag")

    def __init__(
        self,
        bits: Bits,
        known: Known = True,
        origin: int | None = None,
        tag: Tag | None = None,
        sure: Bits | None = None,
        patches: Patches | None = None,
    ) -> None:
        self.bits = bits
        self.known = known
        self.origin = origin
        self.tag = tag
        self.sure = sure
        self.patches = patches

    @property
    def certain(self) -> bool:
        """Whether it is known in all lanes."""
        return self.known is True or (self.known is not False and bool(np.all(self.known)))


def known_in(value: Value, lanes: NDArray[np.bool_]) -> bool:
    """Return whether it is known in all of these lanes, (G, 32)."""
    return value.known is True or bool((np.asarray(value.known) | ~lanes).all())


def constant(number: int) -> Value:
    """Return a number, modulo 2^32, in all lanes."""
    return Value(np.array([[number & 0xFFFFFFFF]], U32))


def truth(value: bool) -> Value:
    """Return a boolean in all lanes."""
    return Value(np.array([[value]], bool))


def unknown(origin: int, like: type = np.uint32, uniform: bool = False) -> Value:
    """Return an unknown value; `uniform` if all lanes of a warp certainly have the same."""
    return Value(np.zeros((1, 1 if uniform else 32), like), False, origin)


def all_known(*sources: Value) -> Known:
    """Return where all values are known."""
    result: Known = True
    for source in sources:
        if source.known is False:
            return False
        if source.known is not True:
            result = source.known if result is True else result & source.known
    return result


def first_origin(*sources: Value) -> int | None:
    """Return the origin of the first unknown value."""
    for source in sources:
        if source.known is not True and source.origin is not None:
            return source.origin
    return None


def derived(bits: Bits, *sources: Value, tag: Tag | None = None) -> Value:
    """Return a result computed from the sources: known where all of them are."""
    known = all_known(*sources)
    return Value(bits, known, None if known is True else first_origin(*sources), tag)


def computed(bits: Bits, *sources: Value) -> Value:
    """Return a result computed from the sources that may depend on the block in any way."""
    return derived(bits, *sources, tag=dependent_tag(*sources))


def dependent_tag(*sources: Value) -> Tag | None:
    """Return the tag of any function of the sources: a result of uniform values is uniform."""
    if not any(source.tag for source in sources):
        return None
    uniform = all(source.bits.shape[-1] == 1 for source in sources)
    return function_tag(*((source.tag, 32) for source in sources), uniform=uniform)


def signed(bits: Bits) -> Bits:
    """Return the numbers as int64, read as 32-bit two's complement."""
    return bits.view(I32).astype(I64)


def sign_extended(value: Value, size: int) -> Value:
    """Return a number of 8, 16 or 32 bits as one of 32, with its sign."""
    shift = np.int32(32 - size)
    return Value((value.bits.view(I32) << shift >> shift).view(U32), value.known, value.origin, value.tag)


def join_halves(low: Bits, high: Bits) -> Bits:
    """Return uint64 numbers from their halves."""
    halves = np.empty((*np.broadcast(low, high).shape, 2), U32)
    halves[..., 0], halves[..., 1] = low, high
    return halves.view(U64)[..., 0]


def low_half(bits: Bits) -> Bits:
    """Return the lower 32 of 64 bits."""
    return bits.astype(U32)  # modulo 2^32


def high_half(bits: Bits) -> Bits:
    """Return the upper 32 of 64 bits."""
    return (bits >> np.uint64(32)).astype(U32)


def same_for_all(bits: Bits) -> int | None:
    """Return the number in all lanes of all warps; None if they differ."""
    first = bits.flat[0]
    return int(first) if bits.size == 1 or bool((bits == first).all()) else None


# ---------------------------------------------------------------------------------------------- bits that are known


# Numbers some of whose bits are known: bytes moved into a register that nothing was written to before.


NO_BIT, EVERY = np.uint32(0), np.uint32(0xFFFFFFFF)


def sure_bits(value: Value) -> Bits:
    """Return which bits are known in each lane: a mask in the shape of the value, or one that broadcasts to it."""
    some = np.full((1, 1), NO_BIT) if value.sure is None else value.sure
    return np.where(value.known, EVERY, some)


def lowest_known_bits(*values: Value) -> Bits | None:
    """Return the low bits known in all values: those of a sum, difference or product are known too."""
    if not _partly(*values):
        return None
    # Carries and borrows go upwards only: below the lowest unknown bit, u & -u, all bits of the result are known.
    unsure = ~sure_bits(values[0])
    for value in values[1:]:
        unsure = unsure | ~sure_bits(value)
    return (unsure & (NO_BIT - unsure)) - np.uint32(1)  # below the lowest bit that is not known


def _partly(*values: Value) -> bool:
    return any(value.sure is not None for value in values)


def with_sure_bits(value: Value, sure: Bits | None) -> Value:
    """Return the value with these bits known."""
    if value.known is True or sure is None or not sure.any():
        return value
    known = np.asarray(value.known) | (sure == EVERY)
    if known.all():
        return Value(value.bits, True, None, value.tag)
    return Value(value.bits, known, value.origin, value.tag, sure)


def sure_bits_after_write(
    value: Value, old: Value, selected: Bools, doubtful: Bools, warps: Ints, shape: tuple[int, int]
) -> Bits | None:
    """Return which bits of a register are known after a write to the selected, maybe the doubtful lanes of warps."""
    if not _partly(value, old):
        return None
    sure = np.broadcast_to(sure_bits(old), shape).copy()
    sure[warps] = np.where(doubtful, NO_BIT, np.where(selected, sure_bits(value), sure[warps]))
    return sure


def narrowed(value: Value, mask: int) -> Value:
    """Return the value as known in the lanes that know the bits of the mask: nothing else may be read from it."""
    if value.sure is None:
        return value
    return with_sure_bits(value, np.where(sure_bits(value) & np.uint32(mask) == mask, EVERY, NO_BIT))


def sure_bits_of_bitwise(
    function: Callable[[Bits, Bits, Bits], Bits], values: tuple[Value, Value, Value]
) -> Bits | None:
    """Return which bits of a bitwise function do not depend on the unknown bits of its arguments."""
    if all(value.known is False and value.sure is None for value in values):
        return None
    # Each bit of the result depends on the same bit of the three arguments alone: all their unknown bits flipped
    # together, in the up to 8 combinations, show every case of every bit.
    result = function(*(value.bits for value in values))
    changing = np.zeros((1, 1), np.uint32)
    for flips in itertools.product(*((False,) if value.known is True else (False, True) for value in values)):
        chosen = zip(values, flips, strict=True)
        changing = changing | (result ^ function(*(v.bits ^ ~sure_bits(v) if flip else v.bits for v, flip in chosen)))
    return ~changing


def sure_bits_of_either(choice: Value, a: Value, b: Value) -> Bits | None:
    """Return the known bits of a where the choice is true, of b elsewhere; common ones if it is unknown."""
    if not (_partly(a, b) or (choice.known is not True and a.known is not False and b.known is not False)):
        return None
    one, other = sure_bits(a), sure_bits(b)
    return np.where(choice.known, np.where(choice.bits, one, other), one & other & ~(a.bits ^ b.bits))


# ---------------------------------------------------------------------------------------------- registers in parts


# The tags of a register whose lanes were written by different instructions.
#
# A warp that branches writes registers in parts, and a compiler reuses them for something else. A decision by some of
# the lanes depends on the block only as these lanes do.


MOST = 4  # parts of a register; any further ones are merged


def merged_tag(tags: Iterable[Tag | None], uniform: bool) -> Tag | None:
    """Return the tag of a value whose lanes have these; `uniform` if it is uniform in each warp."""
    different = set(tags)
    if len(different) == 1:
        return different.pop()
    return bitwise_tag(tuple(tag for tag in different if tag), uniform)


def tag_of(patches: Patches, warps: Ints, mask: Bools) -> Tag | None:
    """Return the tag of these lanes of a register; lanes without a patch were never written."""
    here = [(lanes, tag) for lanes, tag in patches if (lanes[warps] & mask).any()]
    return merged_tag((tag for _, tag in here), bool(here) and here[0][0].shape[1] == 1)


def overwritten_patches(old: Value | None, value: Value, warps: Ints, selected: Bools, alive: Bools) -> Patches:
    """Return the patches of a register after a write to the selected lanes of some warps; `alive` has its shape."""
    new = np.zeros(alive.shape, bool)
    new[warps] = selected
    before: Patches = () if old is None else ((alive, old.tag),) if old.patches is None else old.patches
    kept: list[tuple[Bools, Tag | None]] = []
    for lanes, tag in before:
        rest = lanes & ~new & alive
        if tag == value.tag:
            new = new | rest
        elif rest.any():
            kept.append((rest, tag))
    if len(kept) >= MOST:
        everything = np.logical_or.reduce([lanes for lanes, _ in kept])
        kept = [(everything, merged_tag((tag for _, tag in kept), alive.shape[1] == 1))]
    return (*kept, (new, value.tag))
