"""32-bit or boolean values of all lanes of some warps at once, each lane known or unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.emulate.dependence import Tag, function_of

Bits = NDArray[Any]  # uint32 for numbers, bool for predicates; (warps, 32), either can be 1 if uniform
Known = bool | NDArray[np.bool_]

U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
MASK = np.uint64(0xFFFFFFFF)


Patches = tuple[tuple[NDArray[np.bool_], Tag | None], ...]  # disjoint lanes of all warps, (W, 32), and their tags


class Value:
    """`bits`, valid where `known`; unknowns came from the instruction at `origin`. `tag`: see dependence.

    The bits in `sure` are valid even where the rest is unknown: see partial. A register that was written in parts has
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
    """Say whether it is known in all of these lanes, (G, 32)."""
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


def joint(*sources: Value) -> Known:
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
    known = joint(*sources)
    return Value(bits, known, None if known is True else first_origin(*sources), tag)


def computed(bits: Bits, *sources: Value) -> Value:
    """Return a result computed from the sources that may depend on the block in any way."""
    return derived(bits, *sources, tag=dependent(*sources))


def dependent(*sources: Value) -> Tag | None:
    """Return the tag of any function of the sources: a result of uniform values is uniform."""
    if not any(source.tag for source in sources):
        return None
    uniform = all(source.bits.shape[-1] == 1 for source in sources)
    return function_of(*((source.tag, 32) for source in sources), uniform=uniform)


def signed(bits: Bits) -> Bits:
    """Return the numbers as int64, read as 32-bit two's complement."""
    return bits.view(I32).astype(I64)


def wide(low: Bits, high: Bits) -> Bits:
    """Return uint64 numbers from their halves."""
    return low.astype(U64) | high.astype(U64) << np.uint64(32)


def low_half(bits: Bits) -> Bits:
    """Return the lower 32 of 64 bits."""
    return (bits & MASK).astype(U32)


def high_half(bits: Bits) -> Bits:
    """Return the upper 32 of 64 bits."""
    return (bits >> np.uint64(32)).astype(U32)


def same_for_all(bits: Bits) -> int | None:
    """Return the number in all lanes of all warps; None if they differ."""
    first = bits.flat[0]
    return int(first) if bits.size == 1 or bool((bits == first).all()) else None
