"""The registers of a block's threads in every launch at once.

A value is what all launches have in common, and how they differ, as a `Tag`: ``4 t + 256 u`` for thread t and any u
that is the same for the lanes of a warp. What a launch decides is such a u: parameters, the block index, what memory
holds at an address that is the same for all lanes, which iteration of a loop runs. Each u has a name, a bit of the
tag's `dims`, and how two of them are related is unknown. An unknown value may differ from lane to lane.

Operations are the emulator's (`operations`): what they do to tags, which there say how blocks differ, holds for
launches as well. Where paths meet, a register holds what either path left in it: see `join_values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.emulate.code import PRED, STACK_TOP, Code, Span
from ncu_swizzle.emulate.dependence import ALIKE, AXES, Tag, changing_tag, trailing_zeros
from ncu_swizzle.emulate.effects import BASES
from ncu_swizzle.emulate.machine import LaunchedGrid, Machine
from ncu_swizzle.emulate.registers import WarpView, is_uniform
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.operations import Bools

PARAMETER, CONSTANT_MEMORY, BLOCK, GRID, DATA, LOOP, PATH = range(7)  # kinds of what a launch decides
WORD_BYTES = 4


@dataclass(frozen=True)
class Name:
    """What a launch decides: a kind, and the byte of a parameter, an axis, or an instruction and a register."""

    kind: int
    place: int
    register: int = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Lanes:
    """Who executes: `may` holds every lane that can be among them, `must` those that are if any of its warp is."""

    may: Bools
    must: Bools

    def where(self, condition: Value | None) -> Lanes:
        """Return the lanes for which a condition is true."""
        if condition is None:
            return self
        if condition.tag is not None and uniform_in_warps(condition):  # a whole warp, or none of it
            return self
        sure = np.broadcast_to(np.asarray(condition.known) & (condition.tag is None), self.may.shape)
        return Lanes(may=self.may & (condition.bits | ~sure), must=self.must & condition.bits & sure)

    @property
    def exact(self) -> bool:
        """Whether it is known which lanes of a warp execute, if any do."""
        return bool((self.may == self.must).all())


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Cases in which a number that launches decide is known modulo 2^(first + bits); it is a multiple of 2^first.

    The machine then runs a block for each case. A loop variable has another remainder in each iteration: a case is
    that of the iteration that runs, and at the loop's head the cases' results are joined.
    """

    name: Name
    first: int = 0
    bits: int = 5
    start: Bits = field(default_factory=lambda: np.zeros((1, 1), np.uint32))  # by warp: to which the multiple is added

    @property
    def count(self) -> int:
        return 1 << self.bits

    @property
    def remainders(self) -> Bits:
        """Return the remainder of each case, (C,)."""
        return np.arange(self.count, dtype=np.uint32) << np.uint32(self.first)


def uniform_in_warps(value: Value) -> bool:
    """Return whether a value is the same in all lanes of each warp, whatever it is."""
    return value.bits.shape[1] == 1 and value.known is True


def splits(condition: Value | None, may: Bools) -> bool:
    """Return whether lanes of one warp may differ in a condition."""
    if condition is None or uniform_in_warps(condition):
        return False
    if condition.known is not True or condition.tag is not None:
        return True
    yes = may & condition.bits
    return bool((yes.any(axis=1) & (may & ~condition.bits).any(axis=1)).any())


