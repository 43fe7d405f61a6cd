"""Descriptors of wgmma and tcgen05.mma: the bytes of shared memory that they name, in chunks of 16; and boxes of TMA.

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

from ncu_swizzle.smem.operations import LINE, WORD, Ints

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


# ---------------------------------------------------------------------------------------------- Blackwell's tcgen05.mma
#
# Descriptors of its operands and of itself, where its results go, and its time. Nothing here was measured by us: no
# Blackwell was at hand. The fields are those of the PTX ISA 9.0 ("tcgen05") and of CUTLASS's mma_sm100_desc.hpp.
# docs/blackwell.md says how they were checked.

ATOMS_32 = 1  # the layout of 128-byte rows in which atoms of 32 bytes are permuted: tf32, MN-major
VERSION = 1  # of a descriptor that Blackwell reads
_VERSION_AT, _ABSOLUTE_AT, _LAYOUT_AT = 46, 52, 61


@dataclass(frozen=True)
class UmmaDescriptor(Descriptor):
    """A shared-memory descriptor of tcgen05; offsets in bytes, `mode` its layout."""

    version: int = VERSION
    absolute: bool = False  # LBO is an address, not a distance

    # Bytes of a row that the swizzle permutes, by layout. 3, 5 and 7 are invalid.
    spans: ClassVar[Mapping[int, int]] = {0: CHUNK, ATOMS_32: LINE, 2: LINE, 4: 64, 6: 32}

    @classmethod
    def of_bits(cls, bits: int) -> UmmaDescriptor:
        """Return the descriptor that 64 bits encode."""
        start, leading, stride = ((bits >> at & FIELD) * CHUNK for at in (0, _LEADING_AT, _STRIDE_AT))
        base, mode = bits >> _BASE_AT & MOST_BASE_OFFSET, bits >> _LAYOUT_AT & 7
        version, absolute = bits >> _VERSION_AT & 3, bool(bits >> _ABSOLUTE_AT & 1)
        return cls(start, leading, stride, base, mode, version=version, absolute=absolute)

    @property
    def atom(self) -> int:
        """The bytes that the swizzle keeps together."""
        return 2 * CHUNK if self.mode == ATOMS_32 else CHUNK

    @property
    def refused(self) -> str:
        """Why no tcgen05.mma can read it, and what would fit; empty if one can."""
        if self.version != VERSION:
            return f"its version (bits 46 and 47) is {self.version}, and Blackwell's is {VERSION}"
        if self.mode not in self.spans:
            layouts = "0 none, 1 128B with 32-byte atoms, 2 128B, 4 64B, 6 32B"
            return f"its layout (bits 61 to 63) is {self.mode}, and the layouts are {layouts}"
        return ""


# ---------------------------------------------------------------------------------------------- the instruction

# By opcode: what the three bits of a type mean, and the bytes of an element in shared memory.
_FORMATS = {
    "UTCHMMA": {0: ("f16", 2), 1: ("bf16", 2), 2: ("tf32", 4)},
    "UTCIMMA": {0: ("u8", 1), 1: ("s8", 1)},
    "UTCQMMA": {0: ("e4m3", 1), 1: ("e5m2", 1), 3: ("e2m3", 1), 4: ("e3m2", 1), 5: ("e2m1", 1)},
    "UTCOMMA": {1: ("packed e2m1", 1)},  # two in a byte: K counts bytes here
}
_RESULTS = {0: "f16", 1: "f32", 2: "s32"}


@dataclass(frozen=True, kw_only=True)
class UmmaShape:
    """A tcgen05.mma: what its instruction descriptor says, and what its opcode and modifiers do."""

    opcode: str
    pair: bool  # cta_group::2
    stationary: bool  # tcgen05.mma.ws
    factors: int  # scale factors of a row that it takes; 0 without block scaling
    exponents: bool  # these are of ue8m0, not ue4m3
    m: int
    n: int
    a_format: int
    b_format: int
    d_format: int
    a_mn_major: bool
    b_mn_major: bool
    sparse: bool
    scale_ids: tuple[int, int] = (0, 0)  # which of the four bytes of a word has the scale factor of A and of B

    @classmethod
    def of_bits(cls, bits: int, opcode: str, modifiers: tuple[str, ...], *, scaled: bool) -> UmmaShape:
        """Return what the 32 bits of an instruction descriptor say."""
        factors = 1 if opcode != "UTCOMMA" else 4 if "4X" in modifiers else 2
        return cls(
            opcode=opcode,
            pair="2CTA" in modifiers,
            stationary="WS" in modifiers,
            factors=factors if scaled else 0,
            exponents=bool(bits >> 23 & 1),
            m=(bits >> 24 & 31) << 4,
            n=(bits >> 17 & 63) << 3,
            a_format=bits >> 7 & 7,
            b_format=bits >> 10 & (3 if opcode == "UTCOMMA" else 7),  # then bit 12 is of sparse operands
            d_format=1 if scaled else bits >> 4 & 3,
            a_mn_major=bool(bits >> 15 & 1),
            b_mn_major=bool(bits >> 16 & 1),
            sparse=bool(bits >> 2 & 1),
            scale_ids=(bits >> 29 & 3, bits >> 4 & 3) if scaled else (0, 0),
        )

    @property
    def types(self) -> tuple[str, str]:
        """The types of A and B; empty for an invalid code."""
        formats = _FORMATS[self.opcode]
        a, b = (formats.get(code, ("", 0))[0] for code in (self.a_format, self.b_format))
        return a, b

    @property
    def element(self) -> int:
        """The bytes of an element in shared memory."""
        return _FORMATS[self.opcode].get(self.a_format, ("", 1))[1]

    @property
    def rows(self) -> tuple[int, int]:
        """The rows of A and the columns of B that each block of the pair, or the only one, has in its shared memory."""
        return (self.m // 2, self.n // 2) if self.pair else (self.m, self.n)

    @property
    def refused(self) -> str:
        """Why the descriptor fits no instruction of its kind, and what would fit; empty if it does.

        Where the PTX ISA and CUTLASS disagree about N, all that one of them allows fits.
        """
        for side, code, name in zip("AB", (self.a_format, self.b_format), self.types, strict=True):
            if not name:
                valid = ", ".join(f"{number} {kind}" for number, (kind, _) in _FORMATS[self.opcode].items())
                return f"its type of {side} is {code}; of this kind are {valid}"
        a, b = self.types
        if self.opcode == "UTCHMMA" and (a == "tf32") != (b == "tf32"):
            return f"its types are {a} and {b}, of which one instruction takes only one width"
        wanted = {"UTCIMMA": (2,)}.get(self.opcode, (1,) if self.factors or a == "tf32" else (0, 1))
        if self.d_format not in wanted:
            fits = " or ".join(f"{code} ({_RESULTS[code]})" for code in wanted)
            return f"its type of D is {self.d_format}; {fits} would fit"
        return self._refused_shape() or self._refused_major() or self._refused_scales()

    def _refused_shape(self) -> str:
        if self.stationary:
            fits: dict[int, range | tuple[int, ...]] = dict.fromkeys((32, 64, 128), (64, 128, 256))
        elif self.pair:
            fits = dict.fromkeys((128, 256), range(16, 257, 16))
        else:
            fits = dict.fromkeys((128,) if self.factors else (64, 128), range(8, 257, 8))
        if self.m not in fits:
            return f"M is {self.m}: {' or '.join(map(str, fits))} would fit"
        if self.n not in fits[self.m]:
            steps = fits[self.m]
            words = f"multiples of {steps.step} up to 256" if isinstance(steps, range) else ", ".join(map(str, steps))
            return f"N is {self.n} with M = {self.m}: {words} fit"
        return ""

    def _refused_major(self) -> str:
        for side, mn_major, name in zip("AB", (self.a_mn_major, self.b_mn_major), self.types, strict=True):
            if mn_major and self.opcode == "UTCOMMA":
                return f"{side} is {name} and MN-major: only K-major fits"
        return ""

    def _refused_scales(self) -> str:
        if 0 < self.factors < WORD and not self.exponents:
            return "its scale factors are of type ue4m3 (bit 23): 1, ue8m0, would fit"
        for side, number in zip("AB", self.scale_ids, strict=True):
            if self.factors and number % self.factors:
                fits = " or ".join(map(str, range(0, WORD, self.factors)))
                takes = f"it takes {self.factors} of the four bytes"
                return f"its scale factor ID of {side} is {number}: {fits} would fit, as {takes}"
        return ""

    # ------------------------------------------------------------------------------------------ tensor memory

    @property
    def result_lanes(self) -> tuple[tuple[int, ...], int]:
        """The sixteenths of the 128 lanes that D occupies in each block, and how many columns.

        Rows beyond what the lanes hold are in further columns (PTX ISA, "Data path layout"; CUTLASS, tmem_frg).
        """
        if self.stationary:
            return _ALL, self.n * self.m // 128
        if self.pair:
            return _ALL, self.n // (2 if self.m == 128 else 1)
        return (_ALL, self.n) if self.m == 128 else (_EVEN, self.n)

    @property
    def a_lanes(self) -> tuple[tuple[int, ...], int]:
        """The same for A if it is in tensor memory: 32 bytes of a row in 8 columns."""
        return (_EVEN if self.m == 64 and not self.pair and not self.stationary else _ALL), K_BYTES // 4

    @property
    def scale_columns(self) -> tuple[int, int]:
        """The columns of the scale factors of A and B: 32 rows in a column of all lanes, four bytes each.

        For a pair with M = 128, each half of the lanes has those of its half of N.
        """
        columns = self.n // 2 if self.pair and self.m == 128 else self.n
        return -(-self.rows[0] // 32), -(-columns // 32)

    # ------------------------------------------------------------------------------------------ time

    def bound(self, a_in_shared: bool) -> str:
        """Describe how shared memory takes longer than the math, with the rule's origin; empty if it does not."""
        shared, math = self.cycles(a_in_shared)
        if shared <= math or self.sparse or self.stationary:
            return ""
        what = f"tcgen05.mma with M = {self.m}, N = {self.n}{' of a pair' if self.pair else ''}"
        times = f"loads A and B from shared memory for {shared:g} cycles and multiplies for {math:g}"
        return f"{what} {times}: more columns, or A in tensor memory, would balance it ({ORIGIN})"

    def cycles(self, a_in_shared: bool) -> tuple[float, float]:
        """Return the cycles that shared memory takes, and those of the math, for one instruction.

        From 264 intervals that SemiAnalysis measured on a B200 and published: of these the larger one is within 2 % in
        222, and in all 120 of one SM.
        """
        rows, columns = self.rows
        loaded = (rows if a_in_shared else 0) + columns
        # Rows of A and columns of B, 32 bytes each, at 128 bytes a cycle. A pair of M = 128 takes half the math.
        return loaded * K_BYTES / LINE, self.n / (4 if self.pair and self.m == 128 else 2)


ORIGIN = (
    "a rule that predicts 222 of 264 intervals which SemiAnalysis measured on a B200 within 2 %; not measured by us"
)
_ALL, _EVEN = tuple(range(8)), (0, 2, 4, 6)
