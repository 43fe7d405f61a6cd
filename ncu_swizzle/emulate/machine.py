"""The running blocks: their launch and its constants, their `State`, decisions by values that depend on the block."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from ncu_swizzle.emulate.boxes import Boxes, Clusters
from ncu_swizzle.emulate.code import LOCAL_WINDOW, PARAMETER_WINDOW, STACK_TOP, Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.dependence import MOST_STRIDE, Tag, is_open, trailing_zeros
from ncu_swizzle.emulate.effects import REGISTERS
from ncu_swizzle.emulate.events import Event, EventLog, Kind, Watcher
from ncu_swizzle.emulate.faults import TooLarge
from ncu_swizzle.emulate.registers import Guards, RegisterFile, WarpView
from ncu_swizzle.emulate.requests import LOCAL_BYTES
from ncu_swizzle.emulate.state import LocalWord, State
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem.access import ALLOCATED, Index
from ncu_swizzle.smem.operations import LINE, Bools, Ints

LANES = np.arange(32)
LANE_BITS = np.uint32(1) << LANES.astype(np.uint32)
ALL_MASK = np.uint32(0xFFFFFFFF)


def coordinates(number: Any, extents: Index) -> tuple[Any, Any, Any]:
    """Return x, y and z of linear indices into a block or grid of these extents, x fastest."""
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Tickets that an atomic gives, as indices on an axis on which the grid has one block: see `tickets`."""

    origin: int  # the index of the atomic
    axis: int
    extent: int  # how many tickets there are
    counter: int | None = None  # the address of the word that it adds to, once it is known
    amount: int = 0  # what it adds
    several: bool = False  # whether blocks ask more than once: they may get any number

    def around(self, grid: Index) -> Index:
        """Return the extents of pairs of a block and a ticket."""
        x, y, z = (self.extent if axis == self.axis else size for axis, size in enumerate(grid))
        return x, y, z


@dataclass(eq=False, repr=False, kw_only=True)
class LaunchedGrid:
    """What all blocks of a launch share."""

    grid: Index
    block: Index
    cluster: Index
    constants: Mapping[int, bytes]
    known_constants: Mapping[int, Bools]  # which bytes of a bank are known
    memory: Mapping[int, bytes]
    shared_size: int  # bytes per block
    contended: frozenset[int] = frozenset()  # compare-and-swap loops in which lanes want the same word
    draw: Draw | None = None
    device: Any = None  # a `DeviceMemory`, if blocks are executed for what they leave there
    watcher: Watcher | None = None
    # Blocks whose work each block that runs takes over, one after the other, by clusterlaunchcontrol.try_cancel.
    taken: tuple[Index, ...] = ()

    @cached_property
    def extents(self) -> Index:
        """The extents to cover: the grid's, with tickets on an axis on which it has one block."""
        return self.grid if self.draw is None else self.draw.around(self.grid)


