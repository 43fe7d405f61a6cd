"""The state of the running blocks: registers, memories and barriers, and what values decided that depend on the block.

All arrays hold the warps of all blocks consecutively.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ncu_swizzle.emulate.boxes import Boxes, Clusters, Repeats
from ncu_swizzle.emulate.dependence import MOST_STRIDE, Tag, trailing_zeros
from ncu_swizzle.emulate.effects import REGISTERS
from ncu_swizzle.emulate.faults import TooLarge
from ncu_swizzle.emulate.registers import Guards, RegisterFile, WarpView
from ncu_swizzle.emulate.requests import LOCAL_BYTES
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.emulate.worlds import World
from ncu_swizzle.smem.operations import LINE, Bools, Ints

# A word of local memory, as all threads have it.


@dataclass(kw_only=True)
class LocalWord:
    """A word of all threads' local memory; `known` has a bit per byte."""

    bits: Bits  # (W, 32) uint32
    known: Bits  # (W, 32) uint8
    origin: int | None = None
    tag: Tag | None = None

    @classmethod
    def nothing(cls, warps: int) -> LocalWord:
        """Return a word that has not been written yet."""
        return cls(bits=np.zeros((warps, 32), np.uint32), known=np.zeros((warps, 32), np.uint8))

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


# The mbarriers of the running blocks: phases, pending arrivals, transaction counts (PTX ISA, "mbarrier").


@dataclass(kw_only=True)
class Barrier:
    """The mbarriers at one address, one per block."""

    expected: Ints  # arrivals of a phase
    pending: Ints  # of the current phase
    transactions: Ints  # bytes that it still waits for; negative if they come first
    phase: Ints  # parity of the current phase
    unsure: Bools  # whether an arrival was unknown: it may complete at any time
    blurred: Bools  # whether bytes were unknown: it completes once nothing else can happen
    completed: Ints  # phases so far

    @classmethod
    def nowhere(cls, blocks: int) -> Barrier:
        """Return barriers that were not initialised: nothing is known of them."""
        pending, transactions, expected, phase, completed = (np.zeros(blocks, np.int64) for _ in range(5))
        return cls(
            expected=expected,
            pending=pending,
            transactions=transactions,
            phase=phase,
            unsure=np.ones(blocks, bool),
            blurred=np.zeros(blocks, bool),
            completed=completed,
        )

    def complete(self, blocks: Ints) -> None:
        """Start the next phase in these blocks."""
        self.phase[blocks] ^= 1
        self.pending[blocks] = self.expected[blocks]
        self.transactions[blocks] = 0
        self.blurred[blocks] = False
        self.completed[blocks] += 1


@dataclass
class Barriers:
    """All mbarriers, by their offset in shared memory. `version` grows with every change."""

    blocks: int
    at: dict[int, Barrier] = field(default_factory=dict)
    version: int = 0

    def _barrier(self, offset: int) -> Barrier:
        self.version += 1
        if offset not in self.at:
            self.at[offset] = Barrier.nowhere(self.blocks)
        return self.at[offset]

    def initialise(self, offset: int, blocks: Ints, count: Ints) -> None:
        """Start the first phase of the barrier in these blocks."""
        barrier = self._barrier(offset)
        barrier.expected[blocks] = barrier.pending[blocks] = count
        barrier.transactions[blocks] = barrier.phase[blocks] = 0
        barrier.unsure[blocks] = barrier.blurred[blocks] = False

    def update(self, offset: int, blocks: Ints, arrivals: Ints, transactions: Ints, drop: bool = False) -> None:
        """Add arrivals and expected bytes, one row each; a block may be named repeatedly.

        `drop`: the arrivals are not expected again in later phases.
        """
        barrier = self._barrier(offset)
        if drop:
            np.subtract.at(barrier.expected, blocks, arrivals)
        np.subtract.at(barrier.pending, blocks, arrivals)
        np.add.at(barrier.transactions, blocks, transactions)
        barrier.unsure |= barrier.pending < 0
        touched = np.unique(blocks)
        sure = ~barrier.unsure[touched] & ~barrier.blurred[touched]
        done = (barrier.pending[touched] == 0) & (barrier.transactions[touched] == 0) & sure
        barrier.complete(touched[done])

    def doubt(self, blocks: Ints, offset: int | None = None) -> None:
        """Record that something unknown happened to the barrier, or to any of these blocks."""
        for barrier in self.at.values() if offset is None else (self._barrier(offset),):
            barrier.unsure[blocks] = True
        self.version += 1

    def blur(self, offset: int, blocks: Ints) -> None:
        """Record that an unknown number of bytes was expected or has arrived."""
        self._barrier(offset).blurred[blocks] = True

    def settle(self) -> None:
        """Complete the phases that wait for bytes alone, now that every copy has been issued and no thread can run."""
        for barrier in self.at.values():
            done = np.flatnonzero(barrier.blurred & (barrier.pending == 0) & ~barrier.unsure)
            if len(done):
                barrier.complete(done)
                self.version += 1

    def phase(self, offset: int, block: int) -> int | None:
        """Return how many phases of a block's barrier have completed; None if that is not known."""
        barrier = self.at.get(offset)
        if barrier is None or barrier.unsure[block] or barrier.blurred[block]:
            return None
        return int(barrier.completed[block])

    def lacking(self, offset: int, block: int) -> int:
        """Return the bytes that are missing (negative: too many) if nothing else keeps a phase from completing."""
        barrier = self.at.get(offset)
        if barrier is None or barrier.unsure[block] or barrier.blurred[block] or barrier.pending[block]:
            return 0
        return int(barrier.transactions[block])

    def passed(self, offset: int, blocks: Ints, parity: Ints) -> Bools:
        """Say whether the phase of this parity is complete; False if unsure."""
        barrier = self.at.get(offset)
        if barrier is None:
            return np.zeros(len(blocks), bool)
        complete: Bools = (barrier.phase[blocks] != parity) & ~barrier.unsure[blocks]
        return complete


