"""What an iteration of a loop does to registers: some change by fixed steps, all others must be as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.dependence import WORD, Tag, iteration, total
from ncu_swizzle.emulate.effects import BASES, REGISTERS
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.parse import PRED
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem.banks import Bools, Ints

UNKNOWN = -1  # what a sample says of a register that is not known, or was never written


def numbers_in(live: int) -> list[int]:
    """Return the registers in a bit set."""
    return [number for number in range(REGISTERS) if live >> number & 1]


def sample(m: Machine, numbers: Sequence[int], warp: int, lane: int) -> Ints:
    """Return what registers hold in one lane."""
    held = np.full(len(numbers), UNKNOWN, np.int64)
    for position, number in enumerate(numbers):
        value = m.registers[number]
        if value is not None and value.known is not False:
            rows, lanes = value.bits.shape
            held[position] = value.bits[warp if rows > 1 else 0, lane if lanes > 1 else 0]
    return held


@dataclass
class Advance:
    """By how much registers change, and the lanes in which they do."""

    numbers: Sequence[int]  # the registers that matter
    changes: dict[int, int]  # by register
    lanes: Bools  # (W, 32)

    @classmethod
    def between(cls, numbers: Sequence[int], before: Ints, after: Ints, lanes: Bools) -> Advance | None:
        """Return what two samples say; None if a predicate changes, or whether something is known."""
        changes: dict[int, int] = {}
        for position in np.flatnonzero(before != after).tolist():
            number, old, new = numbers[position], int(before[position]), int(after[position])
            if number >= BASES[PRED] or UNKNOWN in (old, new):
                return None
            changes[number] = (new - old + WORD // 2) % WORD - WORD // 2
        return cls(numbers, changes, lanes)

    def begin(self, m: Machine, axis: int) -> list[Value | None]:
        """Tag the registers that change; return all of them as they then are."""
        for number, change in self.changes.items():
            value, step = m.registers[number], iteration(axis, change)
            assert value is not None
            patches = value.patches
            if patches is not None:
                patches = tuple((lanes, total(tag, step)) for lanes, tag in patches)
            m.registers[number] = Value(
                value.bits, value.known, value.origin, total(value.tag, step), value.sure, patches
            )
        return list(m.registers)

    def happened(self, m: Machine, before: Sequence[Value | None]) -> bool:
        """Say whether the registers that matter changed so, and all others not."""
        return all(self._changed(m, before[number], m.registers[number], number) for number in self.numbers)

    def _changed(self, m: Machine, old: Value | None, new: Value | None, number: int) -> bool:
        change = self.changes.get(number, 0)
        if old is new:
            return not change
        if old is None or new is None or old.tag != new.tag or not _same_patches(old, new):
            return False
        where, lanes = m.live, self.lanes
        if old.bits.shape[1] == new.bits.shape[1] == 1:
            where, lanes = _of_warps(where), _of_warps(lanes)
        sure = _in_lanes(old.known, where)
        if not np.array_equal(sure, _in_lanes(new.known, where)) or not same_bits_known(old, new, where, change):
            return False
        if not sure.all() and old.origin != new.origin:
            return False
        expected = np.where(lanes, old.bits + np.uint32(change % WORD), old.bits) if change else old.bits
        wrong = (expected != new.bits) & where & np.asarray(old.known)
        return not bool(wrong.any())

    def apply(self, m: Machine, times: int) -> None:
        """Let the changes happen so many times more."""
        for number, change in self.changes.items():
            value = m.registers[number]
            assert value is not None
            by = np.uint32(change * times % WORD)
            whole = bool((self.lanes | ~m.live).all())
            lanes = _of_warps(self.lanes) if value.bits.shape[1] == 1 else self.lanes
            bits = value.bits + by if whole else np.where(lanes, value.bits + by, value.bits)
            m.registers[number] = Value(bits, value.known, value.origin, value.tag, value.sure, value.patches)


def strip(m: Machine, axis: int) -> None:
    """Remove an axis from the tags of all registers."""
    for number, value in enumerate(m.registers):
        if value is None:
            continue
        tags = [value.tag, *(tag for _, tag in value.patches or ())]
        if any(tag is not None and tag.loops >> axis & 1 for tag in tags):
            patches = value.patches
            if patches is not None:
                patches = tuple((lanes, _outside(tag, axis)) for lanes, tag in patches)
            tag = _outside(value.tag, axis)
            m.registers[number] = Value(value.bits, value.known, value.origin, tag, value.sure, patches)


def _of_warps(lanes: Bools) -> Bools:
    warps: Bools = np.asarray(lanes.any(axis=1, keepdims=True))
    return warps


def _outside(tag: Tag | None, axis: int) -> Tag | None:
    return None if tag is None else tag.outside(axis)


def _in_lanes(known: bool | Bools, where: Bools) -> Bools:
    return np.broadcast_to(np.asarray(known), where.shape)[where]


def same_bits_known(old: Value, new: Value, where: Bools, change: int) -> bool:
    """Say whether the same bits of values that are not wholly known are known, and hold the same."""
    if old.sure is None and new.sure is None:
        return True
    if change or old.sure is None or new.sure is None:
        return False
    sure = _spread(old.sure, where)
    differ = (sure ^ _spread(new.sure, where)) | (_spread(old.bits ^ new.bits, where) & sure)
    return not bool(differ[where].any())


def _spread(bits: Bits, where: Bools) -> Bits:
    spread: Bits = np.broadcast_to(bits, where.shape)
    return spread


def _same_patches(old: Value, new: Value) -> bool:
    if old.patches is None or new.patches is None:
        return old.patches is new.patches
    return len(old.patches) == len(new.patches) and all(
        tag == other and np.array_equal(lanes, others)
        for (lanes, tag), (others, other) in zip(old.patches, new.patches, strict=True)
    )