class EveryLaunch(Machine):
    """A block of a given shape; the rest of the launch is unknown."""

    names: dict[Name, int]  # what launches decide, and its bit
    lanes: Lanes
    slots: dict[int, Value]  # words of local memory, by address
    split: Split | None
    # What registers hold in the lanes for which a predicate is true, or false: written under it, in this basic block.
    under: dict[tuple[int, bool], dict[int, Value]]

    @classmethod
    def of(cls, code: Code, block: Index, split: Split | None = None) -> EveryLaunch:
        """Return the machine of a kernel for blocks of this shape."""
        places = code.launch_constants
        size = max(code.parameter_offset + code.parameter_bytes, 1 << 10)
        bank, known = np.zeros(size, np.uint8), np.zeros(size, bool)
        for start, words in ((places.block, block), (places.stack, (STACK_TOP,))):
            end = start + WORD_BYTES * len(words)
            bank[start:end], known[start:end] = np.array(words, np.uint32).view(np.uint8), True
        # Bank 2 is the compiler's; what others hold, a program may set before a launch.
        constants = {number: content for number, content in code.constants.items() if number == COMPILED}
        spans = code.unknown_constants
        partly = {number: _known(len(content), spans.get(number, ())) for number, content in constants.items()}
        machine = cls.running(
            np.zeros((split.count if split else 1, 3), np.int64),
            LaunchedGrid(
                grid=(1, 1, 1), block=block, cluster=(1, 1, 1), constants={**constants, 0: bank.tobytes()},
                known_constants={**partly, 0: known}, memory={}, shared_size=0,
            ),
        )  # fmt: skip
        machine.names, machine.split, machine.under = {}, split, {}
        return machine

    def bit(self, name: Name) -> int:
        """Return the bit of `dims` for what a launch decides."""
        return 1 << AXES + self.names.setdefault(name, len(self.names))

    def deciding_names(self, dims: int) -> list[Name]:
        """Return what these bits of `dims` mean."""
        return [name for name, number in self.names.items() if dims >> AXES + number & 1]

    def any_number(self, name: Name, like: type = np.uint32) -> Value:
        """Return a number that a launch decides, the same for all lanes of a warp."""
        if self.split is not None and name == self.split.name and like is np.uint32:
            return self.remainder()
        return Value(np.zeros((1, 1), like), tag=changing_tag(self.bit(name)))

    def lacking_constant(self, bank: int, start: Value, plus: int, value: Value) -> Value:
        """Return a constant that launches decide."""
        if start.bits.shape[1] > 1 or start.known is not True:
            return Value(value.bits, False, self.now)
        if start.tag is not None:
            return self.any_number(Name(DATA, self.now))
        at = int(start.bits.flat[0]) + plus
        return self.any_number(Name(PARAMETER, at) if bank == 0 else Name(CONSTANT_MEMORY, at, bank))

    # ---------------------------------------------------------------------------------------------- cases

    def remainder(self) -> Value:
        """Return the split number, in each case."""
        assert self.split is not None
        start = self.split.start if len(self.split.start) == 1 else np.tile(self.split.start, (self.split.count, 1))
        bits = start + self.split.remainders[self.block_of][:, None]
        return Value(bits, tag=changing_tag(self.bit(self.split.name), self.split.first + self.split.bits))

    def any_case(self, value: Value) -> Value:
        """Return a register that holds what any of the cases has left in it: the same in all cases."""
        if value.bits.shape[0] == 1 and not isinstance(value.known, np.ndarray):
            return value
        assert self.split is not None
        shape = (self.warps, 32)
        cases, rows = self.split.count, self.per_block
        bits = np.broadcast_to(value.bits, shape)
        known = np.broadcast_to(np.asarray(value.known), shape)
        joint = None
        for case in range(cases):
            part = slice(case * rows, case * rows + rows)
            mask = self.lanes.may[part]
            certain = bool((known[part] | ~mask).all())
            lanes = slice(0, 1) if value.bits.shape[1] == 1 and certain else slice(None)
            one = Value(bits[part, lanes], True if certain else known[part], value.origin, value.tag)
            if joint is None:
                joint, of_joint = one, mask
            else:
                dims = self.bit(self.split.name)
                joint = join_values(joint, one, of_joint, mask, mixed=False, dims=dims)
                of_joint = of_joint | mask
        assert joint is not None
        known_here = joint.known if isinstance(joint.known, bool) else np.tile(joint.known, (cases, 1))
        return Value(np.tile(joint.bits, (cases, 1)), known_here, joint.origin, joint.tag)

    def any_case_lanes(self, lanes: Lanes) -> Lanes:
        """Return who may execute in any case, and who does in all."""
        assert self.split is not None
        shape = (self.split.count, self.per_block, 32)
        may, must = lanes.may.reshape(shape).any(axis=0), lanes.must.reshape(shape).all(axis=0)
        return Lanes(may=np.tile(may, (shape[0], 1)), must=np.tile(must, (shape[0], 1)))

    # ---------------------------------------------------------------------------------------------- registers

    def select_lanes(self, lanes: Lanes) -> None:
        """Let these lanes execute what follows."""
        self.lanes = lanes
        self.view = WarpView(warps=self.everyone, mask=lanes.may, whole=True)

    def get(self, number: int) -> Value:
        """Return a register, as it is in the lanes that read it."""
        value = self.registers[number]
        guard = self.guards[self.now] if self.guards else None
        if guard in self.under:
            value = self.under[guard].get(number, value)
        if value is not None:
            return value
        like = bool if number >= BASES[PRED] else np.uint32
        return Value(np.zeros((1, 32), like), False, self.now)

    def put(self, number: int | None, value: Value, guard: Value | None = None) -> None:
        """Write a register in the lanes for which the guard is true."""
        if number is None:
            return
        value = self.one_per_warp(value, is_uniform(number))
        self._note_under(number, None if guard is None else self.guards[self.now], value)
        old = self.registers[number]
        if guard is None or old is None:
            self.registers[number] = value
            return
        may = self.lanes.may
        if guard.tag is not None and uniform_in_warps(guard):
            joint = join_values(old, value, may, may, mixed=False, dims=guard.tag.dims)
        else:
            written = Lanes(may=may, must=may).where(guard)
            dims = self.bit(Name(DATA, self._origin(guard))) if guard.tag is None else guard.tag.dims
            joint = join_values(old, value, may & ~written.must, written.may, mixed=True, dims=dims)
        self.registers[number] = self.one_per_warp(joint, is_uniform(number))

    def _note_under(self, number: int, guard: tuple[int, bool] | None, value: Value) -> None:
        """Note that a register is written, in the lanes of a guard or in all."""
        for other in list(self.under):
            if other[0] == number:
                del self.under[other]
            elif guard is None or other[0] != guard[0]:
                self.under[other].pop(number, None)
        if guard is not None and guard[0] != number:
            self.under.setdefault(guard, {})[number] = value

    def one_per_warp(self, value: Value, is_uniform: bool) -> Value:
        """Return a value with one number per warp in that shape, (W, 1)."""
        if value.bits.shape[1] == 1:
            if value.known is not True:
                return self.any_number(Name(DATA, self._origin(value)), value.bits.dtype.type)
            if value.tag is not None and not value.tag.uniform:
                return Value(value.bits, tag=replace(value.tag, apart=ALIKE))
            return value if value.sure is None else Value(value.bits, tag=value.tag)
        if value.known is True and (value.tag is None or value.tag.uniform):
            mask = self.view.mask
            lanes = np.broadcast_to(value.bits, mask.shape)
            one = np.take_along_axis(lanes, mask.argmax(axis=1)[:, None], axis=1)
            if not ((lanes != one) & mask).any():
                return Value(one, tag=value.tag)
        if is_uniform:  # one of the lanes' numbers
            return self.any_number(Name(DATA, self._origin(value)), value.bits.dtype.type)
        return value

    def _origin(self, value: Value) -> int:
        return self.now if value.origin is None else value.origin