@dataclass(eq=False, repr=False, kw_only=True)
class Machine(State, RegisterFile, LaunchedGrid):
    """B blocks of the same launch that run side by side: their state, and their constants."""

    blocks: Ints  # (B, 3): block indices

    @classmethod
    def running(cls, blocks: Ints, launched: LaunchedGrid) -> Self:
        """Return a machine for these blocks of a grid."""
        return cls(blocks=blocks, **{shared.name: getattr(launched, shared.name) for shared in fields(LaunchedGrid)})

    def __post_init__(self) -> None:
        self.threads = math.prod(self.block)
        self.per_block = -(-self.threads // 32)  # warps
        self.warps = self.per_block * len(self.blocks)
        self.block_of = np.repeat(np.arange(len(self.blocks)), self.per_block)  # (W,)
        # By lane, (W, 32), the number of its thread in its block.
        self.thread = np.arange(self.warps * 32).reshape(self.warps, 32) % (self.per_block * 32)
        self.begin(self.thread < self.threads, len(self.blocks), REGISTERS)
        self.boxes = Boxes(self.blocks, self.extents)
        self.clusters = Clusters(self.blocks, self.cluster)
        self.mbarriers.reserved = 1 - self.clusters.ranks % 2 if self.clusters.size > 1 else None
        self.log: Any = None  # a `RequestLog`
        self.traffic: Any = None  # a `TrafficLog`, if global and local memory are counted
        self.everyone = np.arange(self.warps)
        self.view = WarpView(warps=self.everyone, mask=self.live, whole=True)
        # All stores to global memory, if recorded: the instruction, addresses, lanes and words.
        self.stores: list[tuple[int, Value, Bools, list[Value]]] | None = None
        self.events: EventLog | None = None  # if hazards are looked for
        self.valued: frozenset[int] = frozenset()  # stores whose values are noted
        self.now = 0  # the index of the instruction that executes
        self.guards: Guards = ()
        self.unwritten: set[int] = set()
        self.matrices: dict[Any, tuple[Any, Bits, Bools]] = {}  # in registers, as `products` reads them

    def local_word(self, number: int) -> LocalWord:
        """Return a word of local memory to write to. Raises TooLarge."""
        word = self.local.get(number)
        if word is None:
            word = self.local[number] = LocalWord.nothing(self.warps)
            if self.local_bytes > LOCAL_BYTES:
                raise TooLarge(f"the threads that run together use more than {LOCAL_BYTES >> 20} MiB of local memory")
        return word

    def lacking_constant(self, bank: int, start: Value, plus: int, value: Value) -> Value:  # noqa: ARG002  for others
        """Return what is read from a constant bank, `plus` bytes behind `start`, where some of it was not given."""
        return value

    @property
    def local_bytes(self) -> int:
        """The bytes that the tracked words of local memory take here."""
        return len(self.local) * self.warps * 32 * 5  # 4 of bits, 1 of which are known

    def keep_contents(self, cleared: int = 0) -> None:
        """Track the contents of shared memory: unknown at first, except `zeros` bytes that are 0."""
        shape = (len(self.blocks), self.shared_size)
        self.shared, self.shared_known = np.zeros(shape, np.uint8), np.zeros(shape, bool)
        if self.device is not None and self.device.zeros_in_shared:
            self.shared_known[:] = self.shared_written = True
        if cleared:
            self.shared_known[:, :cleared] = self.shared_written = True

    def note(self, kind: Kind, warps: Ints, data: Any = None, *, number: int | None = None, nbytes: int = 0) -> None:
        """Note an event of some warps, (G,), if events are noted; `number` is the instruction's."""
        self.order_lost |= kind is Kind.JOIN
        if self.events is not None and not self.events.full:
            self.events.add(Event(kind, self.now if number is None else number, warps, data), self.happened, nbytes)
            self.happened += 1

    def count_order(self, warps: Ints) -> None:
        """Count warps, (G,), that execute something that orders their accesses."""
        if self.events is not None:
            counted = self.ordering.setdefault(self.now, np.zeros(len(self.blocks), np.int64))
            counted += np.bincount(self.block_of[warps], minlength=len(self.blocks))

    def ordering_of(self, block: int) -> bytes:
        """Return, as bytes, how often a block did so, by instruction."""
        return repr([(number, n) for number, each in sorted(self.ordering.items()) if (n := int(each[block]))]).encode()

    @property
    def notes(self) -> bool:
        """Whether events are noted."""
        return self.events is not None and not self.events.full

    def note_lanes(self, warps: Ints, lanes: Bools, *, number: int | None = None) -> None:
        """Note that lanes, (G, 32), of warps, (G,), wait for each other, as if for those that have ended."""
        if self.notes:
            masks = self.masks(warps, lanes)
            self.note(Kind.WARP, warps, None if masks is None else masks[:, None], number=number)

    def masks(self, warps: Ints, lanes: Bools, *, ended: bool = True) -> Bits | None:
        """Return lanes of warps, (G, 32), as one mask per warp; None if all. `ended`: whether exited lanes count.

        A warp does not wait for exited lanes, but nothing arrives or fences on their behalf.
        """
        every = lanes | (~self.live[warps] if ended else self.thread[warps] >= self.threads)
        return None if every.all() else every @ LANE_BITS

    # ------------------------------------------------------------------------------------------ dependence on the block

    @cached_property
    def coarsest_stride(self) -> int:
        """The coarsest stride of blocks worth following: beyond it there are more kinds than blocks of a kind."""
        # A stride of s leaves s kinds of n / s blocks each: s > n / s beyond the root of n.
        return min(MOST_STRIDE, math.isqrt(max(self.extents)))

    def follows(self, *values: Value) -> bool:
        """Return whether all values change by fixed steps between blocks near enough to be worth following."""
        tags = [value.tag for value in values if value.tag is not None]
        return all(tag.coefficients is not None and max(tag.stride) <= self.coarsest_stride for tag in tags)

    def view_blocks(self) -> Ints:
        """Return the block of each of the view's warps, (G,), as an index among those that run."""
        blocks: Ints = self.block_of[self.view.warps]
        return blocks

    def whose(self, row: int, lane: int) -> tuple[Index, Index]:
        """Return thread and block, in x, y and z, of a lane of the view."""
        warp = int(self.view.warps[row])
        i, j, k = self.blocks[self.block_of[warp]].tolist()
        return coordinates(int(self.thread[warp, lane]), self.block), (i, j, k)

    def decide(self, tag: Tag | None, bits: int = 32) -> None:
        """Record a decision by the lower bits of a value that depends on the block or the iteration."""
        if tag is not None:
            self.boxes.decide(np.unique(self.view_blocks()), tag, bits)
            self.repeats.decide(tag, bits)

    def decide_count(self, tag: Tag | None, bits: int = 32, *, apart: bool) -> None:
        """Record a decision by a value that changes counts of the current instruction alone, not what threads do.

        `apart`: boxes that it would narrow are not; a run of its own is to count the instruction.
        """
        if tag is None:
            return
        blocks, lattice = np.unique(self.view_blocks()), tag.lattice(bits)
        if apart and self.draw is None and self.boxes.narrowed_by(blocks, *lattice).any():
            self.apart.setdefault((self.now, *lattice), np.zeros(len(self.blocks), bool))[blocks] = True
        else:
            self.boxes.decide(blocks, tag, bits)

    def counted_mask(self, guard: Value | None, *, apart: bool) -> tuple[Bools, Bools]:
        """Return what `certain_mask` does, for a guard that decides a count alone: see `decide_count`."""
        if guard is None or guard.tag is None or (self.log is not None and self.log.supposing):
            return self.certain_mask(guard)
        self.decide_count(guard.tag, apart=apart)
        self.repeats.decide(guard.tag)
        return self.selection(guard)

    def counted_apart(self) -> dict[int, Bools]:
        """Return the blocks, (B,), by instruction, whose boxes are wider than what was left apart allows."""
        wide: dict[int, Bools] = {}
        for (number, stride, dims), blocks in self.apart.items():
            which = np.flatnonzero(blocks)
            narrowed = which[self.boxes.narrowed_by(which, stride, dims)]
            if len(narrowed):
                wide.setdefault(number, np.zeros(len(self.blocks), bool))[narrowed] = True
        return wide

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
        # As good as no limit: the room left by lanes that are not selected.
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

    def ordering_lanes(self, guard: Value | None) -> tuple[Bools, Bools]:
        """Return what `certain_mask` does for an instruction that decides no count, but perhaps a race."""
        return self.selection(guard) if self.events is None else self.certain_mask(guard)

    def certain_mask(self, guard: Value | None) -> tuple[Bools, Bools]:
        """Return the lanes that the guard selects and those for which that is unknown; this decides the tag.

        On supposed paths, an unknown guard decides nothing: any of the lanes may execute.
        """
        supposed = self.log is not None and self.log.supposing
        if guard is not None and not (supposed and (guard.known is False or is_open(guard.tag))):
            self.decide(guard.tag)
        return self.selection(guard)


# ---------------------------------------------------------------------------------------------- constant banks
#
# Bank 0 as the driver fills it with sizes, addresses and parameters, and what is unknown. Offsets are in bytes.

STACK_AT = 0x28  # of sm_70 to sm_90, where the two words before it are what cvta.local adds
LOCAL_WINDOW_AT = 0x20
DYNAMIC_AT = 0x2C  # %dynamic_smem_size, to sm_90
PARAMETERS_SM90 = 0x210  # where parameters begin on sm_90
RESERVED_AT = 0x68  # %reserved_smem_offset_0 and _1: both 0 on an H100, with any static and dynamic shared memory


def bank_0(code: Code, launch: Launch) -> tuple[bytes, Bools]:
    """Return the bank, and which of its bytes are known."""
    size = max(code.parameter_offset + len(launch.parameters), PARAMETERS_SM90)
    content, known = bytearray(size), np.zeros(size, bool)

    def put(offset: int, layout: str, *values: float | bytes) -> None:
        struct.pack_into(layout, content, offset, *values)
        known[offset : offset + struct.calcsize(layout)] = True

    at = code.launch_constants
    put(at.block, "<3I", *launch.block)
    put(at.grid, "<3I", *launch.grid)
    put(at.stack, "<I", STACK_TOP)
    if at.stack == STACK_AT:
        put(LOCAL_WINDOW_AT, "<Q", LOCAL_WINDOW << 32)
    if code.parameter_offset <= PARAMETERS_SM90 and launch.shared_dynamic % ALLOCATED == 0:
        put(DYNAMIC_AT, "<I", launch.shared_dynamic)
    if code.parameter_offset == PARAMETERS_SM90:
        put(RESERVED_AT, "<Q", 0)
    if cluster := at.cluster:
        blocks = math.prod(launch.cluster)
        if blocks > 1:
            put(cluster.explicit, "<I", 1)
        put(cluster.parameters, "<Q", PARAMETER_WINDOW + code.parameter_offset)
        for back in {0, cluster.second}:
            put(cluster.extents - back, "<3I", *launch.cluster)
            put(cluster.clusters - back, "<3I", *(g // c for g, c in zip(launch.grid, launch.cluster, strict=True)))
            put(cluster.size - back, "<I", blocks)
            if cluster.second and launch.shared_dynamic % ALLOCATED == 0:
                put(cluster.dynamic - back, "<I", launch.shared_dynamic)
            for axis, extent in enumerate(launch.cluster):  # only exact inverses
                if extent & extent - 1 == 0:
                    put(cluster.inverses - back + 4 * axis, "<f", 1 / extent)
    put(code.parameter_offset, f"{len(launch.parameters)}s", launch.parameters)
    return bytes(content), known


def known_constants(code: Code, launch: Launch) -> dict[int, Bools]:
    """Return which bytes are known, for each of the module's banks with unknown bytes."""
    unknown = {**dict.fromkeys(launch.constants, ()), **launch.unknown_constants}
    masks = {}
    for bank, spans in {**code.unknown_constants, **unknown}.items():
        if spans:
            mask = masks[bank] = np.ones(len(launch.constants.get(bank, code.constants.get(bank, b""))), bool)
            for first, end in spans:
                mask[first:end] = False
    return masks
