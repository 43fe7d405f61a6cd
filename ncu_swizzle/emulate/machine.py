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
from ncu_swizzle.emulate.clusters import Clusters
from ncu_swizzle.emulate.dependence import MOST_STRIDE, Tag, function_of, trailing_zeros
from ncu_swizzle.emulate.effects import BASES, REGISTERS
from ncu_swizzle.emulate.faults import TooLarge
from ncu_swizzle.emulate.limits import LOCAL_BYTES
from ncu_swizzle.emulate.local_word import LocalWord
from ncu_swizzle.emulate.mbarriers import Barriers
from ncu_swizzle.emulate.parse import PRED, UPRED, UREG
from ncu_swizzle.emulate.partial import written_sure
from ncu_swizzle.emulate.patches import merged, overwritten, tag_of
from ncu_swizzle.emulate.repeats import Repeats
from ncu_swizzle.emulate.values import Bits, Known, Patches, Value, dependent, unknown
from ncu_swizzle.smem.banks import Bools, Ints
from ncu_swizzle.smem.operations import LINE

LANES = np.arange(32)
NONE = np.zeros((1, 1), bool)  # no lanes
STACK_TOP = 0x00FFFDC0  # the end of local memory, which c[0x0][0x28] holds
SHARED_WINDOW = 0x00007F01  # the upper halves of generic addresses, of shared and of local memory
LOCAL_WINDOW = 0x00007F02
PARAMETER_WINDOW = 0x00007F03_00000000  # generic address of constant bank 0, whose parameters a kernel may point to


# By instruction: the number of the predicate that selects the lanes which it reads, and whether that is negated.
Guards = tuple[tuple[int, bool] | None, ...]


@dataclass(frozen=True)
class View:
    """Some warps at the same instruction: ``warps`` (G,) ascending, ``mask`` (G, 32) of the active lanes."""

    warps: Ints
    mask: Bools
    whole: bool  # all warps with all their live lanes
    full: bool = False  # all lanes of its warps are active


def _is_uniform(number: int) -> bool:
    """Say whether a register has one value per warp."""
    return BASES[UREG] <= number < BASES[PRED] or number >= BASES[UPRED]


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
        self.repeats = Repeats()
        self.clusters = Clusters(self.blocks, self.cluster)
        self.mbarriers = Barriers(len(self.blocks))
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
        self.shared_written = False  # whether anything known was ever stored there
        self.shared_origin: int | None = None
        self.shared_tag: Tag | None = None
        self.unordered: int | None = None  # the wait after which the order of accesses to shared memory is unknown
        self.now = 0  # the index of the instruction that executes
        self.guards: Guards = ()
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

    def see(self, warps: Ints, mask: Bools) -> None:
        """Let these lanes of these warps execute what follows."""
        whole = len(warps) == self.warps and bool((mask == self.live).all())
        self.view = View(warps, mask, whole, bool(mask.all()))

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
            return unknown(self.now, bool if number >= BASES[PRED] else np.uint32, uniform=_is_uniform(number))
        if value.patches is not None:
            tag = tag_of(value.patches, self.view.warps, self._reading(number))
            value = Value(value.bits, value.known, value.origin, tag, value.sure)
        return value if self.view.whole else self.part(value)

    def _reading(self, number: int) -> Bools:
        """Return the lanes whose value of a register matters to the instruction that executes: those of its guard."""
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
        uniform = _is_uniform(number)
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
            self.registers[number] = Value(value.bits, value.known, value.origin, tag, value.sure)
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
        """Return the lanes that execute an instruction, and those for which that is unknown, shape (G, wide).

        A warp executes for a uniform register, `wide` 1, if any of its lanes does.
        """
        mask = self.view.mask if wide == 32 else np.ones((len(self.view.warps), 1), bool)
        if guard is None:
            return mask, NONE
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
        tag, patches = self._mixed_tags(value, old, selected, doubtful, guard, wide)
        if old is None:
            old = Value(np.zeros((1, 1), value.bits.dtype), False, self.now)
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
        return Value(bits, known, origin, tag, written_sure(value, old, selected, doubtful, warps, full), patches)

    def _mixed_tags(
        self, value: Value, old: Value | None, selected: Bools, doubtful: Bools, guard: Value | None, wide: int
    ) -> tuple[Tag | None, Patches | None]:
        """Return the tag of a register that is partly overwritten, and those of its parts if they differ."""
        sources = [value.tag, *([old.tag] if old is not None else [])]
        if guard is not None and guard.tag is not None:  # other blocks may write other lanes
            return function_of(*((tag, 32) for tag in (*sources, guard.tag) if tag), uniform=wide == 1), None
        if doubtful.any():
            return merged(sources, wide == 1), None
        if old is not None and old.patches is None and old.tag == value.tag:
            return value.tag, None
        alive = self._alive(wide == 1)
        patches = overwritten(old, value, self.view.warps, selected, alive)
        return merged((tag for _, tag in patches), wide == 1), patches

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
        """Record a decision by the lower bits of a value that depends on the block or the iteration."""
        if tag is not None:
            self.boxes.decide(np.unique(self.view_blocks()), tag, bits)
            self.repeats.decide(tag, bits)

    def decide_request(self, tag: Tag | None, unit: int = 1) -> None:
        """Record that an address decides the wavefronts of a request: those of addresses 128 bytes apart are equal.

        `unit`: what a change from one iteration to the next must be a multiple of, in bytes.
        """
        if tag is not None:
            self.boxes.decide(np.unique(self.view_blocks()), tag, trailing_zeros(LINE))
            self.repeats.follow(tag, unit)

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
        self.repeats.keep_within(tag, blocks, lowest, highest)

    # ------------------------------------------------------------------------------------------ barriers of a warp

    def certain_mask(self, guard: Value | None) -> tuple[Bools, Bools]:
        """Return the lanes that the guard selects and those for which that is unknown; this decides the tag."""
        if guard is not None:
            self.decide(guard.tag)
        return self.selection(guard)
