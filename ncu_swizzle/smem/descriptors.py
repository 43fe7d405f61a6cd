"""Which bytes of shared memory wgmma reads through a descriptor, and where TMA puts a box, in chunks of 16 bytes.

And the wavefronts of a wgmma, which depend on neither.

Descriptor and box permute chunks by bits of the address itself, not of the tile: a tile may start anywhere, as long as
both agree. Measured on an H100: 2,800 descriptors, fitting and misfitting (tests/data/descriptor_reads_h100.csv.gz),
and 144 boxes (tests/data/boxes_h100.csv.gz).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ncu_swizzle.smem.operations import LINE, Ints

# The wavefronts of wgmma: they depend on the shape alone, not on the tiles' descriptors (docs/wavefronts.md).


WARPS = 4  # of a warpgroup, which execute a wgmma together
ROWS = 64  # of A
K_BYTES = 32  # of a row of A and of a column of B in one instruction, whatever the type
SPARSE_FACTOR = 2  # sparse A selects from twice as many elements of B


def warpgroup_wavefronts(columns: int, a_in_shared: bool, sparse: bool = False) -> int:
    """Return the wavefronts that one wgmma takes, all four warps together; its ideal is the same.

    A of 64 rows counts unless it is in registers, B of `columns` columns always: 128 bytes a wavefront.
    """
    # (64 x 32 + N x 32) / 128 = 16 + N / 4: docs/wavefronts.md, "wgmma", right in all of 1,298 measured rows.
    b = columns * K_BYTES * (SPARSE_FACTOR if sparse else 1)
    return (b + (ROWS * K_BYTES if a_in_shared else 0)) // LINE


CHUNK = 16  # bytes that every swizzle keeps together
GROUP = 8  # rows of a core matrix
SPANS = (16, 128, 64, 32)  # bytes of a row, by the descriptor's mode
BOX_SPANS = (16, 32, 64, 128, 128, 128, 128)  # the same by the tensor map's CUtensorMapSwizzle
BOX_ATOMS = (16, 16, 16, 16, 32, 32, 64)  # bytes that it keeps together
FLIPPED = 5  # the one that also exchanges the halves of every other chunk, of 8 bytes
MODES = {span: mode for mode, span in enumerate(SPANS)}
FIELD = 0x3FFF  # 14 bits, in units of 16 bytes
MOST_BASE_OFFSET = 7
_LEADING_AT, _STRIDE_AT, _BASE_AT, _MODE_AT = 16, 32, 49, 62


def swizzled(addresses: Ints, span: int, base_offset: int = 0, atom: int = CHUNK) -> Ints:
    """Return where a swizzle of rows of `span` bytes, in atoms of `atom` bytes, moves these addresses."""
    # The chunk's number in its row XOR that of the 128-byte line: Swizzle<3,4,3>, <2,4,3> or <1,4,3> on bytes, the
    # modes of TMA. A base offset of k moves the pattern k lines on.
    mask = span // atom - 1
    moved: Ints = addresses ^ ((addresses // LINE - base_offset) & mask) * atom
    return moved


def box_chunks(rows: int, row_bytes: int, span: int, start: int, atom: int = CHUNK) -> Ints:
    """Return the address of each chunk of a box, (rows, chunks of a row).

    Rows narrower than the swizzle still have its pitch.
    """
    plain = start + np.arange(rows)[:, None] * max(row_bytes, span) + np.arange(row_bytes // CHUNK) * CHUNK
    return swizzled(plain, span, atom=atom)


@dataclass(frozen=True)
class Descriptor:
    """A matrix descriptor of wgmma; offsets in bytes (PTX ISA, "Matrix Descriptor")."""

    start: int
    leading: int  # LBO
    stride: int  # SBO
    base_offset: int
    mode: int

    spans: ClassVar[Mapping[int, int]] = dict(enumerate(SPANS))

    @classmethod
    def of_bits(cls, bits: int) -> Descriptor:
        """Return the descriptor that 64 bits encode."""
        start, leading, stride = ((bits >> at & FIELD) * CHUNK for at in (0, _LEADING_AT, _STRIDE_AT))
        return cls(start, leading, stride, bits >> _BASE_AT & MOST_BASE_OFFSET, bits >> _MODE_AT & 3)

    @property
    def span(self) -> int:
        """The bytes of a row that the swizzle permutes; 16 without one."""
        return self.spans[self.mode]

    @property
    def atom(self) -> int:
        """The bytes that the swizzle keeps together."""
        return CHUNK

    def chunks(self, rows: int, mn_major: bool, deep: int = 2 * GROUP) -> Ints:
        """Return the address of each chunk: of row m at [m, chunk along K], or MN-major at [chunk of M, k].

        `rows` of A or columns of B; `deep`: values of k, if the tile is MN-major: those of wgmma have 16 bits each.
        """
        if mn_major:
            per_row = CHUNK * deep // K_BYTES  # rows of M or N in a chunk: 32 bytes are `deep` elements
            chunk, k = np.arange(rows // per_row)[:, None], np.arange(deep)
            # Without a swizzle, the two offsets of an MN-major tile change roles. With atoms of 32 bytes, the pattern
            # has four rows, not eight.
            across, along = (self.stride, self.leading) if self.span == CHUNK else (self.leading, self.stride)
            group, wide = GROUP * CHUNK // self.atom, self.span // CHUNK  # chunks of a row that the swizzle permutes
            plain = self.start + chunk // wide * across + chunk % wide * CHUNK
            plain = plain + k // group * along + k % group * self.span
        else:
            row, chunk = np.arange(rows)[:, None], np.arange(K_BYTES // CHUNK)
            apart = self.leading if self.span == CHUNK else CHUNK  # swizzled, LBO is not used
            plain = self.start + row // GROUP * self.stride + row % GROUP * self.span + chunk * apart
        return swizzled(plain, self.span, self.base_offset, self.atom)

    def moved(self, start: int) -> Self:
        """Return the same matrix elsewhere."""
        return replace(self, start=start)

    @property
    def named_modes(self) -> Iterator[tuple[str, Self]]:
        """Yield each mode in words, and the descriptor with it."""
        for mode, span in self.spans.items():
            other = replace(self, mode=mode)
            yield f"the {span}-byte mode{other._atoms}" if mode else "the mode without swizzle", other

    @property
    def _atoms(self) -> str:
        return f" with {self.atom}-byte atoms" if self.atom > CHUNK else ""

    def __str__(self) -> str:
        """The fields as CUDA programmers call them."""
        mode = f"{self.span}-byte swizzle{self._atoms}" if self.mode else "no swizzle"
        base = f", base offset {self.base_offset}" if self.base_offset else ""
        return f"{mode}, LBO {self.leading}, SBO {self.stride}{base}"
