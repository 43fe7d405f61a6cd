"""What is known about tiles, block by block: copies, what threads store; and what was copied but never read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.code import INTEGER, REG, SHARED_WINDOW, Operand, SassInstruction
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.counts import Buffer, FollowedTiles, Misfit
from ncu_swizzle.emulate.effects import effects, operand_number
from ncu_swizzle.emulate.faults import Enough
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.tensor_map import NO_SOURCE, SOURCE_BYTES, BoxCopy, PlacedBoxes
from ncu_swizzle.emulate.tile_operands import Chains, Pair
from ncu_swizzle.emulate.values import known_in
from ncu_swizzle.smem.opcodes import WRITE, Copy, Memory, Opcode, Shared
from ncu_swizzle.smem.operations import WORD, Bools, Ints

# Codes of kinds of misfits; an operand that is no tile is of the kind A or B.
_CODES = {
    **dict.fromkeys(("K", "filled", "rows"), codes.ALONG_K),
    **dict.fromkeys(("map", "past", "overlap", "cut"), codes.TENSOR_MAP),
    **dict.fromkeys(("type", "NaN"), codes.VALUES),
    "target": codes.TARGET,
    **dict.fromkeys(("bytes", "early"), codes.BYTES),
    **dict.fromkeys(("unread", "unused"), codes.UNREAD),
}
MOST_PRODUCTS = 1024  # of one run: enough to see every stage of a ring several times
HALF = 2  # bytes: the unit in which stores are counted
RESULT_BYTES = (2, 4)  # of an element of the result
PLANE = 2  # dimensions of a matrix
TARGET = 128  # bytes: the alignment of a box in shared memory (PTX ISA, "cp.async.bulk.tensor")


@dataclass(kw_only=True)
class TileRecord:
    """The state of a run, and the misfits that were found in it."""

    buffers: tuple[Buffer, ...]
    reader: str = "wgmma"
    misfits: dict[tuple[int, str], Misfit] = field(default_factory=dict)
    followed: int = 0
    lacking: str = ""
    cut: bool = False  # a box was cut off by its tensor's end
    stored_unknown: bool = False
    products: int = 0
    lost: bool = False  # tiles that were followed, so that what is never read is not known
    others_read: bool = True  # whether instructions other than wgmma may read tiles
    stages: dict[tuple[object, ...], Pair] = field(default_factory=dict)  # the first product of two stages
    rows: dict[tuple[int, str], dict[int, bool]] = field(default_factory=dict)  # of the tensors → whether it is filled
    bound: dict[str, None] = field(default_factory=dict)  # see `FollowedTiles`; each once, in order
    done: dict[tuple[object, ...], int] = field(default_factory=dict)  # products of these before, by chain
    _machine: Machine | None = None
    _placed: PlacedBoxes | None = None
    _stored: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A wrong order of accumulation may follow from another misfit: then that one is enough.
        self.chains = Chains(lambda *misfit: None if self.misfits else self.add(*misfit), self.leave, self.reader)

    def placed(self, m: Machine) -> PlacedBoxes:
        """Return the shared memory of the running machine; empty if it is a new one, as the run started again."""
        if self._placed is None or self._machine is not m:
            self._machine, self._placed = m, PlacedBoxes(len(m.blocks), m.shared_size)
            self._placed.buffers = [(one.address, one.address + one.size) for one in self.buffers]
        return self._placed

    def add(self, offset: int, kind: str, message: str, code: str = "") -> None:
        """Record a misfit, the first of its kind at this instruction; without `code`, by its first word."""
        code = code or _CODES.get(kind.partition(" ")[0], codes.TILE)
        self.misfits.setdefault((offset, kind), Misfit(offset, message, code))

    def forget(self, m: Machine) -> None:
        """Forget all tiles of the view's blocks."""
        for block in m.clusters.around(m.view_blocks()).tolist():
            self.placed(m).overwrite(block, slice(None))

    def lose(self, m: Machine, why: str) -> None:
        """Forget all tiles, because something is unknown."""
        self.leave(why, lost=True)
        self.forget(m)

    def leave(self, why: str, lost: bool = False) -> None:
        """Record that something is unknown."""
        self.lacking = self.lacking or why
        self.lost |= lost

    def count(self) -> None:
        """Count a product; raise Enough if enough were followed."""
        self.products += 1
        if self.products >= MOST_PRODUCTS:
            raise Enough("enough products were followed")

    # ------------------------------------------------------------------------------------------ copies

    def check_map(self, copy: BoxCopy) -> None:
        """Record a tensor map that the driver refuses; raise Enough if it does."""
        if why := copy.tensor.refused:
            self.add(copy.offset, "map", f"cuTensorMapEncodeTiled refuses this tensor map: {why}")
            raise Enough("a tensor map is refused")

    def check_reach(self, copy: BoxCopy) -> None:
        """Compare a copy's global addresses with the buffer that its tensor is in."""
        self.cut |= copy.cut_off
        tensor, reach = copy.tensor, copy.reach()
        buffer = next((b for b in self.buffers if b.address <= tensor.address < b.address + b.size), None)
        if buffer is None or reach is None:
            return
        end = buffer.address + buffer.size
        if reach[1] > end:
            strides = ", ".join(map(str, tensor.strides))
            self.add(
                copy.offset,
                "past",
                f"the box at {copy.corner} reads up to {reach[1] - end:,} bytes past the end of {buffer.name} "
                f"({buffer.size:,} bytes): its tensor map has strides of {strides} bytes",
            )
        overlap = tensor.overlap
        if overlap and tensor.address + tensor.extent < end:
            stride, fits = overlap
            what = "rows" if len(tensor.sizes) == PLANE else "parts"
            self.add(
                copy.offset,
                "overlap",
                f"{what} of {fits} bytes overlap in its tensor map, whose stride is {stride}: {fits} would fit",
            )

    def check_target(self, copy: BoxCopy) -> None:
        """Record a copy to where TMA cannot write."""
        start = copy.start
        if start % TARGET:
            self.add(
                copy.offset,
                "target",
                f"a tensor copy to {start:#x} in shared memory: it must be a multiple of {TARGET}; "
                f"{start // TARGET * TARGET:#x} or {-(-start // TARGET) * TARGET:#x} would fit",
            )

    def check_waits(self, m: Machine, offset: int) -> None:
        """Record a wait for bytes that no copy brings; raise Enough if there is one."""
        if not m.starved:
            return
        block, barrier, lacking = m.starved[0]
        copies = [copy for copy in self.placed(m).copies if (copy.counted_in, copy.barrier) == (block, barrier)]
        phase = max((copy.phase for copy in copies), default=0)
        brought = sum(copy.tensor.copied for copy in copies if copy.phase == phase)
        at = copies[-1].offset if copies else offset
        what = f"{brought + lacking:,} bytes are expected, and the boxes have {brought:,}"
        self.add(at, "bytes", f"the wait at the mbarrier at {barrier:#x} never ends: {what}")
        raise Enough("a wait never ends")

    # ------------------------------------------------------------------------------------------ the end of a run

    def store(self, block: int, addresses: Ints, width: int) -> None:
        """Count the bytes stored to global memory, in units of two."""
        for address in addresses.tolist():
            self._stored.setdefault(block, set()).update(range(address // HALF, (address + width) // HALF))

    def finish(self) -> None:
        """Judge what is left when the blocks have ended: boxes read in part, results of rows that do not exist."""
        placed = self._placed
        self.chains.finish()
        if placed is not None and not self.misfits and not self.lost:
            self._judge_unread(placed)
            for block in range(len(placed.owner)):
                self._judge_filled_rows(placed, block)

    def _judge_unread(self, placed: PlacedBoxes) -> None:
        """Record boxes that are read in part, and tensors of which nothing is read."""
        ended = self.products < MOST_PRODUCTS
        read = [copy for copy in placed.copies if copy.read.any()]
        stages = {(copy.block, copy.stage, copy.map_at) for copy in read}
        maps = {(copy.block, copy.map_at) for copy in read}
        for copy in placed.copies:
            missing = copy.inside() & ~copy.read
            if (ended or copy.over) and (copy.block, copy.stage, copy.map_at) in stages and missing.any():
                first = tuple(copy.coordinates()[missing][0].tolist())
                share = f"{int(missing.sum()):,} of the {len(missing):,} chunks of 16 bytes"
                self.add(
                    copy.offset,
                    "unread",
                    f"no {self.reader} reads {share} of the box at {copy.corner}, from element {first} on: they read "
                    "other parts of its stage in place of it; check the start addresses of the descriptors",
                )
            if ended and not self.others_read and (copy.block, copy.map_at) not in maps:
                self.add(
                    copy.offset,
                    "unused",
                    f"no {self.reader} reads any box of this tensor map, such as that at {copy.corner}; check the "
                    "start addresses of the descriptors",
                )

    def _judge_filled_rows(self, placed: PlacedBoxes, block: int) -> None:
        a, b = (self.rows.get((block, side), {}) for side in "AB")
        if self.stored_unknown or not a or not b or not (any(a.values()) or any(b.values())):
            return
        stored = len(self._stored.get(block, ())) * HALF
        valid = sum(not filled for filled in a.values()) * sum(not filled for filled in b.values())
        if stored in {size * len(a) * len(b) for size in RESULT_BYTES} - {size * valid for size in RESULT_BYTES}:
            side = "A" if any(a.values()) else "B"
            cut = next(copy for copy in placed.copies if copy.block == block and copy.cut_off)
            self.add(
                cut.offset,
                "cut",
                f"the tensor map of {side} ends before the results that are stored: of {len(a)} x {len(b)}, "
                f"{valid:,} have data, the others come from filled rows",
            )

    def found(self, lacking: str = "") -> FollowedTiles:
        """Return what was found."""
        ordered = tuple(self.misfits[key] for key in sorted(self.misfits))
        return FollowedTiles(ordered, self.followed, lacking or self.lacking, tuple(self.bound))


# ---------------------------------------------------------------------------------------------- what threads store
#
# Tiles without a tensor map: what threads store to shared memory is followed back to where they loaded it. Every two
# bytes carry the address in global memory that they came from. LDG gives one to registers, MOV and PRMT with a constant
# pass it on, stores and cp.async bring it to shared memory. Computed values have none.

_MOVES = ("MOV", "IMAD", "PRMT")
_HALVES = np.arange(0, WORD, SOURCE_BYTES)
Source = tuple[int, int]  # of a register's lower or upper half: a register, and which half of it
Sources = Callable[[Machine, Bools], Ints | None]  # (G, 32, halves), of what lanes store


def stores(row: Opcode) -> bool:
    """Return whether an opcode stores words to shared memory, or copies them there, lane by lane."""
    return row.addressed and row.does(Memory.SHARED) == WRITE and not row.matrix


def _moved(instruction: SassInstruction) -> tuple[Source | None, ...] | None:
    """Return where both halves of a copied register come from; None for an instruction that computes."""
    parts = instruction.operands
    if instruction.opcode == "PRMT" and parts[2].kind == INTEGER:
        digits = [parts[2].number >> 4 * place & 15 for place in range(WORD)]
        both = [operand_number(parts[1]), operand_number(parts[3])]
        halves: list[Source | None] = []
        for low, high in (digits[:2], digits[2:]):
            register = both[low // WORD] if low < 2 * WORD and low % 2 == 0 and high == low + 1 else None
            halves.append(None if register is None else (register, low % WORD // SOURCE_BYTES))
        return tuple(halves)
    plain = instruction.opcode == "MOV" or (instruction.opcode == "IMAD" and instruction.has("MOV"))
    number = operand_number(parts[-1]) if plain and parts[-1].kind == REG else None
    return None if number is None else ((number, 0), (number, 1))


def _data(instruction: SassInstruction) -> list[int]:
    """Return the registers that a store stores."""
    at = memory_operands(instruction)[0] + 1
    first = operand_number(instruction.operands[at]) if at < len(instruction.operands) else None
    return [] if first is None else list(range(first, first + max(1, access_width(instruction) // WORD)))


@dataclass
class Stores:
    """Where stored registers come from in global memory: (W, 32, 2) each, by register number."""

    placed: Callable[[Machine], PlacedBoxes]
    followed: set[int] = field(default_factory=set)  # the registers
    registers: dict[int, Ints] = field(default_factory=dict)
    _machine: Machine | None = None

    def watch(self, instructions: Sequence[SassInstruction]) -> None:
        """Find the registers whose contents are stored to shared memory."""
        for instruction in instructions:
            if stores(instruction.row) and instruction.row.copy is Copy.NO:
                self.followed.update(_data(instruction))
        moves = [one for one in instructions if one.opcode in _MOVES]
        before = -1
        while before < len(self.followed):
            before = len(self.followed)
            for one in moves:
                if operand_number(one.operands[0]) in self.followed:
                    self.followed.update(source[0] for source in _moved(one) or () if source)

    def step_of(self, instruction: SassInstruction) -> Step | None:
        """Return the step that follows what an instruction does to these registers, or to shared memory."""
        if stores(instruction.row):
            return self._store(instruction)
        written = effects(instruction).writes
        results = [register for register in self.followed if written >> register & 1]
        if not results:
            return None
        guard = operands.guard_operands(instruction.guard)
        make = self._load(instruction) if instruction.opcode == "LDG" else self._move(_moved(instruction))

        def step(m: Machine) -> None:
            self._begin(m)
            selected, doubtful = m.selection(guard(m) if guard else None)
            warps, made = m.view.warps, make(m, selected)
            for register in results:
                new = made.get(register)
                old = self.registers.setdefault(register, np.full((m.warps, 32, 2), NO_SOURCE))
                here = old[warps]
                here[selected] = NO_SOURCE if new is None else new[selected]
                here[np.broadcast_to(doubtful, selected.shape)] = NO_SOURCE
                old[warps] = here

        return step

    def _begin(self, m: Machine) -> None:
        if self._machine is not m:
            self._machine, self.registers = m, {}

    def _load(self, instruction: SassInstruction) -> Callable[[Machine, Bools], dict[int, Ints]]:
        first, width = operand_number(instruction.operands[0]) or 0, access_width(instruction)
        address_of = operands.wide_address(instruction.operands[memory_operands(instruction)[0]])

        def made(m: Machine, selected: Bools) -> dict[int, Ints]:
            address = address_of(m)
            if not known_in(address, selected) or width < SOURCE_BYTES:
                return {}
            at = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
            words = {first + k: at[..., None] + k * WORD + _HALVES for k in range(max(1, width // WORD))}
            if width == SOURCE_BYTES:
                words[first][..., 1] = NO_SOURCE
            return words

        return made

    def _move(self, halves: tuple[Source | None, ...] | None) -> Callable[[Machine, Bools], dict[int, Ints]]:
        def made(m: Machine, selected: Bools) -> dict[int, Ints]:
            nothing = np.full((*selected.shape, 2), NO_SOURCE)
            parts = [nothing[..., 0] if one is None else self._of(m, one[0])[..., one[1]] for one in halves or ()]
            return dict.fromkeys(self.followed, np.stack(parts, axis=-1)) if parts else {}

        return made

    def _of(self, m: Machine, register: int) -> Ints:
        """Return the sources of a register in the view's warps, (G, 32, 2)."""
        sources = self.registers.get(register)
        return np.full((len(m.view.warps), 32, 2), NO_SOURCE) if sources is None else sources[m.view.warps]

    def _store(self, instruction: SassInstruction) -> Step:
        """Return the step that remembers what a thread's store brings; it has been taken for a write before."""
        width, guard = access_width(instruction), operands.guard_operands(instruction.guard)
        target, *source = (instruction.operands[place] for place in memory_operands(instruction))
        generic = instruction.row.shared is Shared.GENERIC
        address_of = operands.wide_address(target) if generic else operands.address(target)
        offsets = np.arange(0, width, SOURCE_BYTES)
        brought = self._copied(instruction, source[0]) if source else self._kept(_data(instruction))

        def step(m: Machine) -> None:
            self._begin(m)
            selected, doubtful = m.selection(guard(m) if guard else None)
            perhaps = np.broadcast_to(doubtful, selected.shape)
            address, sources = address_of(m), brought(m, selected)
            if not known_in(address, selected | perhaps):
                return
            at = np.broadcast_to(address.bits, selected.shape)
            lanes = selected | perhaps
            if generic:
                lanes = lanes & (at >> np.uint64(32) == SHARED_WINDOW)
            places = (at.astype(np.int64) & int(WINDOW))[..., None] + offsets
            known = np.full(places.shape, NO_SOURCE)
            if sources is not None and width >= SOURCE_BYTES:
                known = np.where(perhaps[..., None], NO_SOURCE, sources[..., : len(offsets)])
            blocks = np.broadcast_to(m.view_blocks()[:, None, None], places.shape)
            self.placed(m).bring(blocks[lanes].ravel(), places[lanes].ravel(), known[lanes].ravel())

        return step

    def _kept(self, registers: list[int]) -> Sources:
        return lambda m, _: np.concatenate([self._of(m, one) for one in registers], axis=-1) if registers else None

    @staticmethod
    def _copied(instruction: SassInstruction, memory: Operand) -> Sources:
        source_of, reads = operands.wide_address(memory), zero_fill(instruction)
        filled = operands.predicate(reads) if reads else None
        offsets = np.arange(0, access_width(instruction), SOURCE_BYTES)

        def sources(m: Machine, selected: Bools) -> Ints | None:
            source, read = source_of(m), filled(m) if filled else None
            if not known_in(source, selected) or (read is not None and not known_in(read, selected)):
                return None
            at = np.broadcast_to(source.bits, selected.shape).astype(np.int64)[..., None] + offsets
            return np.where(True if read is None else read.bits[..., None], at, NO_SOURCE)

        return sources