COMPILED = 2


def _known(size: int, spans: Sequence[Span]) -> Bools:
    known = np.ones(size, bool)
    for first, end in spans:
        known[first:end] = False
    return known


def identical(a: Value, b: Value) -> bool:
    """Return whether two values are known to be the same: bits, known lanes and tag."""
    if a is b:
        return True
    if a.tag != b.tag or a.bits.shape != b.bits.shape:
        return False
    if a.known is True and b.known is True:
        return a.bits.tobytes() == b.bits.tobytes()
    if not np.array_equal(a.known, b.known):
        return False
    return np.where(a.known, a.bits, 0).tobytes() == np.where(b.known, b.bits, 0).tobytes()


def join_values(a: Value, b: Value, of_a: Bools, of_b: Bools, *, mixed: bool, dims: int) -> Value:
    """Return a register that holds `a` in some lanes, (W, 32), `b` in others, and either one in lanes of both.

    `mixed`: lanes of one warp may hold different ones at the same time; otherwise all that execute together came
    by the same path. `dims` names what decides which one. 4 t on one path and 4 t + 32 on the other is 4 t + 32 u; if
    lanes are mixed, each has its own u.
    """
    # Most paths that meet agree, and a value that is the same for all lanes stays so when lanes are mixed.
    if identical(a, b) and (not mixed or a.tag is None or a.tag.apart == a.tag.align):
        return a
    mixed = mixed and bool((of_a.any(axis=1) & of_b.any(axis=1)).any())
    both, only_b = of_a & of_b, of_b & ~of_a
    first, second = np.broadcast_to(a.bits, both.shape), np.broadcast_to(b.bits, both.shape)
    known = (np.asarray(a.known) | ~of_a) & (np.asarray(b.known) | ~of_b)
    certain = bool(known.all())
    if first.dtype == bool:
        bits, tag = _joined_truths(a, b, first, second, both & known, only_b, mixed=mixed, dims=dims)
    else:
        bits, tag = _joined_numbers(a, b, first, second, both & known, only_b, mixed=mixed, dims=dims)
    if not certain:
        return Value(bits, known, b.origin if a.known is True else a.origin, tag)
    if bits.shape[1] > 1 and (tag is None or tag.uniform):
        lanes = of_a | of_b
        one = np.take_along_axis(bits, lanes.argmax(axis=1)[:, None], axis=1)
        bits = bits if ((bits != one) & lanes).any() else one
    return Value(bits, True, None, tag)


