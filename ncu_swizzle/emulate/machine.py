"""The state of the running blocks, and register access for the warps that execute.

All arrays hold the warps of all blocks consecutively. A `View` selects the warps that execute an instruction together,
and their active lanes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.dependence import MOST_STRIDE, Tag, any_way
from ncu_swizzle.emulate.effects import BASES, REGISTERS
from ncu_swizzle.emulate.faults import TooLarge
from ncu_swizzle.emulate.limits import LOCAL_BYTES
from ncu_swizzle.emulate.parse import PRED, UPRED, UREG
from ncu_swizzle.emulate.values import Bits, Known, Value, dependent, unknown
from ncu_swizzle.smem.banks import Bools, Ints

LANES = np.arange(32)
NONE = np.zeros((1, 1), bool)  # no lanes
STACK_TOP = 0x00FFFDC0  # the end of local memory, which c[0x0][0x28] holds
SHARED_WINDOW = 0x00007F01  # the upper halves of generic addresses, of shared and of local memory
LOCAL_WINDOW = 0x00007F02


@dataclass(frozen=True)
class View:
    """Some warps at the same instruction: ``warps`` (G,) ascending, ``mask`` (G, 32) of the active lanes."""

    warps: Ints
    mask: Bools
    whole: bool  # all warps with all their live lanes
    full: bool = False  # all lanes of its warps are active


@dataclass
class LocalWord:
    """A word of all threads' local memory; `known` has a bit per byte."""

    bits: Bits  # (W, 32) uint32
    known: Bits  # (W, 32) uint8
    origin: int | None = None
    tag: Tag | None = None

    @classmethod
    def nothing(cls, warps: int) -> LocalWord:
        """Return a word that has not been written yet."""
        return cls(np.zeros((warps, 32), np.uint32), np.zeros((warps, 32), np.uint8))

    def write(self, warps: Ints, lanes: Bools, byte: Bits, value: Value, size: int) -> None:
        """Write `size` bytes from byte `byte` on, in some lanes of some warps."""
        shift = np.uint32(8) * byte
        hole = np.uint32((1 << 8 * size) - 1) << shift
        touched = np.uint8((1 << size) - 1) << byte.astype(np.uint8)
        old, sure = self.bits[warps], self.known[warps]
        self.bits[warps] = np.where(lanes, (old & ~hole) | (value.bits << shift & hole), old)
        now_known = np.where(np.asarray(value.known), sure | touched, sure & ~touched)
        self.known[warps] = np.where(lanes, now_known, sure)
        if value.known is not True:
            self.origin = value.origin


