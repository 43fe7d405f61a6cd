"""Numbers some of whose bits are known: bytes moved into a register that nothing was written to before."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem.banks import Bools, Ints

NO_BIT, EVERY = np.uint32(0), np.uint32(0xFFFFFFFF)


def sure_bits(value: Value) -> Bits:
    """Return which bits are known in each lane."""
    some = np.full((1, 1), NO_BIT) if value.sure is None else value.sure
    return np.where(value.known, EVERY, some)


def lowest(*values: Value) -> Bits | None:
    """Return the lowest bits that are known of all values: those of a sum, difference or product are known too."""
    if not _partly(*values):
        return None
    unknown = ~sure_bits(values[0])
    for value in values[1:]:
        unknown = unknown | ~sure_bits(value)
    return (unknown & (NO_BIT - unknown)) - np.uint32(1)


def _partly(*values: Value) -> bool:
    return any(value.sure is not None for value in values)


def with_sure(value: Value, sure: Bits | None) -> Value:
    """Return the value, of which these bits are known."""
    if value.known is True or sure is None or not sure.any():
        return value
    known = np.asarray(value.known) | (sure == EVERY)
    if known.all():
        return Value(value.bits, True, None, value.tag)
    return Value(value.bits, known, value.origin, value.tag, sure)


def written_sure(
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
    return with_sure(value, np.where(sure_bits(value) & np.uint32(mask) == mask, EVERY, NO_BIT))


def sure_of_bitwise(function: Callable[[Bits, Bits, Bits], Bits], values: tuple[Value, Value, Value]) -> Bits | None:
    """Return which bits of a bitwise function are the same whatever the unknown bits of its arguments are."""
    if all(value.known is False and value.sure is None for value in values):
        return None
    result = function(*(value.bits for value in values))
    changing = np.zeros((1, 1), np.uint32)
    for flips in itertools.product(*((False,) if value.known is True else (False, True) for value in values)):
        chosen = zip(values, flips, strict=True)
        changing = changing | (result ^ function(*(v.bits ^ ~sure_bits(v) if flip else v.bits for v, flip in chosen)))
    return ~changing


def sure_of_either(choice: Value, a: Value, b: Value) -> Bits | None:
    """Return which bits are known of a where the choice is true, of b elsewhere; those alike if it is unknown."""
    if not (_partly(a, b) or (choice.known is not True and a.known is not False and b.known is not False)):
        return None
    one, other = sure_bits(a), sure_bits(b)
    return np.where(choice.known, np.where(choice.bits, one, other), one & other & ~(a.bits ^ b.bits))
