"""Follow scale factors from tensor maps through tcgen05.cp to the block-scaled tcgen05.mma that takes them.

In tensor memory, 32 rows share a column, four factors each, some of which the instruction takes. tcgen05.cp brings 16
bytes for the rows r, r + 32, r + 64 and r + 96 (PTX ISA, "Block Scaling"). Which rows of the matrix these are is the
kernel's business; whether they belong together, and advance along K as A and B do, is judged here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.tensor_map import NOTHING, OTHER, SOURCE_BYTES, PlacedBoxes
from ncu_swizzle.emulate.tensor_memory import COLUMNS
from ncu_swizzle.emulate.tile_operands import Key, OperandOrigin, Pair, distances
from ncu_swizzle.emulate.tile_record import TileRecord
from ncu_swizzle.smem.descriptors import CHUNK, K_BYTES, UmmaDescriptor, UmmaShape
from ncu_swizzle.smem.operations import WORD, Ints

RESULTS, NEVER = -3, -4  # what a column holds instead of factors: see also NOTHING and OTHER; never written
ROWS, OF_CHUNK = 32, 128  # rows of a column, and of 32 chunks


@dataclass
class _Course:
    """The scale factors of one operand along K, in accumulated products."""

    first: OperandOrigin
    number: int  # of the factor in its word, in the first product
    maps: tuple[int, ...]  # the addresses of the tensor maps that bring them
    words: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by words along K: where they come from

    def fits(self, here: OperandOrigin, number: int, taken: int, bases: tuple[int, ...]) -> bool:
        """Return whether the factors go with these elements along K."""
        for distance in distances(self.first, here):
            place = self.number + distance * here.element // K_BYTES * taken
            others = {where for word, where in self.words.items() if word != place // WORD}
            if place % WORD == number and self.words.get(place // WORD, bases) == bases and bases not in others:
                self.words[place // WORD] = bases
                return True
        return False


@dataclass
class ScaleFactors:
    """Where each column's factors come from in global memory."""

    record: TileRecord
    courses: dict[tuple[Key, int], _Course] = field(default_factory=dict)  # by chain and operand
    words: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # their addresses, (B, 32, 512)
    maps: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # of the tensor maps, (B, 512)

    def begin(self, blocks: int) -> None:
        """Forget everything, for a number of blocks."""
        self.words, self.courses = np.full((blocks, ROWS, COLUMNS), NOTHING, np.int64), {}
        self.maps = np.zeros((blocks, COLUMNS), np.int64)

    def overwrite(self, block: int, columns: slice, *, results: bool) -> None:
        """Write something else to columns."""
        self.words[block, :, columns] = RESULTS if results else OTHER

    def end(self, chain: Key) -> None:
        """End the accumulation at D."""
        for side in range(2):
            self.courses.pop((chain, side), None)

    def copy(self, placed: PlacedBoxes, block: int, column: int, source: UmmaDescriptor) -> None:
        """Copy 32 rows of 16 bytes to four columns."""
        chunks = source.chunks(ROWS, False)[:, 0] // CHUNK
        if int(chunks.max()) >= placed.owner.shape[1] or column + CHUNK // WORD > COLUMNS:
            return
        owner, part = placed.owner[block, chunks], placed.part[block, chunks]
        if placed.sources is not None:
            stored = placed.sources[block, chunks].reshape(ROWS, -1, WORD // SOURCE_BYTES)
            is_run = (stored[..., 0] >= 0) & (np.diff(stored, axis=-1)[..., 0] == SOURCE_BYTES)
            self.words[block, :, column : column + CHUNK // WORD] = np.where(is_run, stored[..., 0], OTHER)
            self.maps[block, column : column + CHUNK // WORD] = 0
        self.words[block, owner == NOTHING, column : column + CHUNK // WORD] = NEVER
        for number in np.unique(owner[owner >= 0]).tolist():
            here, copy, columns = owner == number, placed.copies[number], slice(column, column + CHUNK // WORD)
            first = copy.tensor.address + copy.coordinates(part[here]) @ copy.tensor.steps // 8
            self.words[block, here, columns] = first[:, None] + np.arange(0, CHUNK, WORD)
            self.maps[block, columns] = copy.map_at

    def judge(
        self, offset: int, shape: UmmaShape, blocks: Sequence[int], columns: Sequence[int], chain: Key, origins: Pair
    ) -> None:
        """Judge the factors of A and B that an instruction takes, whose operands come from `origins`."""
        words_found, maps = [], []
        for side, rows in enumerate((shape.rows[0], shape.n)):
            row = np.arange(rows)
            if int(columns[side] + rows // ROWS) > COLUMNS:
                return
            words = np.stack([self.words[block, row % ROWS, columns[side] + row // ROWS] for block in blocks])
            if (words == RESULTS).any():
                message = f"it uses results of a tcgen05.mma as scale factors of {'AB'[side]}"
                self.record.add(offset, f"factors {side}", message, codes.TENSOR_ORDER)
                return
            if (words == NEVER).any():
                message = f"tcgen05.cp has brought scale factors of {'AB'[side]} from where nothing has been written"
                self.record.add(offset, f"factors {side}", message, codes.TILE)
                return
            if (words < 0).any():
                self.record.leave("scale factors are not followed from a tensor map on")
                return
            if trouble := _disorder(words):
                message = f"the scale factors of {'AB'[side]} are out of order: {trouble}"
                self.record.add(offset, f"factors {side}", message, codes.TILE)
                return
            words_found.append(tuple(words[:, ::OF_CHUNK].ravel().tolist()))
            taken = self.maps[blocks, columns[side] : columns[side] + -(-rows // ROWS)]
            maps.append(tuple(np.unique(taken).tolist()))
        a, b = origins
        course = self.courses.get((chain, 1))
        of_b = {words_found[1], *(course.words.values() if course else ())}
        if any(words_found[0][0] in bases for bases in of_b) and a.copy.tensor.address != b.copy.tensor.address:
            self.record.add(offset, "factors", "it uses scale factors of B for A", codes.TILE)
        for side, bases in enumerate(words_found):
            here, number = origins[side], shape.scale_ids[side]
            course = self.courses.setdefault((chain, side), _Course(here, number, maps[side]))
            if maps[side] != course.maps or len(course.maps) > 1:
                message = (
                    f"the scale factors of {'AB'[side]} come from several tensor maps: others were copied over them"
                )
                self.record.add(offset, f"factors {side}", message, codes.TENSOR_ORDER)
            elif not course.fits(here, number, shape.factors, bases):
                message = (
                    f"the scale factors of {'AB'[side]} do not advance along K as {'AB'[side]} does: it takes those "
                    f"from number {number} of four on, at {bases[0]:#x} in global memory"
                )
                self.record.add(offset, f"factors {side}", message, codes.ALONG_K)


def _disorder(words: Ints) -> str:
    """Describe where the addresses of rows' factors, (blocks, rows), are not as tcgen05.cp has to bring them."""
    row = np.arange(words.shape[1])
    apart = words[:, 1] - words[:, 0]
    if (np.diff(words, axis=1) == apart[:, None]).all():  # threads brought each row's factors
        return ""
    # 16 bytes hold four rows, 32 apart; the distance from one row to the next is constant.
    wanted = row % ROWS * apart[:, None] + row % OF_CHUNK // ROWS * WORD
    wrong = words - words[:, row // OF_CHUNK * OF_CHUNK] != wanted
    if wrong.any():
        block, place = (int(index) for index in np.argwhere(wrong)[0])
        first = int(words[block, place // OF_CHUNK * OF_CHUNK])
        where = f"{int(words[block, place]) - first} bytes from those of row {place // OF_CHUNK * OF_CHUNK}"
        return f"row {place} has those {where}, and {int(wanted[block, place])} would fit"
    together = math.gcd(CHUNK // WORD, words.shape[1] // ROWS) * WORD
    if (words[:, 0] % together).any():
        return f"they begin with word {int(words[0, 0]) % CHUNK // WORD} of 16 bytes"
    return ""