def _joined_numbers(
    a: Value, b: Value, first: Bits, second: Bits, both: Bools, only_b: Bools, *, mixed: bool, dims: int
) -> tuple[Bits, Tag | None]:
    """Return numbers and how they change: as either value does, and by their difference where either may be held."""
    differences = np.where(both, second - first, np.uint32(0))
    moved = np.take_along_axis(differences, both.argmax(axis=1)[:, None], axis=1)  # all lanes, on the second path
    align = trailing_zeros(int(np.bitwise_or.reduce(differences, axis=None)))
    apart = trailing_zeros(int(np.bitwise_or.reduce(np.where(both, differences - moved, 0), axis=None)))
    dims = dims if align < ALIKE else 0
    for tag in (a.tag, b.tag):
        if tag is not None:
            align, apart, dims = min(align, tag.align), min(apart, tag.apart), dims | tag.dims
    # Lanes that come by the second path only move with the others on it.
    bits = np.where(only_b, second - moved, first)
    return bits, changing_tag(dims, align, align if mixed else apart)


def _joined_truths(
    a: Value, b: Value, first: Bits, second: Bits, both: Bools, only_b: Bools, *, mixed: bool, dims: int
) -> tuple[Bits, Tag | None]:
    """Return truths and whether they change: uniformly, if each path has one truth for all lanes."""
    differ = bool(((first != second) & both).any())
    for tag in (a.tag, b.tag):
        dims |= 0 if tag is None else tag.dims
    if not differ and a.tag is b.tag is None:
        return np.where(only_b, second, first), None
    if a.bits.shape[1] == b.bits.shape[1] == 1 and not mixed:
        return a.bits, changing_tag(dims)
    return first, changing_tag(dims, 0, 0)


def mix_values(value: Value, shape: tuple[int, int]) -> Value:
    """Return a register of lanes that came by different paths: each has changed by its own amount."""
    if value.tag is None or value.tag.align == value.tag.apart:
        return value
    tag = replace(value.tag, apart=value.tag.align)
    return Value(np.broadcast_to(value.bits, shape), value.known, value.origin, tag)


@dataclass(eq=False)
class Moment:
    """What holds whenever an instruction is about to execute: which lanes, and the registers that matter."""

    lanes: Lanes
    registers: Mapping[int, Value] = field(default_factory=dict)
    slots: Mapping[int, Value] = field(default_factory=dict)  # words of local memory, by address
