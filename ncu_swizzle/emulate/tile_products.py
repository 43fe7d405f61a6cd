"""Judge one wgmma: whether its operands are tiles, and whether they go together along K."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operand_reading import Reading, read_operand
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.placed_boxes import BoxCopy, PlacedBoxes
from ncu_swizzle.emulate.tile_fit import what_fits, where_fits
from ncu_swizzle.emulate.tile_record import HALF, TileRecord
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, Descriptor

Stages = tuple[int, tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class OperandSeen:
    """One operand in shared memory, as the instruction describes it."""

    side: str  # A or B
    descriptor: Descriptor
    rows: int
    mn_major: bool
    element: int  # bytes

    def read(self, placed: PlacedBoxes, block: int, at: Descriptor | None = None, major: bool | None = None) -> Reading:
        """Return what is read, by another descriptor or the other way if given."""
        mn_major = self.mn_major if major is None else major
        addresses = (at or self.descriptor).chunks(self.rows, mn_major)
        return read_operand(placed, block, addresses, mn_major, self.element)

    def __str__(self) -> str:
        return f"{self.side} ({'MN' if self.mn_major else 'K'}-major, {self.descriptor})"


@dataclass(frozen=True)
class Product:
    """One wgmma of a warpgroup, and what is known of the tiles."""

    record: TileRecord
    placed: PlacedBoxes
    instruction: SassInstruction
    block: int
    seen: tuple[OperandSeen, ...]

    def judge(self, m: Machine) -> None:
        """Record what does not fit; else what was read."""
        readings = [one.read(self.placed, self.block) for one in self.seen]
        for reading in readings:
            for number in reading.owners:
                self._arrived(m, self.placed.copies[number])
        fits = True
        for number, (one, reading) in enumerate(zip(self.seen, readings, strict=True)):
            if reading.trouble:
                fits = False
                self._misfit(one, reading.trouble, readings[1 - number] if len(readings) > 1 else None)
        if fits and all(reading.k is not None for reading in readings) and len(readings) > 1:
            fits = self._paired(*readings)
        if fits:
            self._mark(readings)
            self.record.followed += any(reading.k is not None for reading in readings)

    def _arrived(self, m: Machine, copy: BoxCopy) -> None:
        """Record a read of what no thread has waited for."""
        phase = m.mbarriers.phase(copy.barrier, copy.block)
        if phase is not None and 0 <= phase <= copy.phase:
            self.record.add(
                self.instruction.offset,
                "early",
                f"wgmma reads a box before the mbarrier at {copy.barrier:#x} has counted its bytes: fewer are expected "
                "than the boxes have",
            )

    def _paired(self, a: Reading, b: Reading) -> bool:
        """Say whether A and B have the same elements along K, and the same of them inside of their tensors."""
        assert a.k is not None
        assert b.k is not None
        apart = a.k - b.k
        stages = (self.block, a.stage, b.stage)
        step = self.record.steps.setdefault(stages, int(apart[0]))
        if (apart != step).any():
            k = int(np.flatnonzero(apart != step)[0])
            trouble = f"k {k} of A is element {int(a.k[k])} along K, and that of B is element {int(b.k[k])}"
            self._misfit(self.seen[0], trouble, b, stages)
            return False
        unlike = a.filled ^ b.filled
        if not unlike.any():
            return True
        side, reading = ("A", a) if (a.filled & unlike).any() else ("B", b)
        sizes = " x ".join(map(str, self.placed.copies[reading.owners[0]].tensor.sizes))
        self.record.add(
            self.instruction.offset,
            f"filled {side}",
            f"{side} is filled from k {int(np.flatnonzero(unlike)[0])} on, where its tensor map ({sizes} elements) "
            "ends along K, but the other operand has data there",
        )
        return False

    def _misfit(self, one: OperandSeen, trouble: str, partner: Reading | None, stages: Stages | None = None) -> None:
        if self.record.has(self.instruction.offset, one.side):
            return
        step = self.record.steps.get(stages) if stages else None

        def works(tried: Descriptor, mn_major: bool) -> bool:
            reading = one.read(self.placed, self.block, tried, mn_major)
            if reading.trouble or reading.k is None or partner is None or partner.k is None:
                return not reading.trouble and reading.k is not None
            apart = reading.k - partner.k
            return bool((apart == (apart[0] if step is None else step)).all())

        if stages is None:
            fit = what_fits(one.descriptor, one.mn_major, one.element == HALF, works) or self._map_fits(one)
        elif one.descriptor.base_offset:
            fit = "without a base offset, each chunk is where its address says"
        else:
            fit = where_fits(one.descriptor, one.mn_major, works)
        text = f"wgmma reads no tile as {one}{self._copied(one)}: {trouble}{f'; {fit}' if fit else ''}"
        self.record.add(self.instruction.offset, one.side, text)

    def _map_fits(self, one: OperandSeen) -> str:
        """Return the tensor map's swizzle that would fit, if its rows are as wide as the descriptor's."""
        owner = self._owner(one)
        tensor = self.placed.copies[owner].tensor if owner >= 0 else None
        if tensor is None or tensor.row_bytes != one.descriptor.span or BOX_SPANS[tensor.swizzle] == tensor.row_bytes:
            return ""
        return f"CU_TENSOR_MAP_SWIZZLE_{tensor.row_bytes}B in the tensor map would fit"

    def _owner(self, one: OperandSeen) -> int:
        """Return the number of the copy that wrote the operand's first chunk; negative if none did."""
        chunk = one.descriptor.start // CHUNK
        return int(self.placed.owner[self.block, chunk]) if chunk < self.placed.owner.shape[1] else -1

    def _copied(self, one: OperandSeen) -> str:
        """Say how TMA swizzled the tile if the descriptor says otherwise."""
        owner = self._owner(one)
        span = BOX_SPANS[self.placed.copies[owner].tensor.swizzle] if owner >= 0 else one.descriptor.span
        if span == one.descriptor.span:
            return ""
        return f", which TMA wrote with {f'the {span}-byte swizzle' if span > CHUNK else 'no swizzle'}"

    def _mark(self, readings: list[Reading]) -> None:
        """Remember which chunks and which rows of the tensors were read."""
        for one, reading in zip(self.seen, readings, strict=True):
            if reading.k is None:
                continue
            chunks = one.descriptor.chunks(one.rows, one.mn_major) // CHUNK
            owner, part = self.placed.owner[self.block, chunks], self.placed.part[self.block, chunks]
            for number in reading.owners:
                self.placed.copies[number].read[part[owner == number]] = True
            rows = self.record.rows.setdefault((self.block, one.side), {})
            rows.update(zip(reading.rows.tolist(), reading.cut.tolist(), strict=True))
