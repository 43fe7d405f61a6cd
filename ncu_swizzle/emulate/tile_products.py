"""Judge one wgmma: whether its operands are tiles, and whether they go together along K."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operand_reading import Reading
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.placed_boxes import BoxCopy, PlacedBoxes
from ncu_swizzle.emulate.tile_chains import Key, Pair, distances, together
from ncu_swizzle.emulate.tile_operand import OperandSeen
from ncu_swizzle.emulate.tile_record import TileRecord
from ncu_swizzle.emulate.tile_repair import Good, Repair
from ncu_swizzle.smem.descriptors import CHUNK, Descriptor

Stages = tuple[int, tuple[int, int], tuple[int, int]]
ROUNDED, FLUSHED = (11, 12), (10, 12)  # CUtensorMapDataTypes of 4 bytes that change values on their way
WORD = 4


@dataclass(frozen=True)
class Product:
    """One wgmma of a warpgroup, and what is known of the tiles."""

    record: TileRecord
    placed: PlacedBoxes
    instruction: SassInstruction
    block: int
    seen: tuple[OperandSeen, ...]  # B alone if A is in registers
    chain: Key

    def judge(self, m: Machine) -> None:
        """Record what does not fit; else what was read."""
        readings = [self._read(one, self.placed) for one in self.seen]
        for reading in readings:
            for number in reading.owners:
                self._arrived(m, self.placed.copies[number])
        fits = True
        for number, (one, reading) in enumerate(zip(self.seen, readings, strict=True)):
            if reading.trouble:
                fits = False
                self._misfit(one, reading, readings[1 - number] if len(readings) > 1 else None)
        known = all(reading.k is not None for reading in readings)
        if fits and not known:
            self.record.leave(f"what threads write, {self.instruction.text} reads", lost=True)
        if fits and known and len(readings) > 1:
            fits = self._paired(*readings)
        if fits:
            self._values(readings)
            self._mark(readings)
            self.record.followed += any(reading.k is not None for reading in readings)

    def _read(
        self, one: OperandSeen, placed: PlacedBoxes, at: Descriptor | None = None, major: bool | None = None
    ) -> Reading:
        """Return what an operand is, by another descriptor or the other way if given."""
        reading = one.read(placed, self.block, at, major)
        if len(self.seen) > 1 or reading.k is None or (np.diff(reading.k) == 1).all():
            return reading
        k = int(np.flatnonzero(np.diff(reading.k) != 1)[0])
        between = f"k {k} is element {int(reading.k[k])} along K and k {k + 1} is element {int(reading.k[k + 1])}"
        return Reading(f"{between}, but A, in registers, has them in order")

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
                    f"the tensor map of {one.side} is of type TFLOAT32, which rounds words of 4 bytes, and wgmma reads "
                    f"elements of {one.element}: a type of {one.element} bytes would fit",
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
        here = _origins(a, b)
        stages = self._stages(here)
        first = self.record.stages.setdefault(stages, here)
        done = self.record.done[stages, self.chain] = self.record.done.get((stages, self.chain), -1) + 1
        apart = a.k - b.k
        within = bool((apart != apart[0]).any())
        if within or not together(first, here):
            k = int(np.flatnonzero(apart != apart[0])[0]) if within else 0
            trouble = f"k {k} of A is element {int(a.k[k])} along K, and that of B is element {int(b.k[k])}"
            if within:
                near = [bool((np.diff(k) == 1).all()) for k in (a.k, b.k)]
            else:
                near = [done * len(a.k) in distances(before, now) for before, now in zip(first, here, strict=True)]
            number = 1 if near[0] and not near[1] else 0  # the one that does not go on as K does
            self._misfit(self.seen[number], Reading(trouble), (a, b)[1 - number], tile=within)
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

    def _misfit(self, one: OperandSeen, found: Reading, partner: Reading | None, tile: bool = True) -> None:
        """Record that an operand is no tile, or goes together with its partner nowhere along K."""
        if self.record.has(self.instruction.offset, one.side):
            return

        def read(placed: PlacedBoxes, at: Descriptor, major: bool) -> Reading:
            return self._read(one, placed, at, major)

        repair = Repair(one, self.placed, self.block, read, self._standards(one, partner), found.missing)
        if tile or not one.descriptor.base_offset:
            fit = repair.of_tile() if tile else repair.of_place()
        else:
            fit = "without a base offset, each chunk is where its address says"
        copied = one.copied(self.placed, self.block)
        text = f"wgmma reads no tile as {one}{copied}: {found.trouble}{f'; {fit}' if fit else ''}"
        self.record.add(self.instruction.offset, one.side, text)

    def _standards(self, one: OperandSeen, partner: Reading | None) -> tuple[Good, ...]:
        """Return what is to be reached, from strict to lenient."""

        def tile(reading: Reading) -> bool:
            return not reading.trouble and reading.k is not None and len(reading.maps) == 1

        def fits(reading: Reading) -> bool:
            if not tile(reading) or partner is None or reading.k is None or partner.k is None:
                return tile(reading)
            apart = reading.k - partner.k
            pair = _origins(reading, partner) if one.side == "A" else _origins(partner, reading)
            first = self.record.stages.get(self._stages(pair))
            return bool((apart == apart[0]).all()) and (first is None or together(first, pair))

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
            chunks = one.descriptor.chunks(one.rows, one.mn_major) // CHUNK
            owner, part = self.placed.owner[self.block, chunks], self.placed.part[self.block, chunks]
            for number in reading.owners:
                self.placed.copies[number].read[part[owner == number]] = True
            rows = self.record.rows.setdefault((self.block, one.side), {})
            for row, cut in zip(reading.rows.tolist(), reading.cut.tolist(), strict=True):
                rows[row] = rows.get(row, True) and cut  # in another product, K ends there and not the rows


def _origins(a: Reading, b: Reading) -> Pair:
    assert a.origin is not None
    assert b.origin is not None
    return a.origin, b.origin