LANES = np.arange(32)
STACK_TOP = 0x00FFFDC0  # the end of local memory, which c[0x0][0x28] holds
# Beyond the 47 bits in which a process has its memory: a captured launch has the addresses of a real one.
SHARED_WINDOW = 0x00008001  # the upper halves of generic addresses, of shared and of local memory
LOCAL_WINDOW = 0x00008002
PARAMETER_WINDOW = 0x00008003_00000000  # generic address of constant bank 0, whose parameters a kernel may point to


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Tickets that an atomic gives, as indices on an axis on which the grid has one block: see `tickets`."""

    origin: int  # the index of the atomic
    axis: int
    extent: int  # how many tickets there are
    counter: int | None = None  # the address of the word that it adds to, once it is known
    amount: int = 0  # what it adds
    several: bool = False  # whether blocks ask more than once: what they get is any number

    def around(self, grid: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the extents of pairs of a block and a ticket."""
        x, y, z = (self.extent if axis == self.axis else size for axis, size in enumerate(grid))
        return x, y, z


@dataclass
class Machine(RegisterFile):
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
    draw: Draw | None = None
    world: World | None = None  # draws what cannot be known
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
        self.boxes = Boxes(self.blocks, self.extents)
        self.repeats = Repeats()
        self.clusters = Clusters(self.blocks, self.cluster)
        self.mbarriers = Barriers(len(self.blocks))
        self.log: Any = None
        self.everyone = np.arange(self.warps)
        self.view = WarpView(warps=self.everyone, mask=self.live, whole=True)
        self.local: dict[int, LocalWord] = {}  # by address / 4
        self.local_lost: int | None = None  # the instruction that stored to an unknown address of local memory
        self.overwritten: dict[int, Bools] = {}  # by array in memory: bytes that stores have overwritten
        self.lost_by: int | None = None  # where the unknown address of a store to global memory came from
        self.stores: list[tuple[int, Value, Bools, list[Value]]] | None = (
            None  # all stores to global memory, if recorded
        )
        self.asked: Bools = np.zeros(len(self.blocks), bool)  # blocks that took a ticket
        self.voted: Value | None = None
        self.shared: Bits = np.zeros((len(self.blocks), 0), np.uint8)
        self.shared_known: Bools = np.zeros((len(self.blocks), 0), bool)
        self.shared_written = False  # whether anything known was ever stored there
        self.shared_origin: int | None = None
        self.shared_tag: Tag | None = None  # of all words but those in `shared_tags`
        self.shared_tags: dict[int, list[Tag | None]] = {}  # by byte and block, of words that single lanes wrote
        self.starved: list[tuple[int, int, int]] = []  # waits for bytes that never come: block, barrier, bytes
        self.unordered: int | None = None  # the wait after which the order of accesses to shared memory is unknown
        self.now = 0  # the index of the instruction that executes
        self.guards: Guards = ()
        # By barrier: the execution of BSSY that a lane joined, 0 for none.
        self.tokens = np.zeros((16, self.warps, 32), np.int64)

    @cached_property
    def extents(self) -> tuple[int, int, int]:
        """The grid, and on an axis on which it has one block, the tickets."""
        return self.grid if self.draw is None else self.draw.around(self.grid)

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
        if self.world is not None:
            self.shared[:], self.shared_known[:] = self.world.shared[: self.shared_size], True
            self.shared_written = True

    @cached_property
    def claims(self) -> tuple[Ints, Ints]:
        """By block and word: the thread, from 1, that swapped it since the block's last barrier, and by what."""
        shape = (len(self.blocks), -(-self.shared_size // 4))
        return np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def forget_claims(self, block: int) -> None:
        """Forget who swapped which words, at a barrier of the block."""
        if "claims" in vars(self):
            self.claims[0][block] = 0

    # ------------------------------------------------------------------------------------------ dependence on the block

    @cached_property
    def coarsest(self) -> int:
        """The coarsest stride of blocks worth following: more kinds of blocks would be left than blocks of a kind."""
        return min(MOST_STRIDE, math.isqrt(max(self.extents)))

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
            # Lanes that move apart, even by lines, may no longer read the same word.
            bits = trailing_zeros(LINE) if tag.uniform else 32
            self.boxes.decide(np.unique(self.view_blocks()), tag, bits)
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
