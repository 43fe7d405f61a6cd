"""Follow scale factors from tensor maps through tcgen05.cp to the block-scaled tcgen05.mma that takes them.

In tensor memory, 32 rows share a column, four factors each, some of which the instruction takes. tcgen05.cp brings 16
bytes for the rows r, r + 32, r + 64 and r + 96 (PTX ISA, "Block Scaling"). Which rows of the matrix these are is the
kernel's business; whether they belong together, and advance along K as A and B do, is judged here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


class _Taken(NamedTuple):
    """The factors of one operand that an instruction takes."""

    bases: tuple[int, ...]  # where those of every 128 rows come from in global memory
    maps: tuple[int, ...]  # the addresses of the tensor maps that brought them


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
        sides: list[_Taken] = []
        for side, rows in enumerate((shape.rows[0], shape.n)):
            taken = self._taken("AB"[side], offset, rows, blocks, columns[side])
            if taken is None:
                return
            sides.append(taken)
        of_a, of_b = (taken.bases for taken in sides)
        course = self.courses.get((chain, 1))
        a, b = origins
        others = {of_b, *(course.words.values() if course else ())}
        if any(of_a[0] in bases for bases in others) and a.copy.tensor.address != b.copy.tensor.address:
            self.record.add(offset, "factors", "it uses scale factors of B for A", codes.TILE)
        for side, taken in enumerate(sides):
            self._advance("AB"[side], offset, (chain, side), origins[side], shape, taken)

    def _taken(self, side: str, offset: int, rows: int, blocks: Sequence[int], column: int) -> _Taken | None:
        """Return where the factors of one operand come from; None if they are wrong, which is said, or not known."""
        row = np.arange(rows)
        if int(column + rows // ROWS) > COLUMNS:
            return None
        words = np.stack([self.words[block, row % ROWS, column + row // ROWS] for block in blocks])
        wrong = ""
        if (words == RESULTS).any():
            wrong, code = f"it uses results of a tcgen05.mma as scale factors of {side}", codes.TENSOR_ORDER
        elif (words == NEVER).any():
            where = "from where nothing has been written"
            wrong, code = f"tcgen05.cp has brought scale factors of {side} {where}", codes.TILE
        elif (words < 0).any():
            self.record.leave("scale factors are not followed from a tensor map on")
            return None
        elif trouble := _disorder(words):
            wrong, code = f"the scale factors of {side} are out of order: {trouble}", codes.TILE
        if wrong:
            self.record.add(offset, f"factors {side}", wrong, code)
            return None
        maps = np.unique(self.maps[blocks, column : column + -(-rows // ROWS)])
        return _Taken(tuple(words[:, ::OF_CHUNK].ravel().tolist()), tuple(maps.tolist()))

    def _advance(
        self, side: str, offset: int, key: tuple[Key, int], here: OperandOrigin, shape: UmmaShape, taken: _Taken
    ) -> None:
        """Judge whether the factors of one operand go on along K as it does."""
        number = shape.scale_ids[key[1]]
        course = self.courses.setdefault(key, _Course(here, number, taken.maps))
        if taken.maps != course.maps or len(course.maps) > 1:
            what = f"the scale factors of {side} come from several tensor maps: others were copied over them"
            self.record.add(offset, f"factors {side}", what, codes.TENSOR_ORDER)
        elif not course.fits(here, number, shape.factors, taken.bases):
            what = (
                f"the scale factors of {side} do not advance along K as {side} does: it takes those "
                f"from number {number} of four on, at {taken.bases[0]:#x} in global memory"
            )
            self.record.add(offset, f"factors {side}", what, codes.ALONG_K)


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
