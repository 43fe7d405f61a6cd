"""Atomic operations on known memory: what each lane finds and leaves, one lane after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.operations.rounding import (
    BRAIN,
    F32,
    F64,
    HALF,
    SINGLE,
    Format,
    flush_denormals,
    pack_bits,
    round_to_format,
    unpack_bits,
    with_nan_of,
)
from ncu_swizzle.emulate.values import Bits, high_half, join_halves, low_half
from ncu_swizzle.smem.operations import Ints

Update = Callable[[Bits, Bits, Bits], Bits]  # of what is there, the operand and a second one, if there is one


def _increment(old: Bits, most: Bits, _: Bits) -> Bits:
    return np.where(old >= most, 0, old + np.uint32(1)).astype(old.dtype)


def _decrement(old: Bits, most: Bits, _: Bits) -> Bits:
    return np.where((old == 0) | (old > most), most, old - np.uint32(1)).astype(old.dtype)


_INTEGERS: dict[str, Update] = {
    "ADD": lambda old, data, _: old + data,
    "AND": lambda old, data, _: old & data,
    "OR": lambda old, data, _: old | data,
    "XOR": lambda old, data, _: old ^ data,
    "EXCH": lambda old, data, _: data,
    "MIN": lambda old, data, _: np.minimum(old, data),
    "MAX": lambda old, data, _: np.maximum(old, data),
    "INC": _increment,
    "DEC": _decrement,
    "CAS": lambda old, data, new: np.where(old == data, new, old),
    "CAST": lambda old, data, new: np.where(old == data, new, old),
}
_HALVES = {"F16x2": HALF, "F16": HALF, "BF16x2": BRAIN, "BF16": BRAIN, "BF16_V2": BRAIN, "F16_V2": HALF}
# Of floats next to each other, each of which is added for itself.
_VECTORS = {"F32x2": "F32", "F32x4": "F32", "F16x4": "F16x2", "F16x8": "F16x2", "BF16x4": "BF16x2", "BF16x8": "BF16x2"}
_FLOATS = ("F32", "F64", *_HALVES, *_VECTORS)


def floating(instruction: SassInstruction) -> bool:
    """Return whether it adds floating-point numbers, whose sum depends on the order of lanes and blocks."""
    return instruction.has(*_FLOATS) and instruction.has("ADD")


def vector(instruction: SassInstruction) -> bool:
    """Return whether it changes several words of 32 bits for a lane, each for itself."""
    return instruction.has(*_VECTORS)


def update_of(instruction: SassInstruction) -> Update | None:
    """Return what an instruction makes of a word, uint32 or uint64; None if that is not modelled.

    Of a vector, a word is one of its words of 32 bits.
    """
    if vector(instruction):
        return _float_sum(instruction) if instruction.has("ADD") else None
    name = "ADD" if instruction.has("POPC") else next((w for w in instruction.modifiers if w in _INTEGERS), "")
    if not name or instruction.has("128"):
        return None
    if instruction.has(*_FLOATS):
        return _float_sum(instruction) if name == "ADD" else None
    function = _INTEGERS[name]
    if name in ("MIN", "MAX") and instruction.has("S32", "S64"):
        return lambda old, data, new: function(_signed(old), _signed(data), new).view(old.dtype)
    return function


def _signed(bits: Bits) -> Bits:
    return bits.view(np.int64 if bits.dtype == np.uint64 else np.int32)


def _float_sum(instruction: SassInstruction) -> Update:
    words = [_VECTORS.get(word, word) for word in instruction.modifiers]
    form = next((_HALVES[word] for word in words if word in _HALVES), None)
    if form is not None:
        return functools.partial(_add_halves, form=form)
    if instruction.has("F64"):
        return _add_doubles
    return functools.partial(_add_floats, flush=instruction.has("FTZ"))


def _add_halves(old: Bits, data: Bits, _: Bits, form: Format) -> Bits:
    parts = [
        pack_bits(round_to_format(unpack_bits(old >> shift, form) + unpack_bits(data >> shift, form), form), form)
        for shift in (np.uint32(0), np.uint32(16))
    ]
    added: Bits = parts[0] | parts[1] << np.uint32(16)
    return added


def _add_doubles(old: Bits, data: Bits, _: Bits) -> Bits:
    one, other = old.view(F64), data.view(F64)
    return with_nan_of(one + other, one, other).view(np.uint64)


def _add_floats(old: Bits, data: Bits, _: Bits, flush: bool) -> Bits:
    one, other = old.view(F32), data.view(F32)
    total = flush_denormals(one) + flush_denormals(other) if flush else one + other
    return pack_bits(flush_denormals(total) if flush else total, SINGLE)


def perform(
    update: Update, content: Bits, places: Ints, size: int, operands: tuple[Bits, Bits], backwards: bool = False
) -> Bits:
    """Change words of `size` bytes, 4 or 8, at these places of the bytes `content`, lane by lane; return the old ones.

    `places` and each of the operands are (n,). Lanes at the same place take turns, in their order, or in the opposite
    one.
    """
    if backwards:
        return perform(update, content, places[::-1], size, (operands[0][::-1], operands[1][::-1]))[::-1]
    unit = np.uint32 if size == 4 else np.uint64
    words = content.view(unit) if content.size % size == 0 else content[: content.size // size * size].view(unit)
    at, old = places // size, np.zeros(len(places), unit)
    order = np.argsort(at, kind="stable")
    first = np.r_[True, at[order][1:] != at[order][:-1]] if len(at) else np.zeros(0, bool)
    turns = np.zeros(len(at), np.int64)
    begins = np.flatnonzero(first)
    turns[order] = np.arange(len(at)) - np.repeat(begins, np.diff(np.r_[begins, len(at)]))
    with np.errstate(all="ignore"):
        for turn in range(int(turns.max(initial=-1)) + 1):
            now = turns == turn
            old[now] = words[at[now]]
            words[at[now]] = update(old[now], operands[0][now], operands[1][now])
    return old


def split(words: Bits, count: int) -> list[Bits]:
    """Return a 32-bit word for each of `count` registers."""
    return [words] if count == 1 else [low_half(words), high_half(words)]


def joined(words: list[Bits]) -> Bits:
    """Return one number of one or two 32-bit words."""
    return words[0] if len(words) == 1 else join_halves(words[0], words[1])