@dataclass
class Machine:
    """Registers and memories of B blocks of the same launch."""

    blocks: Ints  # (B, 3): block indices
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    constants: Mapping[int, bytes]
    known_constants: Mapping[int, Bools]  # which bytes of a bank are known
    memory: Mapping[int, bytes]
    shared_size: int  # bytes per block
    ulps: Ints  # (B,): the error of approximate results in units in the last place, see operations.floating.mufu
    contended: frozenset[int] = frozenset()  # compare-and-swap loops in which lanes want the same word
    live: Bools = field(init=False)  # (W, 32): lanes that exist and have not exited

    def __post_init__(self) -> None:
        threads = self.block[0] * self.block[1] * self.block[2]
        self.threads = threads
        self.per_block = -(-threads // 32)
        self.warps = self.per_block * len(self.blocks)
        self.block_of = np.repeat(np.arange(len(self.blocks)), self.per_block)
        thread = (np.arange(self.per_block * 32)).reshape(self.per_block, 32)
        self.thread = np.tile(thread, (len(self.blocks), 1))
        self.live = self.thread < threads
        self.registers: list[Value | None] = [None] * REGISTERS
        self.boxes = Boxes(self.blocks, self.grid)
        self.log: Any = None
        self.everyone = np.arange(self.warps)
        self.view = View(self.everyone, self.live, True)
        self.local: dict[int, LocalWord] = {}  # by address / 4
        self.local_lost: int | None = None  # the instruction that stored to an unknown address of local memory
        self.overwritten: dict[int, Bools] = {}  # by array in memory: bytes that stores have overwritten
        self.stores: list[tuple[int, Value, Bools, list[Value]]] | None = (
            None  # all stores to global memory, if recorded
        )
        self.voted: Value | None = None
        self.shared: Bits = np.zeros((len(self.blocks), 0), np.uint8)
        self.shared_known: Bools = np.zeros((len(self.blocks), 0), bool)
        self.shared_origin: int | None = None
        self.shared_tag: Tag | None = None
        self.now = 0  # the index of the instruction that executes
        self.approximated = False  # whether an approximate instruction ran, see operations.floating
        # By barrier: the execution of BSSY that a lane joined, 0 for none.
        self.tokens = np.zeros((16, self.warps, 32), np.int64)

    def local_word(self, number: int) -> LocalWord:
        """Return a word of local memory to write to. Raises TooLarge."""
        word = self.local.get(number)
        if word is None:
            word = self.local[number] = LocalWord.nothing(self.warps)
            if self.local_bytes > LOCAL_BYTES:
                raise TooLarge(f"the threads that run together use more than {LOCAL_BYTES >> 20} MiB of local memory")
        return word

    @property
    def local_bytes(self) -> int:
        """The bytes that the tracked words of local memory take here."""
        return len(self.local) * self.warps * 32 * 5  # 4 of bits, 1 of which are known

    def keep_contents(self) -> None:
        """Track the contents of shared memory, unknown at first."""
        shape = (len(self.blocks), self.shared_size)
        self.shared, self.shared_known = np.zeros(shape, np.uint8), np.zeros(shape, bool)

    @cached_property
    def claims(self) -> tuple[Ints, Ints]:
        """By block and word: the thread, from 1, that swapped it since the block's last barrier, and by what."""
        shape = (len(self.blocks), -(-self.shared_size // 4))
        return np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def forget_claims(self, block: int) -> None:
        """Forget who swapped which words, at a barrier of the block."""
        if "claims" in vars(self):
            self.claims[0][block] = 0

    # ------------------------------------------------------------------------------------------ registers

    def get(self, number: int) -> Value:
        """Return a register of the view's warps."""
        value = self.registers[number]
        if value is None:
            return unknown(self.now, bool if number >= BASES[PRED] else np.uint32)
        return value if self.view.whole else self.part(value)

    def part(self, value: Value) -> Value:
        """Return the part of a value that belongs to the view's warps."""
        if len(self.view.warps) == self.warps:
            return value
        bits = value.bits if value.bits.shape[0] == 1 else value.bits[self.view.warps]
        known = value.known
        if not isinstance(known, bool) and known.shape[0] != 1:
            known = known[self.view.warps]
        return Value(bits, known, value.origin, value.tag)

    def put(self, number: int | None, value: Value, guard: Value | None = None) -> None:
        """Write a register of the view's warps, in the active lanes for which the guard is true."""
        if number is None:
            return
        view = self.view
        uniform = BASES[UREG] <= number < BASES[PRED] or number >= BASES[UPRED]
        if uniform and value.known is False:  # unknown in every lane, but the register has one value per warp
            value = Value(value.bits[:, :1], False, value.origin, value.tag)
        if view.whole and guard is None:
            self.registers[number] = value
            return
        selected, doubtful = self.selection(guard, 1 if uniform else 32)
        if not selected.any() and not doubtful.any():
            self._might_write(number, value, guard)
            return
        old = self.registers[number]
        all_warps = len(view.warps) == self.warps
        if all_warps and not doubtful.any() and bool((selected | ~self._alive(uniform)).all()):
            tag = value.tag
            if guard is not None and guard.tag is not None:  # another block may keep what the register held
                tag = dependent(value, guard, *([old] if old is not None else []))
            self.registers[number] = Value(value.bits, value.known, value.origin, tag)
            return
        narrow = uniform or self._stays_uniform(value, old, guard)
        if narrow and not uniform:
            selected, doubtful = self.selection(guard, 1)
        self.registers[number] = self._mixed(value, old, selected, doubtful, guard, 1 if narrow else 32)

    def _might_write(self, number: int, value: Value, guard: Value | None) -> None:
        """Record that other blocks may write a register that these blocks do not."""
        old = self.registers[number]
        if guard is not None and guard.tag is not None and old is not None:
            self.registers[number] = Value(old.bits, old.known, old.origin, dependent(old, value, guard))

    def _stays_uniform(self, value: Value, old: Value | None, guard: Value | None) -> bool:
        """Say whether a register is uniform in each warp before and after the write."""
        parts = [part for part in (value, old, guard) if part is not None]
        return self.view.whole and old is not None and all(part.bits.shape[1] == 1 for part in parts)

    def _alive(self, uniform: bool) -> Bools:
        alive: Bools = np.asarray(self.live.any(axis=1, keepdims=True)) if uniform else self.live
        return alive

    def selection(self, guard: Value | None, wide: int = 32) -> tuple[Bools, Bools]:
        """Return the lanes that execute an instruction, and those for which that is unknown, shape (G, wide)."""
        mask = self.view.mask if wide == 32 else np.ones((len(self.view.warps), 1), bool)
        if guard is None:
            return mask, NONE
        condition = guard.bits
        if wide == 1 and condition.shape[1] == 32:
            condition = condition[:, :1]
        if guard.known is True:
            return mask & condition, NONE
        known = np.asarray(guard.known)
        known = known[:, :1] if wide == 1 and known.ndim == 2 else known
        return mask & condition & known, mask & ~known

    def _mixed(
        self, value: Value, old: Value | None, selected: Bools, doubtful: Bools, guard: Value | None, wide: int
    ) -> Value:
        """Return the register with the selected lanes replaced and the doubtful lanes unknown."""
        warps = self.view.warps
        full = (self.warps, wide)
        if old is None:
            old = Value(np.zeros((1, 1), value.bits.dtype), False, self.now)
            tag = value.tag
        else:
            same = value.tag == old.tag
            tag = value.tag if same else dependent(value, old) if wide == 1 else any_way(value.tag, old.tag)
        if guard is not None and guard.tag is not None:
            tag = dependent(value, old, guard) if wide == 1 else any_way(value.tag, old.tag, guard.tag)
        bits = np.broadcast_to(old.bits, full).copy() if old.bits.shape != full else old.bits.copy()
        part = bits[warps]
        np.copyto(part, value.bits, where=selected)
        bits[warps] = part
        known: Known = True
        origin = old.origin
        if old.known is not True or value.known is not True or doubtful.any():
            known = np.broadcast_to(np.asarray(old.known), full).copy()
            sub = known[warps]
            np.copyto(sub, np.asarray(value.known), where=selected)
            sub &= ~doubtful
            known[warps] = sub
            if value.known is not True:
                origin = value.origin
            elif doubtful.any() and guard is not None:
                origin = guard.origin
            known = True if known.all() else known
        return Value(bits, known, origin, tag)

    def forget(self, numbers: int, origin: int) -> None:
        """Make the registers in a bit set unknown in the view's lanes."""
        number = 0
        while numbers >> number and number < REGISTERS:
            if numbers >> number & 1:
                like = bool if number >= BASES[PRED] else np.uint32
                self.put(number, unknown(origin, like))
            number += 1

    # ------------------------------------------------------------------------------------------ dependence on the block

    @cached_property
    def coarsest(self) -> int:
        """The coarsest stride of blocks worth following: more kinds of blocks would be left than blocks of a kind."""
        return min(MOST_STRIDE, math.isqrt(max(self.grid)))

    def follows(self, *values: Value) -> bool:
        """Say whether all values change by fixed steps between blocks that are near enough to be worth it."""
        tags = [value.tag for value in values if value.tag is not None]
        return all(tag.coefficients is not None and max(tag.stride) <= self.coarsest for tag in tags)

    def view_blocks(self) -> Ints:
        """Return the block of each of the view's warps."""
        blocks: Ints = self.block_of[self.view.warps]
        return blocks

    def decide(self, tag: Tag | None, bits: int = 32) -> None:
        """Record a decision by the lower bits of a value that depends on the block."""
        if tag is not None:
            self.boxes.decide(np.unique(self.view_blocks()), tag, bits)

    def keep_within(self, tag: Tag | None, values: Ints, least: Ints, most: Ints, lanes: Bools) -> None:
        """Keep only blocks for which each value, (G, 32) int64, stays in its bounds in the given lanes."""
        if tag is None:
            return
        shape = lanes.shape
        far = np.int64(1) << 40
        down = np.where(lanes, np.broadcast_to(values - least, shape), far).min(axis=1)
        up = np.where(lanes, np.broadcast_to(most - values, shape), far).min(axis=1)
        blocks, group = np.unique(self.view_blocks(), return_inverse=True)
        lowest = np.full(len(blocks), far)
        highest = np.full(len(blocks), far)
        np.minimum.at(lowest, group, down)
        np.minimum.at(highest, group, up)
        self.boxes.keep_within(tag, blocks, lowest, highest)

    # ------------------------------------------------------------------------------------------ barriers of a warp

    def certain_mask(self, guard: Value | None) -> tuple[Bools, Bools]:
        """Return the lanes that the guard selects and those for which that is unknown; this decides the tag."""
        if guard is not None:
            self.decide(guard.tag)
        return self.selection(guard)
