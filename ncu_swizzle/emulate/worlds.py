"""Worlds: whatever an emulation of some blocks cannot know is drawn, the same for both versions of a kernel.

What an atomic operation returns, a clock, memory that other blocks write, constants that the host fills: each is a
function of what requests it, and of nothing that a mapping of shared memory changes. An *event* (an atomic operation, a
special register, a polled load) is named by its thread, the address in global memory, and how many of its kind the
thread has had before; a byte of memory that the block has not written is named by its address. Both versions run in
the same world, and everything that they leave is compared. So any difference found is real: both versions
see the same, and act differently. Versions that do the same with symbols do the same with all values for them,
and those that do not are told apart by random ones but for a chance of about 2^-30, except by comparisons: these get
integers that the code may compare with (`decisive_integers`), first for all threads alike, one world for each.

A version whose compiler has reordered events of one kind gets other values for them: it is not proved.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.code import CONSTANT, INTEGER, SassInstruction
from ncu_swizzle.emulate.registers import RegisterFile
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem.operations import Bools, Ints

ADDRESS_BITS = np.uint64(48)  # of an address in global memory; the block's number is above it
ADDRESS_MASK = np.uint64((1 << 48) - 1)
NONE = 0xFFFFFFFF  # -1: the end of a list, an empty slot
LARGEST = 1 << 24  # of the integers that a ticket is taken to be compared with
MOST_DECISIVE = 12  # such integers, each of which costs an execution of both versions
FEWER = np.uint64(1 << 12)  # positions in a list or a queue that are drawn as well
_COMPARING = frozenset(("ISETP", "UISETP"))
_CHANGED = np.uint64(1 << 47)  # marks an address after an atomic operation of the block


def hash_of(state: Bits, more: Bits) -> Bits:
    """Return a hash of a 64-bit state and further numbers (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (state * np.uint64(0x9E3779B97F4A7C15)) ^ (more + np.uint64(0xD1B54A32D192ED03))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def moderate_floats(state: Bits) -> Bits:
    """Return 32 bits that are numbers between 2^-31 and 2 in magnitude, read as a float or as two halves."""
    # The exponent begins with 011: 2^-31 to 2^0 of a float, 2^-3 to 2^0 of a half. So no number is denormal, infinite
    # or NaN, and sums and products of a few do not overflow.
    bits = (state >> np.uint64(32)).astype(np.uint32)
    return bits & np.uint32(0x8FFF8FFF) | np.uint32(0x30003000)


def decisive_integers(
    instructions: Sequence[SassInstruction], grid: Sequence[int], block: Sequence[int], constants: bytes, first: int
) -> Ints:
    """Return integers that an event's result may be compared with: sizes of the launch, parameters, immediates.

    `constants` is bank 0, whose parameters begin at `first`. The last block's ticket comes first, then 0 and 1.
    """
    sizes = [int(np.prod(grid)), int(np.prod(grid)) * int(np.prod(block)), *grid, int(np.prod(block))]
    integers = [sizes[0] - 1, 0, 1, NONE]
    for instruction in instructions:
        for operand in instruction.operands:
            if operand.kind == INTEGER and instruction.opcode in _COMPARING:
                sizes.append(operand.number & 0xFFFFFFFF)
            elif operand.kind == CONSTANT and operand.number == 0 and not operand.terms and operand.offset >= first:
                sizes.append(int.from_bytes(constants[operand.offset : operand.offset + 4], "little"))
    integers += [number for size in sizes if size < LARGEST for number in (size - 1, size)]
    return np.array(list(dict.fromkeys(number for number in integers if number >= 0))[:MOST_DECISIVE], np.uint32)


class _Written:
    """Bytes that blocks have written to global memory, by block and address: the last value of each."""

    def __init__(self) -> None:
        self._keys, self._values = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
        self._new: list[tuple[Bits, Bits]] = []

    def add(self, keys: Bits, values: Bits) -> None:
        """Write bytes; of equal keys, the last one wins."""
        self._new.append((keys, values))

    def get(self, keys: Bits) -> tuple[Bools, Bits]:
        """Return which bytes have been written, and what they hold."""
        if self._new:
            self._settle()
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        if not len(self._keys):
            return np.zeros(len(keys), bool), np.zeros(len(keys), np.uint8)
        hits: Bools = self._keys[at] == keys
        return hits, self._values[at]

    def _settle(self) -> None:
        new = self._new
        keys = np.concatenate([self._keys, *(keys for keys, _ in new)])
        values = np.concatenate([self._values, *(values for _, values in new)])
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        last = np.append(keys[1:] != keys[:-1], True)
        self._keys, self._values, self._new = keys[last], values[last], []


@dataclass(eq=False, kw_only=True)
class World:
    """What one execution of some blocks draws. `first` is what each thread's first integer event returns.

    `shared` is the initial content of shared memory, by byte; `polled` are loads that a compiler may not remove,
    and that see a new value each time.
    """

    number: int
    decisive: Ints
    shared: Bits
    first: int | None = None
    floats: tuple[range, ...] = ()
    integers: tuple[range, ...] = ()
    polled: frozenset[int] = frozenset()
    events: int = 0
    drew: bool = False  # whether memory of unspecified content was read
    _counts: dict[str, Ints] = field(default_factory=dict)
    _written: _Written = field(default_factory=_Written)

    def event(
        self, m: RegisterFile, kind: str, selected: Bools, *more: Bits, of_warp: bool = False
    ) -> tuple[Bits, Ints]:
        """Return a hash for each lane of an event, (G, 32), and how many of the kind the lane has had before."""
        rows = m.view.warps
        counts = self._counts.setdefault(kind, np.zeros((m.warps, 32), np.int64))
        before: Ints = counts[rows]
        counts[rows] = before + selected
        self.events += int(selected.sum())
        thread = m.thread[rows] // 32 if of_warp else m.thread[rows]
        state = np.full(before.shape, zlib.crc32(kind.encode()) + (self.number << 32), np.uint64)
        for part in (m.block_of[rows][:, None], thread, before, *more):
            state = hash_of(state, np.broadcast_to(part, before.shape).astype(np.uint64))
        return state, before

    def integer(self, state: Bits, before: Ints) -> Bits:
        """Return integers such as atomic operations return: often ones that decide something."""
        chosen = self._integer(state)
        return chosen if self.first is None else np.where(before == 0, np.uint32(self.first), chosen)

    def _integer(self, state: Bits) -> Bits:
        picked = self.decisive[(state >> np.uint64(8)) % np.uint64(len(self.decisive))]
        return np.where(state & np.uint64(1), picked, (state >> np.uint64(16)) % FEWER).astype(np.uint32)

    def initial(self, address: Bits) -> Bits:
        """Return bytes of global memory of unspecified content: parts of floats or of integers, by their array."""
        number = self.number << 3
        state = hash_of(np.full(address.shape, number, np.uint64), address & ~np.uint64(3))
        floats = np.full(address.shape, self.number % 2 == 0)
        for ranges, is_float in ((self.floats, True), (self.integers, False)):
            for one in ranges:
                floats[(address >= one.start) & (address < one.stop)] = is_float
        words = np.where(floats, moderate_floats(state), self._integer(state))
        drawn: Bits = (words >> (np.uint32(8) * (address & np.uint64(3)).astype(np.uint32))).astype(np.uint8)
        return drawn

    def constant(self, bank: int, content: bytes, known: Bools) -> bytes:
        """Return a constant bank with its unknown bytes drawn."""
        at = np.arange(len(content), dtype=np.uint64) + np.uint64(bank << 32)
        return np.where(known, np.frombuffer(content, np.uint8), self.initial(at)).tobytes()

    def write(self, block: Ints, address: Ints, values: Bits) -> None:
        """Let a block write bytes that it may read again."""
        self._written.add(_key(block, address.view(np.uint64)), values.astype(np.uint8))

    def change(self, block: Ints, address: Ints) -> None:
        """Let an atomic operation change bytes; as others may change them too, their new content is drawn."""
        at = address.view(np.uint64)
        self._written.add(_key(block, at), self.initial(at ^ _CHANGED))

    def complete(self, m: RegisterFile, at: Bits, lanes: Bools, size: int, bits: Bits, sure: Bools) -> None:
        """Fill in what lanes load from their addresses, (G, 32): words, (n, G, 32), some of whose bytes are known."""
        rows, columns = np.nonzero(lanes)
        if not len(rows):
            return
        block, first = m.block_of[m.view.warps[rows]], at[rows, columns]
        asked = None
        if m.now in self.polled:
            state, before = self.event(m, "load", lanes, at)
            asked = (moderate_floats(state) if self.number % 2 == 0 else self.integer(state, before))[rows, columns]
        for k in range(size):
            own, values = self._written.get(_key(block, first + np.uint64(k)))
            word, shift = k // 4, np.uint32(8 * (k % 4))
            missing = ~own & ~sure[word][rows, columns]
            if missing.any():
                self.drew = True
                drawn = self.initial(first + np.uint64(k))
                drawn = drawn if asked is None else (asked >> shift).astype(np.uint8)
                values = np.where(missing, drawn, values)
            new = own | missing
            old = bits[word][rows, columns]
            put = old & ~(np.uint32(0xFF) << shift) | values.astype(np.uint32) << shift
            bits[word][rows, columns] = np.where(new, put, old)
        sure[:, rows, columns] = True


def shared_contents(size: int) -> Bits:
    """Return what shared memory holds before anything is written to it, by byte."""
    words = np.arange(-(-size // 4), dtype=np.uint64)
    return moderate_floats(hash_of(np.full(words.shape, 7, np.uint64), words)).view(np.uint8)[:size]


def _key(block: Ints, address: Bits) -> Bits:
    return block.astype(np.uint64) << ADDRESS_BITS | address & ADDRESS_MASK
