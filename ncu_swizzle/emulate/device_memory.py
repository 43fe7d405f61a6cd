"""Global memory while launches execute: what its arrays hold, which bytes are known, and which instruction wrote them.

All arrays are one flat array of bytes here; `places` says where in it lanes access. Two arrays of the same length say
of each byte that a launch has written by which instruction, and by which thread.

Where nobody says what the arrays hold, nor how large they are, memory is drawn page by page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from ncu_swizzle.emulate.contents import KNOWN, UNITS
from ncu_swizzle.emulate.counts import Buffer, OutOfBounds
from ncu_swizzle.emulate.faults import MemoryFault, TooLarge
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.values import Bits, Value, known_in, unknown
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.operations import Bools, Ints

# In place of the instruction's index plus 1: nothing in this launch; an earlier one, what it left being marked, or not.
UNTOUCHED, MARKED_BEFORE, KEPT = 0, -1, -2
THREAD_BITS = 10  # of the number of a thread in the grid; its block is above
ALIGNED = 512  # where arrays begin in the flat one, relative to their addresses
PAGE = 1 << 12  # bytes that are drawn at once
MOST_PAGES = 1 << 14
FIRST_PAGES = 16  # that there is room for at first
NO_PAGE = 1 << 52  # numbers from here on are of no address


def storing_order(lanes: Bools, size: int, backwards: bool) -> Ints:
    """Return the order of stores of lanes, (G, 32), by which of lanes at the same place the one of an H100 remains.

    A warp stores 128 bytes at once: of the lanes of a pass the lowest one remains, and of passes the last one.
    `backwards`: so that the first one remains.
    """
    columns = np.nonzero(lanes)[1]
    at_once = min(32, 128 // size)
    order = np.concatenate([np.flatnonzero(columns // at_once == one)[::-1] for one in range(32 // at_once)])
    return order[::-1] if backwards else order


@dataclass(eq=False)
class Cells:
    """Bytes that lanes load and store by their places: a memory's contents, and which of them are known."""

    content: Bits  # uint8
    known: Bits  # uint8, 1 or 0

    def load(self, places: Ints, size: int) -> tuple[Bits, Bools]:
        """Return the words at some places, (n,) each: (words, n) uint32, zero-extended, and whether they are known."""
        unit = UNITS[min(size, 4)]
        first = places // unit().itemsize + np.arange(max(1, size // 4))[:, None]
        return self.content.view(unit)[first].astype(np.uint32), self.known.view(unit)[first] == KNOWN[unit]

    def store(self, places: Ints, size: int, words: Bits, known: Bools) -> None:
        """Store words, (words, n); of lanes with the same place, the last one's remains."""
        unit = UNITS[min(size, 4)]
        first = places // unit().itemsize
        for k in range(max(1, size // 4)):
            self.content.view(unit)[first + k] = words[k].astype(unit)
            self.known.view(unit)[first + k] = np.where(known[k], KNOWN[unit], unit(0))


@dataclass(eq=False)
class DeviceMemory(Cells):
    """The arrays of a process in global memory."""

    buffers: tuple[Buffer, ...]  # by address
    starts: Ints  # where each begins in `content`
    by: Ints  # of each byte: the index plus 1 of the instruction that wrote it in this launch, or a name above
    who: Ints  # of each byte that has a writer: the number of the block times 2^THREAD_BITS, plus that of the thread
    bases: Ints = field(init=False)
    sizes: Ints = field(init=False)
    read: dict[int, set[int]] = field(default_factory=dict)  # by loading instruction: what wrote the bytes, as in `by`
    changes: int = 0  # stores of something new: threads that wait for one do not run in circles
    lost: str = ""  # why nothing is known any more
    backwards: bool = False  # whether lanes take turns at a word the other way round
    zeros_in_shared: ClassVar[bool] = False  # whether shared memory begins with zeros, and not with what is unknown

    def __post_init__(self) -> None:
        self.bases = np.array([buffer.address for buffer in self.buffers], np.int64)
        self.sizes = np.array([buffer.size for buffer in self.buffers], np.int64)

    @classmethod
    def holding(cls, buffers: Sequence[Buffer], contents: Mapping[int, bytes]) -> DeviceMemory:
        """Return memory with these buffers, and what is known of it by address."""
        pieces = [Buffer("", at, len(content)) for at, content in contents.items()]
        named = tuple(sorted(buffers, key=lambda each: each.address))
        alone = [one for one in pieces if not any(b.address <= one.address < b.address + b.size for b in named)]
        ordered = tuple(sorted((*named, *alone), key=lambda each: each.address))
        starts, end = [], 0
        for buffer in ordered:
            starts.append(end + buffer.address % ALIGNED)
            end = -(-(starts[-1] + buffer.size) // ALIGNED) * ALIGNED
        content, known = np.zeros(end, np.uint8), np.zeros(end, np.uint8)
        memory = cls(
            content, known, ordered, np.array(starts, np.int64), np.zeros(end, np.int64), np.zeros(end, np.int64)
        )
        for at, piece in contents.items():
            here = memory.span(at, len(piece))
            memory.content[here], memory.known[here] = np.frombuffer(piece, np.uint8), 1
        return memory

    def span(self, address: int, size: int) -> slice:
        """Return where some bytes of a buffer are in `content`; raise ValueError if they are in none."""
        for buffer, start in zip(self.buffers, self.starts.tolist(), strict=True):
            if buffer.address <= address and address + size <= buffer.address + buffer.size:
                first = start + address - buffer.address
                return slice(first, first + size)
        raise ValueError(f"no buffer has {size} bytes at {address:#x}")

    def places(self, m: Machine, at: Bits, lanes: Bools, size: int) -> Ints:
        """Return where in `content` these lanes, (G, 32), access their addresses, (n,); raise MemoryFault."""
        rows, columns = np.nonzero(lanes)
        address = at[rows, columns].view(np.int64)
        return self.places_of(m, address, size, lambda wrong: m.whose(int(rows[wrong]), int(columns[wrong])))

    def places_of(self, m: Machine, address: Ints, size: int, whose: Callable[[int], tuple[Index, Index]]) -> Ints:
        """Return where in `content` accesses of `size` bytes go, (n,); `whose`: thread and block of one of them."""
        if not len(self.buffers):
            raise self._fault(m, int(address[0]), size, whose(0))
        before = np.maximum(np.searchsorted(self.bases, address, "right") - 1, 0)
        offset = address - self.bases[before]
        wrong = (offset < 0) | (offset + size > self.sizes[before]) | (address % size != 0)
        if wrong.any():
            first = int(wrong.argmax())
            raise self._fault(m, int(address[first]), size, whose(first))
        found: Ints = self.starts[before] + offset
        return found

    def _fault(self, m: Machine, address: int, size: int, whose: tuple[Index, Index]) -> MemoryFault:
        instruction = m.log.instructions[m.now]
        if address % size:
            what = f"global address {address:#x} is not a multiple of {size}"
            return MemoryFault(instruction.offset, instruction.text, what, *whose)
        outside = OutOfBounds.of(
            self.buffers, offset=instruction.offset, does="", width=size, address=address, thread=whose[0],
            block=whose[1], times=1,
        )  # fmt: skip
        what = f"it accesses {size} byte{'s' if size > 1 else ''} {outside.where}"
        return MemoryFault(instruction.offset, instruction.text, what, *whose)

    def values(self, m: Machine, address: Value, selected: Bools, size: int) -> list[Value]:
        """Return what lanes load, a value per word."""
        count = max(1, size // 4)
        if not known_in(address, selected):
            return [unknown(m.now if address.origin is None else address.origin)] * count
        at = np.broadcast_to(address.bits, selected.shape).astype(np.uint64)
        places = self.places(m, at, selected, size)
        words, sure = self.load(places, size)
        self.note_read(m.now, places, size)
        bits, known = np.zeros((count, *selected.shape), np.uint32), np.ones((count, *selected.shape), bool)
        bits[:, selected], known[:, selected] = words, sure
        return [Value(bits[k], True if sure[k].all() else known[k], m.now) for k in range(count)]

    def note_read(self, now: int, places: Ints, size: int) -> None:
        """Note which instructions wrote the bytes that an instruction reads."""
        writers = self.by[places + np.arange(size)[:, None]]
        if (writers != UNTOUCHED).any():
            self.read.setdefault(now, set()).update(np.unique(writers).tolist())

    def wrote(self, m: Machine, places: Ints, size: int, lanes: Bools) -> None:
        """Note that lanes, (G, 32), have written to their places."""
        order = storing_order(lanes, size, self.backwards)
        rows, columns = (each[order] for each in np.nonzero(lanes))
        places = places[order]
        self.wrote_by(m, places, size, m.view_blocks()[rows], m.thread[m.view.warps[rows], columns])

    def wrote_by(self, m: Machine, places: Ints, size: int, blocks: Ints | int, threads: Ints | int) -> None:
        """Note that threads of running blocks have written to some places, (n,)."""
        if not len(places):
            return
        x, y, _ = m.grid
        at = places + np.arange(size)[:, None]
        self.by[at] = m.now + 1
        self.who[at] = (m.blocks @ np.array([1, x, x * y]))[blocks] << THREAD_BITS | threads

    def changed(self, places: Ints, size: int, before: Bits) -> None:
        """Note whether bytes differ from those before: a thread that adds 0 until another one acts changes nothing."""
        self.changes += not np.array_equal(self.content[places + np.arange(size)[:, None]], before)

    def lose(self, why: str) -> None:
        """Forget everything, for a reason: it is not known what has been written."""
        self.known[:] = 0
        self.lost = self.lost or why


@dataclass(eq=False)
class DrawnMemory(DeviceMemory):
    """Memory that holds something at every address; `bases` are the numbers of its pages so far, ascending.

    A page is drawn when it is first accessed, the same in all memories of a number.
    """

    number: int = 0  # of the draw: even ones have floats, odd ones integers
    given: Mapping[int, bytes] = field(default_factory=dict)  # contents that are known, by address
    pages: int = 0
    zeros_in_shared: ClassVar[bool] = True  # in both versions: what is never written then looks alike wherever it lies

    @classmethod
    def of(cls, number: int, given: Mapping[int, bytes] | None = None) -> Self:
        """Return the memory of a draw, with what is known of it."""
        content, known = np.zeros((2, FIRST_PAGES * PAGE), np.uint8)
        by, who = np.zeros((2, FIRST_PAGES * PAGE), np.int64)
        return cls(content, known, (), np.zeros(0, np.int64), by, who, number=number, given=given or {})

    def places_of(self, m: Machine, address: Ints, size: int, whose: Callable[[int], tuple[Index, Index]]) -> Ints:
        """Return where in `content` aligned accesses of `size` bytes go, (n,), wherever that is; raise MemoryFault."""
        wrong = address % size != 0
        if wrong.any():
            raise self._fault(m, int(address[wrong][0]), size, whose(int(wrong.argmax())))
        numbers, which = np.unique(address // PAGE, return_inverse=True)
        for page in np.setdiff1d(numbers, self.bases).tolist():
            self._add(page)
        found: Ints = self.starts[np.searchsorted(self.bases, numbers)][which] + address % PAGE
        return found

    def _add(self, page: int) -> None:
        if self.pages == MOST_PAGES:
            raise TooLarge(f"blocks access more than {MOST_PAGES * PAGE >> 20} MiB of global memory")
        start, at = self.pages * PAGE, int(np.searchsorted(self.bases, page))
        if start == len(self.content):
            self.content, self.known, self.by, self.who = (
                np.concatenate([each, np.zeros_like(each)]) for each in (self.content, self.known, self.by, self.who)
            )
        self.content[start : start + PAGE], self.known[start : start + PAGE] = self.drawn(page), 1
        self.bases, self.starts = np.insert(self.bases, at, page), np.insert(self.starts, at, start)
        self.pages += 1

    def drawn(self, page: int) -> Bits:
        """Return what a page holds at launch."""
        words = np.random.default_rng((self.number, page)).integers(0, 1 << 32, PAGE // 4, np.uint32)
        if self.number % 2:  # below 4096, and many of them much smaller
            words = (words & np.uint32(0xFFF)) >> (words >> np.uint32(16)) % np.uint32(12)
        else:  # between 2^-31 and 2^0 as a float, between 2^-3 and 2^0 as two halves: no sum or product overflows
            words = words & np.uint32(0x8FFF8FFF) | np.uint32(0x30003000)
        content: Bits = words.view(np.uint8)
        for address, given in self.given.items():
            first, end = max(address, page * PAGE), min(address + len(given), (page + 1) * PAGE)
            if first < end:
                piece = np.frombuffer(given, np.uint8)[first - address : end - address]
                content[first - page * PAGE : end - page * PAGE] = piece
        return content

    def written(self) -> tuple[Ints, Ints]:
        """Return the addresses of all bytes that were written, ascending, and where they are in `content`."""
        of_slot = self.bases[np.argsort(self.starts)]
        places = np.flatnonzero(self.by)
        addresses = of_slot[places // PAGE] * PAGE + places % PAGE
        order = np.argsort(addresses)
        return addresses[order], places[order]
