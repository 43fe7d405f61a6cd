"""Judge one wgmma: whether its operands are tiles, and whether they go together along K."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.tensor_map import MOST_BOX, PACKED, PADDED_4, PADDED_6, BoxCopy, PlacedBoxes, Tiled
from ncu_swizzle.emulate.tile_operands import Key, OperandOrigin, Pair, Reading, advance_alike, distances, read_operand
from ncu_swizzle.emulate.tile_record import TileRecord
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, GROUP, K_BYTES, MOST_BASE_OFFSET, Descriptor
from ncu_swizzle.smem.operations import Ints

# The value that would make an operand fit, found by trying: one field of the descriptor, or the way it is read.


Trial = tuple[str, Descriptor, bool]  # what would fit in words, the descriptor, and whether it is read MN-major
OFFSETS = tuple(CHUNK << shift for shift in range(12))  # tried as LBO and SBO
_NEAR, _FAR = range(CHUNK, 64 * CHUNK + 1, CHUNK), range(3 * 512, 32 * 1024 + 1, 512)
STARTS = tuple(sign * step for step in (*_NEAR, *_FAR) for sign in (-1, 1))  # bytes from where it starts


def _trials(descriptor: Descriptor, mn_major: bool, either: bool) -> Iterator[Trial]:
    """Yield what to try, the likeliest first."""
    for offset in range(MOST_BASE_OFFSET + 1):
        yield f"a base offset of {offset} would fit", replace(descriptor, base_offset=offset), mn_major
    for named, other in descriptor.named_modes:
        yield f"{named} would fit", other, mn_major
        swizzled = replace(other, stride=GROUP * other.span)
        sbo = f"an SBO of {swizzled.stride}"
        words = sbo if other.mode == descriptor.mode else f"{named} with {sbo}"
        yield f"{words} would fit", swizzled, mn_major
    for stride in OFFSETS:
        yield f"an SBO of {stride} would fit", replace(descriptor, stride=stride), mn_major
    for leading in OFFSETS:
        yield f"an LBO of {leading} would fit", replace(descriptor, leading=leading), mn_major
    yield from _starts(descriptor, mn_major)
    if either:  # the same tile read the other way
        is_major, read_as = ("K-major", "MN-major") if mn_major else ("MN-major", "K-major")
        words = f"it is {is_major} and read {read_as}: the other transpose flag would fit"
        yield words, descriptor, not mn_major
        for stride in OFFSETS:
            for leading in OFFSETS if not mn_major or descriptor.span < K_BYTES else OFFSETS[:1]:
                more = f", with an LBO of {leading} and an SBO of {stride}"
                yield words + more, replace(descriptor, leading=leading, stride=stride), not mn_major
    for stride in OFFSETS:
        for leading in OFFSETS:
            words = f"an LBO of {leading} and an SBO of {stride} would fit"
            yield words, replace(descriptor, leading=leading, stride=stride), mn_major


def _starts(descriptor: Descriptor, mn_major: bool) -> Iterator[Trial]:
    for by in STARTS:
        if descriptor.start + by >= 0:
            words = f"a start {abs(by)} bytes {'further' if by > 0 else 'earlier'} would fit"
            yield words, descriptor.moved(descriptor.start + by), mn_major


# One operand of a wgmma as its descriptor gives it, and how a message names it.


@dataclass(frozen=True, kw_only=True)
class OperandSeen:
    """One operand in shared memory, as the instruction describes it."""

    side: str  # A or B
    descriptor: Descriptor
    rows: int
    mn_major: bool
    element: int  # bytes
    either: bool  # whether the other major is possible
    kind: str = ""  # of its elements, if the instruction says so
    pair: bool = False  # the block after it has as many rows more, at the same addresses

    def places(self, block: int, at: Descriptor | None = None, major: bool | None = None) -> tuple[int | Ints, Ints]:
        """Return the blocks, one or (rows, 1), and addresses of its chunks, in the shape of `Descriptor.chunks`."""
        mn_major = self.mn_major if major is None else major
        addresses = (at or self.descriptor).chunks(self.rows, mn_major, K_BYTES // self.element)
        if not self.pair:
            return block, addresses
        blocks: Ints = np.repeat([block, block + 1], len(addresses))[:, None]
        return blocks, np.concatenate([addresses, addresses])

    def read(self, placed: PlacedBoxes, block: int, at: Descriptor | None = None, major: bool | None = None) -> Reading:
        """Return what is read, by another descriptor or the other way if given."""
        blocks, addresses = self.places(block, at, major)
        return read_operand(placed, blocks, addresses, self.mn_major if major is None else major, self.element)

    def copy(self, placed: PlacedBoxes, block: int) -> BoxCopy | None:
        """Return the copy that wrote the operand's first chunk, or one that the whole of it reads; None if none did."""
        blocks, addresses = self.places(block)
        chunks = np.minimum(addresses // CHUNK, placed.owner.shape[1] - 1)
        owners = placed.owner[blocks, chunks].ravel().tolist()
        return next((placed.copies[number] for number in owners if number >= 0), None)

    def copied(self, placed: PlacedBoxes, block: int) -> str:
        """Describe how TMA swizzled the tile if the descriptor says otherwise."""
        copy = self.copy(placed, block)
        span = BOX_SPANS[copy.tensor.swizzle] if copy else self.descriptor.span
        if span == self.descriptor.span:
            return ""
        return f", which TMA wrote with {f'the {span}-byte swizzle' if span > CHUNK else 'no swizzle'}"

    def __str__(self) -> str:
        return f"{self.side} ({'MN' if self.mn_major else 'K'}-major, {self.descriptor})"


# What would make an operand fit, tried: first its descriptor, then the tensor map that wrote it.


Good = Callable[[Reading], bool]
Read = Callable[[PlacedBoxes, Descriptor, bool], Reading]


@dataclass(frozen=True, kw_only=True)
class Repair:
    """An operand that does not fit, and `standards`, from strict to lenient, of what would."""

    seen: OperandSeen
    placed: PlacedBoxes
    block: int
    read: Read
    standards: tuple[Good, ...]
    missing: bool  # nothing was written where it is: a larger box is likelier than another descriptor

    def fix_for_tile(self) -> str:
        """Describe what would make it a tile; empty if nothing that was tried does."""
        one = self.seen
        for good in self.standards:
            larger = self._of_map(good) if self.missing else ""
            trials = _trials(one.descriptor, one.mn_major, one.either)
            if words := larger or self._first(trials, good) or self._of_map(good):
                return words
        return ""

    def fix_for_start(self) -> str:
        """Describe where it would have to start to match the other operand along K."""
        one = self.seen
        fits = (self._first(_starts(one.descriptor, one.mn_major), good) for good in self.standards)
        return next(filter(None, fits), "")

    def _first(self, trials: Iterator[Trial], good: Good) -> str:
        return next((words for words, at, mn_major in trials if good(self.read(self.placed, at, mn_major))), "")

    def _of_map(self, good: Good) -> str:
        """Return the value of the tensor map that would fit: shared memory as if that one had been used."""
        copy = self.seen.copy(self.placed, self.block)
        owner = self.placed.owner
        for words, tensor in _maps(copy.tensor) if copy else ():
            if tensor.refused or copy is None:
                continue
            placed = PlacedBoxes(len(owner), owner.shape[1] * CHUNK)
            for other in self.placed.copies:
                if other.block in (self.block, self.block + self.seen.pair) and not other.over:
                    box = replace(other, tensor=tensor) if other.map_at == copy.map_at else other
                    placed.place(box, box.addresses(other.start))
            if good(self.read(placed, self.seen.descriptor, self.seen.mn_major)):
                return f"{words} in the tensor map would fit"
        return ""


def _maps(tensor: Tiled) -> Iterator[tuple[str, Tiled]]:
    """Yield what to try, the likeliest first."""
    for swizzle, span in enumerate(BOX_SPANS):
        named = f"CU_TENSOR_MAP_SWIZZLE_{f'{span}B' if swizzle else 'NONE'}"
        yield named, replace(tensor, swizzle=swizzle)
    for axis, extent in enumerate(tensor.box):
        for size in (2 * extent, 4 * extent, extent // 2):
            if 0 < size <= MOST_BOX:
                box = (*tensor.box[:axis], size, *tensor.box[axis + 1 :])
                yield f"a box of {' x '.join(map(str, box))}", replace(tensor, box=box)


Stages = tuple[int, tuple[int, int], tuple[int, int]]
ROUNDED, FLUSHED = (11, 12), (10, 12)  # CUtensorMapDataTypes of 4 bytes that change values on their way
HALF, WORD = 2, 4
# By CUtensorMapDataType: its name, and the types of elements that it brings, of those that are not just bits.
_OF_MAPS = {
    6: ("f16", ("f16",)),
    9: ("bf16", ("bf16",)),
    PACKED: ("16U4_ALIGN8B", ("packed e2m1",)),
    PADDED_4: ("16U4_ALIGN16B", ("e2m1",)),
    PADDED_6: ("16U6_ALIGN16B", ("e2m3", "e3m2")),
}


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """One wgmma of a warpgroup, or one tcgen05.mma, and what is known about its tiles."""

    record: TileRecord
    placed: PlacedBoxes
    instruction: SassInstruction
    block: int
    seen: tuple[OperandSeen, ...]  # B alone if A is in registers or in tensor memory
    chain: Key

    def judge(self, m: Machine) -> list[OperandOrigin]:
        """Record what does not fit, else what was read. Return where operands come from, if all were followed."""
        readings = [self._read(one, self.placed) for one in self.seen]
        for reading in readings:
            for number in reading.owners:
                copy = self.placed.copies[number]
                phase = m.mbarriers.phase(copy.barrier, copy.counted_in)
                if phase is not None and 0 <= phase <= copy.phase:  # no thread has waited for it
                    self.record.add(
                        self.instruction.offset,
                        "early",
                        f"{self.record.reader} reads a box before the mbarrier at {copy.barrier:#x} has counted its "
                        "bytes: fewer are expected than the boxes have",
                    )
        fits = True
        for number, (one, reading) in enumerate(zip(self.seen, readings, strict=True)):
            if reading.trouble:
                fits = False
                self._misfit(one, reading, readings[1 - number] if len(readings) > 1 else None)
        if fits and any(reading.k is None for reading in readings):
            why = next(reading.why for reading in readings if reading.k is None)
            self.record.leave(f"{why}, {self.instruction.text} reads", lost=True)
        elif fits and len(readings) > 1:
            fits = self._paired(*readings)
        if fits:
            self._values(readings)
            self._mark(readings)
            self.record.followed += any(reading.k is not None for reading in readings)
        origins = [reading.origin for reading in readings if reading.origin is not None]
        return origins if fits and len(origins) == len(readings) else []

    def _read(
        self, one: OperandSeen, placed: PlacedBoxes, at: Descriptor | None = None, major: bool | None = None
    ) -> Reading:
        """Read an operand, by another descriptor or the other way if given."""
        reading = one.read(placed, self.block, at, major)
        if len(self.seen) > 1 or reading.k is None or (np.diff(reading.k) == 1).all():
            return reading
        k = int(np.flatnonzero(np.diff(reading.k) != 1)[0])
        between = f"k {k} is element {int(reading.k[k])} along K and k {k + 1} is element {int(reading.k[k + 1])}"
        return Reading(f"{between}, but A, not in shared memory, has them in order")

    def _values(self, readings: list[Reading]) -> None:
        """Record what TMA makes of the values on their way."""
        for one, reading in zip(self.seen, readings, strict=True):
            tensor = self.placed.copies[reading.owners[0]].tensor if reading.owners else None
            if tensor is None:
                continue
            if tensor.data_type in ROUNDED and one.element != WORD:
                self.record.add(
                    self.instruction.offset,
                    f"type {one.side}",
                    f"the tensor map of {one.side} is of type TFLOAT32, which rounds words of 4 bytes, and "
                    f"{self.record.reader} reads elements of {one.element}: a type of {one.element} bytes would fit",
                )
            elif one.kind and (why := _other_type(one, tensor.data_type)):
                self.record.add(
                    self.instruction.offset,
                    f"type {one.side}",
                    f"the tensor map of {one.side} is of type {why}, and {self.record.reader} "
                    f"reads its elements as {one.kind}",
                )
            elif tensor.data_type in FLUSHED and one.element != WORD:
                self.record.leave(f"whether words of {one.side} that its FLOAT32_FTZ flushes to zero matter")
            if tensor.fill and reading.filled.any():
                self.record.add(
                    self.instruction.offset,
                    f"NaN {one.side}",
                    f"{one.side} is filled with NaN from k {int(np.flatnonzero(reading.filled)[0])} on, where its "
                    "tensor map ends along K, and every product with it is NaN: "
                    "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE would fit",
                )

    def _paired(self, a: Reading, b: Reading) -> bool:
        """Return whether A and B have the same elements along K, and the same of them inside of their tensors."""
        assert a.k is not None
        assert b.k is not None
        here = _origins(a, b)
        stages = self._stages(here)
        first = self.record.stages.setdefault(stages, here)
        done = self.record.done[stages, self.chain] = self.record.done.get((stages, self.chain), -1) + 1
        apart = a.k - b.k
        within = bool((apart != apart[0]).any())
        if within or not advance_alike(first, here):
            k = int(np.flatnonzero(apart != apart[0])[0]) if within else 0
            trouble = f"k {k} of A is element {int(a.k[k])} along K, and that of B is element {int(b.k[k])}"
            if within:
                near = [bool((np.diff(k) == 1).all()) for k in (a.k, b.k)]
            else:
                near = [done * len(a.k) in distances(before, now) for before, now in zip(first, here, strict=True)]
            number = 1 if near[0] and not near[1] else 0  # the one that does not continue along K
            self._misfit(self.seen[number], Reading(trouble), (a, b)[1 - number], tile=within, code=codes.ALONG_K)
            return False
        begun = self.record.chains.add(self.chain, self.instruction.offset, here)
        filled = [reading.filled | now.beyond(before) for reading, before, now in zip((a, b), begun, here, strict=True)]
        unlike = filled[0] ^ filled[1]
        if not unlike.any():
            return True
        side, reading = ("A", a) if (filled[0] & unlike).any() else ("B", b)
        sizes = " x ".join(map(str, self.placed.copies[reading.owners[0]].tensor.sizes))
        self.record.add(
            self.instruction.offset,
            f"filled {side}",
            f"{side} is filled from k {int(np.flatnonzero(unlike)[0])} on, where its tensor map ({sizes} elements) "
            "ends along K, but the other operand has data there",
        )
        return False

    def _stages(self, pair: Pair) -> Stages:
        return self.block, pair[0].copy.stage, pair[1].copy.stage

    def _misfit(
        self, one: OperandSeen, reading: Reading, partner: Reading | None, *, tile: bool = True, code: str = codes.TILE
    ) -> None:
        """Record that an operand is not a tile, or matches its partner nowhere along K."""
        if (self.instruction.offset, one.side) in self.record.misfits:
            return

        repair = Repair(
            seen=one,
            placed=self.placed,
            block=self.block,
            read=partial(self._read, one),
            standards=self._standards(one, partner),
            missing=reading.missing,
        )
        if tile or not one.descriptor.base_offset:
            fit = repair.fix_for_tile() if tile else repair.fix_for_start()
        else:
            fit = "without a base offset, each chunk is where its address says"
        copied = one.copied(self.placed, self.block)
        text = f"{self.record.reader} reads no tile as {one}{copied}: {reading.trouble}{f'; {fit}' if fit else ''}"
        self.record.add(self.instruction.offset, one.side, text, code)

    def _standards(self, one: OperandSeen, partner: Reading | None) -> tuple[Good, ...]:
        """Return the conditions to meet, from strict to lenient."""

        def tile(reading: Reading) -> bool:
            return not reading.trouble and reading.k is not None and len(reading.maps) == 1

        def fits(reading: Reading) -> bool:
            if not tile(reading) or partner is None or reading.k is None or partner.k is None:
                return tile(reading)
            apart = reading.k - partner.k
            pair = _origins(reading, partner) if one.side == "A" else _origins(partner, reading)
            first = self.record.stages.get(self._stages(pair))
            return bool((apart == apart[0]).all()) and (first is None or advance_alike(first, pair))

        def others(reading: Reading) -> bool:
            return fits(reading) and (partner is None or reading.maps != partner.maps)

        def same(reading: Reading) -> bool:
            if partner is None or reading.k is None or partner.k is None:
                return False
            return tile(reading) and reading.maps != partner.maps and np.array_equal(reading.k, partner.k)

        return same, others, fits

    def _mark(self, readings: list[Reading]) -> None:
        """Remember which chunks and which rows of the tensors were read."""
        for one, reading in zip(self.seen, readings, strict=True):
            if reading.k is None:
                continue
            blocks, addresses = one.places(self.block)
            chunks = addresses // CHUNK
            owner, part = self.placed.owner[blocks, chunks], self.placed.part[blocks, chunks]
            for number in reading.owners:
                self.placed.copies[number].read[part[owner == number]] = True
            rows = self.record.rows.setdefault((self.block, one.side), {})
            for row, cut in zip(reading.rows.tolist(), reading.cut.tolist(), strict=True):
                rows[row] = rows.get(row, True) and cut  # in another product, K ends there and not the rows


def _other_type(one: OperandSeen, data_type: int) -> str:
    """Return the name of a tensor map's type that cannot hold the operand's elements; empty if it may."""
    name, kinds = _OF_MAPS.get(data_type, ("", (one.kind,)))
    return name if one.kind not in kinds and (one.element == HALF or data_type >= PACKED) else ""


def _origins(a: Reading, b: Reading) -> Pair:
    assert a.origin is not None
    assert b.origin is not None
    return a.origin, b.origin
