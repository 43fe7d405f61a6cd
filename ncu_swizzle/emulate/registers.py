"""The registers of all warps of the running blocks; a `WarpView` selects the warps that execute one together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.code import PRED, UPRED, UREG
from ncu_swizzle.emulate.dependence import Tag, function_tag, is_open
from ncu_swizzle.emulate.effects import BASES
from ncu_swizzle.emulate.values import (
    Known,
    Patches,
    Value,
    dependent_tag,
    merged_tag,
    overwritten_patches,
    sure_bits_after_write,
    tag_of,
    unknown,
)
from ncu_swizzle.smem.operations import Bools, Ints

NONE = np.zeros((1, 1), bool)  # no lanes

# By instruction: the predicate that selects the lanes it reads, and whether that is negated.
Guards = tuple[tuple[int, bool] | None, ...]


@dataclass(frozen=True, kw_only=True)
class WarpView:
    """Some warps at the same instruction: ``warps`` (G,) ascending, ``mask`` (G, 32) of the active lanes."""

    warps: Ints
    mask: Bools
    whole: bool  # all warps with all their live lanes
    full: bool = False  # all lanes of its warps are active


def is_uniform(number: int) -> bool:
    """Return whether a register has one value per warp."""
    return BASES[UREG] <= number < BASES[PRED] or number >= BASES[UPRED]


class RegisterFile:
    """Register access for the warps that execute."""

    warps: int
    live: Bools  # (W, 32): lanes that exist and have not exited
    thread: Ints  # (W, 32): the number of each lane's thread in its block
    block_of: Ints  # (W,)
    view: WarpView
    registers: list[Value | None]
    guards: Guards
    now: int  # the index of the instruction that executes
    unwritten: set[int]  # the instructions that have read a register that nothing wrote

    def see(self, warps: Ints, mask: Bools) -> None:
        """Select the lanes of these warps that execute what follows."""
        whole = len(warps) == self.warps and bool((mask == self.live).all())
        self.view = WarpView(warps=warps, mask=mask, whole=whole, full=bool(mask.all()))

    def get(self, number: int) -> Value:
        """Return a register of the view's warps."""
        value = self.registers[number]
        if value is None:
            self.unwritten.add(self.now)
            return unknown(self.now, bool if number >= BASES[PRED] else np.uint32, uniform=is_uniform(number))
        if value.patches is not None:
            tag = tag_of(value.patches, self.view.warps, self._reading(number))
            value = Value(value.bits, value.known, value.origin, tag, value.sure)
        return value if self.view.whole else self.part(value)

    def tag_in(self, number: int | None, lanes: Bools, value: Value) -> Tag | None:
        """Return the tag of a register, whose value this is, in some lanes of the view's warps."""
        register = None if number is None else self.registers[number]
        if register is None or register.patches is None:
            return value.tag
        return tag_of(register.patches, self.view.warps, lanes)

    def _reading(self, number: int) -> Bools:
        """Return the lanes, (G, 32), whose value of a register matters to the current instruction: its guard's."""
        mask = self.view.mask
        guard = self.guards[self.now] if self.guards else None
        condition = self.registers[guard[0]] if guard is not None and guard[0] != number else None
        if guard is None or condition is None or condition.known is not True:
            return mask
        patches = condition.patches
        if condition.tag is not None and (patches is None or tag_of(patches, self.view.warps, mask) is not None):
            return mask
        bits = self.part(condition).bits
        selected: Bools = mask & (~bits if guard[1] else bits)
        return selected

    def part(self, value: Value) -> Value:
        """Return the part of a value that belongs to the view's warps."""
        if len(self.view.warps) == self.warps:
            return value
        bits = value.bits if value.bits.shape[0] == 1 else value.bits[self.view.warps]
        known = value.known
        if not isinstance(known, bool) and known.shape[0] != 1:
            known = known[self.view.warps]
        sure = value.sure
        if sure is not None and sure.shape[0] != 1:
            sure = sure[self.view.warps]
        return Value(bits, known, value.origin, value.tag, sure)

    def put(self, number: int | None, value: Value, guard: Value | None = None) -> None:
        """Write a register of the view's warps, in the active lanes for which the guard is true."""
        if number is None:
            return
        view = self.view
        uniform = is_uniform(number)
        if uniform and value.bits.shape[1] > 1:  # the register has one value per warp; which lane's is not known
            origin = self.now if value.origin is None else value.origin
            value = Value(value.bits[:, :1], False, origin, value.tag)
        if view.whole and guard is None:
            self.registers[number] = value
            return
        selected, doubtful = self.selection(guard, 1 if uniform else 32)
        old = self.registers[number]
        if not selected.any() and not doubtful.any():
            if guard is not None and guard.tag is not None and old is not None:  # other blocks may write it
                self.registers[number] = Value(
                    old.bits, old.known, old.origin, dependent_tag(old, value, guard), old.sure
                )
            return
        all_warps = len(view.warps) == self.warps
        if all_warps and not doubtful.any() and bool((selected | ~self._alive(uniform)).all()):
            tag = value.tag
            if guard is not None and guard.tag is not None:  # another block may keep what the register held
                tag = dependent_tag(value, guard, *([old] if old is not None else []))
            self.registers[number] = Value(value.bits, value.known, value.origin, tag, value.sure)
            return
        # A register that is uniform in each warp stays so if whole warps write what is uniform.
        sources = [source for source in (value, old, guard) if source is not None]
        stays_uniform = view.whole and old is not None and all(source.bits.shape[1] == 1 for source in sources)
        narrow = uniform or stays_uniform
        if narrow and not uniform:
            selected, doubtful = self.selection(guard, 1)
        self.registers[number] = self._mixed(
            value, old, selected=selected, doubtful=doubtful, guard=guard, wide=1 if narrow else 32
        )

    def _alive(self, uniform: bool) -> Bools:
        alive: Bools = np.asarray(self.live.any(axis=1, keepdims=True)) if uniform else self.live
        return alive

    def selection(self, guard: Value | None, wide: int = 32) -> tuple[Bools, Bools]:
        """Return the lanes that execute an instruction, and those for which that is unknown, shape (G, wide).

        A warp executes for a uniform register, `wide` 1, if any of its lanes does.
        """
        mask = self.view.mask if wide == 32 else np.ones((len(self.view.warps), 1), bool)
        if guard is None:
            return mask, NONE
        if is_open(guard.tag):
            return np.zeros_like(mask), mask
        if wide == 1 and guard.bits.shape[1] == 32:
            selected, doubtful = self.selection(guard)
            some: Bools = np.asarray(selected.any(axis=1, keepdims=True))
            return some, doubtful.any(axis=1, keepdims=True) & ~some
        if guard.known is True:
            return mask & guard.bits, NONE
        known = np.asarray(guard.known)
        return mask & guard.bits & known, mask & ~known

    def _mixed(
        self, value: Value, old: Value | None, selected: Bools, doubtful: Bools, guard: Value | None, wide: int
    ) -> Value:
        """Return the register with the selected lanes replaced and the doubtful lanes unknown."""
        warps = self.view.warps
        full = (self.warps, wide)
        tag, patches = self._mixed_tags(value, old, selected=selected, doubtful=doubtful, guard=guard, wide=wide)
        if old is None:
            old = Value(np.zeros((1, 1), value.bits.dtype), False)  # no instruction is to blame for the other lanes
        bits = np.broadcast_to(old.bits, full).copy() if old.bits.shape != full else old.bits.copy()
        view_bits = bits[warps]
        np.copyto(view_bits, value.bits, where=selected)
        bits[warps] = view_bits
        known: Known = True
        origin = old.origin
        if old.known is not True or value.known is not True or doubtful.any():
            known = np.broadcast_to(np.asarray(old.known), full).copy()
            view_known = known[warps]
            np.copyto(view_known, np.asarray(value.known), where=selected)
            view_known &= ~doubtful
            known[warps] = view_known
            if value.known is not True:
                origin = value.origin
            elif doubtful.any() and guard is not None:
                origin = guard.origin
            known = True if known.all() else known
        return Value(
            bits,
            known,
            origin=origin,
            tag=tag,
            sure=sure_bits_after_write(value, old, selected=selected, doubtful=doubtful, warps=warps, shape=full),
            patches=patches,
        )

    def _mixed_tags(
        self, value: Value, old: Value | None, selected: Bools, doubtful: Bools, guard: Value | None, wide: int
    ) -> tuple[Tag | None, Patches | None]:
        """Return the tag of a register that is partly overwritten, and those of its parts if they differ."""
        sources = [value.tag, *([old.tag] if old is not None else [])]
        if guard is not None and guard.tag is not None:  # other blocks may write other lanes
            return function_tag(*((tag, 32) for tag in (*sources, guard.tag) if tag), uniform=wide == 1), None
        if doubtful.any():
            return merged_tag(sources, wide == 1), None
        if old is not None and old.patches is None and old.tag == value.tag:
            return value.tag, None
        alive = self._alive(wide == 1)
        patches = overwritten_patches(old, value, self.view.warps, selected, alive)
        return merged_tag((tag for _, tag in patches), wide == 1), patches

    def forget(self, numbers: Iterable[int], origin: int, guard: Value | None = None) -> None:
        """Make registers unknown in the view's lanes for which the guard is true."""
        for number in numbers:
            self.put(number, unknown(origin, bool if number >= BASES[PRED] else np.uint32), guard)
