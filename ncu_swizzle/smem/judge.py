"""What a mapping of a tile costs, counted over all accesses to it, and what it must respect.

And the search for an XOR matrix that separates the lanes of each phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem import floors
from ncu_swizzle.smem.access import KIB_PER_SM, Access, resident_blocks
from ncu_swizzle.smem.code import spelled, unit
from ncu_swizzle.smem.mapping import Mapping as TileMapping
from ncu_swizzle.smem.mapping import pitch, tma_alignment, tma_mode
from ncu_swizzle.smem.operations import ATOMIC, COPY, LINE, WORD, Bools, Ints
from ncu_swizzle.smem.swizzle import Identity, Padding, Swizzle, Transform, XorMatrix

# Find XOR mappings: which bits above a 128-byte bank row to XOR into which bank bits. Exhaustive, by backtracking.
#
# A mapping F that is linear over GF(2) and keeps every bank row in place is the identity on the bits within a row plus
# a vector c_h of bank bits for each bit h above. Lanes x and y of a phase need different banks: F(x ^ y) must not be 0.
# Given c of all lower bits, each difference with top bit h forbids one value of c_h (or a few), so that the vectors
# can be chosen one by one, and running out of values in every branch proves that no mapping exists.


MOST_NODES = 20_000  # of the search tree, for each number of terms


@dataclass(frozen=True, eq=False)
class Differences:
    """XORed offsets of lanes served together, by the number of bits below a bank; a bank row has `row_bits` bits."""

    by_low: Mapping[int, Ints]
    row_bits: int

    def separated_by(self, swizzle: Swizzle) -> bool:
        """Whether a swizzle maps all differences to different banks."""
        return all(bool((swizzle(offsets) & self.mask(low) != 0).all()) for low, offsets in self.by_low.items())

    def mask(self, low: int) -> int:
        """The mask of bank bits for accesses with `low` bits below a bank."""
        return (1 << self.row_bits) - (1 << low)


def find_matrix(differences: Differences, low: int, top: int) -> tuple[XorMatrix | None, bool]:
    """Return the XOR matrix with the fewest terms under which no lanes collide, and whether the search was complete.

    It keeps the lowest `low` bits, and reads the bits above the bank row up to `top`.
    """
    search = _Search(differences, low, top)
    vectors = search.run(limit=top)
    if vectors is None:
        return None, search.nodes < MOST_NODES
    # The first search only proves that there is a matrix; with ever more terms, the first hit has the fewest.
    for terms in range(1, len(_matrix(vectors).terms)):
        better = search.run(limit=terms)
        if better is not None:
            vectors = better
            break
    return _matrix(vectors), True


class _Search:
    def __init__(self, differences: Differences, low: int, top: int) -> None:
        self.differences = differences
        self.top = top
        self.row_bits = differences.row_bits
        # All subsets of the bank bits that may change, as masks: (2^targets,).
        targets = 1 << np.arange(low, self.row_bits)
        choices = np.arange(1 << len(targets))
        self.choices = [int(c) for c in (choices[:, None] >> np.arange(len(targets)) & 1) @ targets]
        # By highest bit: the differences that have it, with the mask of their bank bits. Differences within a bank row
        # are left out: no vector changes them, and they are never 0 in the bank bits.
        self.by_top = {
            bit: [(differences.mask(low), offsets[offsets >> bit == 1]) for low, offsets in differences.by_low.items()]
            for bit in range(self.row_bits, top)
        }
        self.nodes = 0
        self.limit = top

    def run(self, limit: int) -> dict[int, int] | None:
        """Return a vector for every bit, with at most `limit` distinct shifts in all, or None."""
        self.nodes, self.limit = 0, limit
        return self.assign(self.row_bits, {})

    def assign(self, bit: int, chosen: dict[int, int]) -> dict[int, int] | None:
        """Return vectors for all bits from `bit` on, or None."""
        if bit >= self.top:
            return chosen
        self.nodes += 1
        if self.nodes >= MOST_NODES:
            return None
        forbidden = [
            # F(d) is this image XOR c in the bank bits: c must be none of them, or F(d) would be 0.
            (mask, set((self._image(differences, chosen) & mask).tolist()))
            for mask, differences in self.by_top[bit]
        ]
        used = _shifts(chosen)
        free = [c for c in self.choices if not any(c & mask in images for mask, images in forbidden)]
        # Each shift that is new is another term of three operations: choices that need no new one come first.
        for choice in sorted(free, key=lambda c: (len(_shifts({bit: c}) - used), c.bit_count(), c)):
            if len(used | _shifts({bit: choice})) > self.limit:
                break  # all later choices need as many shifts
            vectors = self.assign(bit + 1, {**chosen, bit: choice})
            if vectors is not None:
                return vectors
        return None

    def _image(self, differences: Ints, chosen: dict[int, int]) -> Ints:
        image = differences & ((1 << self.row_bits) - 1)
        for bit, vector in chosen.items():
            image = image ^ np.where(differences >> bit & 1, vector, 0)
        return image


def _shifts(chosen: Mapping[int, int]) -> set[int]:
    return {bit - target for bit, vector in chosen.items() for target in range(bit) if vector >> target & 1}


def _matrix(chosen: Mapping[int, int]) -> XorMatrix:
    masks: dict[int, int] = {}
    for bit, vector in chosen.items():
        for target in range(bit):
            if vector >> target & 1:
                masks[bit - target] = masks.get(bit - target, 0) | 1 << target
    return XorMatrix(tuple(sorted(masks.items())))


LEADING_STEP = 16  # bytes
UNKNOWN = 1 << 20  # wavefronts, of a request that no rule covers


@dataclass(frozen=True)
class Constraints:
    """What the mapping must respect: extra bytes per tile, TMA as the writer; a block has `copies` tiles.

    `leading`: an API such as ``load_matrix_sync`` computes the addresses from a leading dimension, a multiple of
    LEADING_STEP bytes; only the tile's rows can be made longer. `rows`: it is known how long the tile's rows are.
    """

    max_bytes: int | None = None
    tma: bool = False
    copies: int = 1
    arch: str = "sm_90"
    leading: bool = False
    rows: bool = True

    def __post_init__(self) -> None:
        if self.arch not in KIB_PER_SM:
            raise UsageError(f"{self.arch!r} is not a known architecture", f"one of {', '.join(KIB_PER_SM)}")
        if self.copies < 1:
            raise UsageError("a block has at least one tile", "--copies 1")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A mapping and its cost. Wavefronts are totals over all executions of all accesses."""

    mapping: TileMapping
    actual: int
    ideal: int
    avoidable: int  # excessive, except for what no mapping changes, see `floors`
    extra_bytes: int  # per tile, beyond what it has now
    blocks: int  # resident per SM, limited by shared memory alone
    tma: str | None
    was: int = 0  # elements of a row in the tile now, if the mapping changes that
    also: tuple[str, ...] = ()  # other names of the same mapping

    @property
    def excessive(self) -> int:
        return self.actual - self.ideal

    @property
    def clean(self) -> bool:
        """Whether no mapping can do better."""
        return self.avoidable == 0

    @property
    def operations(self) -> int:
        """Integer operations per address beyond those of the plain layout."""
        return self.mapping.transform.operations

    @property
    def alignment(self) -> int:
        """The alignment of the tile's start in bytes: TMA swizzles addresses, the generated code offsets."""
        return tma_alignment(self.mapping) or self.mapping.origin & -self.mapping.origin or LINE

    @property
    def name(self) -> str:
        """The mapping's name: its transform, and the length of its rows if that changes."""
        transform = self.mapping.transform
        rows = f"rows of {pitch(self.mapping.layout)}" if self.was else ""
        return rows if rows and isinstance(transform, Identity) else " with ".join(filter(None, (rows, str(transform))))

    def places(self, size: int) -> Ints:
        """Return where the mapping puts each byte of the current tile, (size,); -1 for unused columns."""
        element, columns = self.mapping.element_bytes, self.mapping.shape[1]
        index, within = np.divmod(np.arange(size), element)
        row, column = np.divmod(index, self.was or pitch(self.mapping.layout))
        used = column < columns
        return np.where(used, self.mapping.elements(row, np.where(used, column, 0)) * element + within, -1)

    @property
    def spelled(self) -> str:
        """The mapping in words, with the unit of its numbers and its CUDA expression.

        ``Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f))``, ``rows of 33 instead of 32 elements
        of 4 bytes``.
        """
        mapping, transform = self.mapping, self.mapping.transform
        now, then = self.was, pitch(mapping.layout)
        if isinstance(transform, Padding) and transform.every == then:
            now, then, transform = transform.every, transform.every + transform.by, Identity()
        if not now:
            return spelled(mapping)
        rows = f"rows of {then} instead of {now} {unit(mapping.element_bytes)}"
        return rows if isinstance(transform, Identity) else f"{rows}, with {transform} ({transform.cuda('offset')})"


MOST_SEEN_BITS = 22  # of offsets whose differences are marked in a table, which is quicker than sorting them


class Judge:
    """Counts the cost of a mapping over all accesses, and keeps the candidates that were not clean.

    `taken` are the bytes that the tile has now; those of the plain layout unless its array is declared. `used` are the
    columns that are accessed, if that is more than what these accesses show.
    """

    def __init__(
        self,
        plain: TileMapping,
        accesses: tuple[Access, ...],
        limits: Constraints,
        granule: int,
        taken: int = 0,
        used: int = 0,
    ) -> None:
        self.plain = plain
        self.accesses = accesses
        self.limits = limits
        self.granule = granule
        self.taken = taken or plain.bytes
        last = max(int(access.columns[access.mask].max(initial=0)) for access in accesses)
        last += max(access.granule(plain.element_bytes) for access in accesses)
        self.used = used or min(-(-last // granule) * granule, plain.shape[1])
        self.rejected: list[Candidate] = []  # the closest among them
        self.closest = math.inf  # the avoidable wavefronts that one of these leaves, or the plain layout

    def candidate(self, mapping: TileMapping) -> Candidate:
        candidate = self.bounded(mapping, math.inf)
        assert candidate is not None
        return candidate

    def bounded(self, mapping: TileMapping, most: float) -> Candidate | None:
        """Return the candidate; None if more than `limit` of its wavefronts are avoidable."""
        actual = ideal = avoidable = 0
        for access in self.accesses:
            wavefronts = access.wavefronts(mapping)
            # If no rule gives the wavefronts under this mapping, it must not look clean.
            counted = wavefronts.actual if wavefronts.known.all() else wavefronts.actual + UNKNOWN
            least = floors.least(access, mapping, wavefronts.ideal)
            actual += access.total(counted)
            ideal += access.total(wavefronts.ideal)
            avoidable += access.total(np.maximum(counted - least, 0))
            if avoidable > most:
                return None
        now, then = pitch(self.plain.layout), pitch(mapping.layout)
        # The last row of the plain layout may end after the array; rows of another length are declared whole.
        size = self.taken if mapping == self.plain else mapping.bytes
        if now != then:
            size = max(size, mapping.shape[0] * then * mapping.element_bytes)
        blocks = resident_blocks(self.limits.arch, self.limits.copies * size)
        return Candidate(
            mapping=mapping,
            actual=actual,
            ideal=ideal,
            avoidable=avoidable,
            # The allocation may already be larger than the tile.
            extra_bytes=max(0, size - self.taken) if size >= self.plain.bytes else size - self.plain.bytes,
            blocks=blocks,
            tma=tma_mode(mapping),
            was=now if now != then else 0,
        )

    def recounted(self, candidate: Candidate) -> Candidate:
        """Return another judge's candidate with the counts of these accesses."""
        return replace(self.candidate(candidate.mapping), also=candidate.also)

    def allowed(self, candidate: Candidate) -> bool:
        """Whether it respects the constraints and loses no element."""
        if self.limits.tma and candidate.tma is None:
            return False
        if self.limits.max_bytes is not None and candidate.extra_bytes > self.limits.max_bytes:
            return False
        return candidate.blocks > 0 and candidate.mapping.collision() is None

    def consider(self, transform: Transform) -> Candidate | None:
        """Return the candidate if it is clean and allowed."""
        return self.consider_mapping(replace(self.plain, transform=transform))

    def consider_mapping(self, mapping: TileMapping) -> Candidate | None:
        # Of those that are not clean, only the closest counts: whatever leaves more than another is not counted on.
        candidate = self.bounded(mapping, self.closest)
        if candidate is None or not self.allowed(candidate):
            return None
        if not candidate.clean:
            self.closest = min(self.closest, candidate.avoidable)
            self.rejected.append(candidate)
            return None
        return candidate

    def differences(self, *, necessary: bool = False) -> Differences:
        """Return the XORed offset differences that are to map to different banks, by the number of bits below a bank.

        `necessary`: only those that every clean mapping certainly has to separate. For atomics and copies, whose
        lanes also conflict in other ways, these are few, and counting judges the result.
        """
        by_bits: dict[int, list[Ints]] = {}
        for access in self.accesses:
            chosen = self._pairwise(access) if necessary or access.operation.kind == ATOMIC else None
            width = max(access.operation.width_bytes, WORD, self.plain.element_bytes)
            low = (width // self.plain.element_bytes).bit_length() - 1
            by_bits.setdefault(low, []).append(_phase_differences(access, self.plain, low, chosen))
        row_bits = (LINE // self.plain.element_bytes).bit_length() - 1
        return Differences({low: np.unique(np.concatenate(parts)) for low, parts in by_bits.items()}, row_bits)

    def _pairwise(self, access: Access) -> Bools | None:
        """Mark the requests, (N,), that are clean only if all lanes of a phase are in different banks; None: all."""
        if access.operation.kind not in (ATOMIC, COPY):
            return None
        if ".cg." in access.op:
            return np.zeros(access.requests, bool)
        counted = access.wavefronts(self.plain)
        phases = [access.mask[:, phase.start : phase.stop].any(axis=1) for phase in access.operation.phases]
        times = 2 if ".cas." in access.op else 1
        return np.asarray(floors.least(access, self.plain, counted.ideal) <= times * np.stack(phases).sum(axis=0))


def _phase_differences(access: Access, plain: TileMapping, low: int, chosen: Bools | None = None) -> Ints:
    """Return the XORed offsets of all pairs of lanes in a phase, without the bits below `low`.

    Of all requests, or only the `chosen` ones, (N,). Two phases of a wide load may merge, but need not: the ideal of
    a load that does not is higher.
    """
    offsets = plain.elements(access.rows, access.columns) >> low << low
    active = access.mask
    if chosen is not None:
        offsets, active = offsets[chosen], active[chosen]
    offsets = np.where(active, offsets, 0)
    bits = int(offsets.max(initial=0)).bit_length()
    seen: Bools = np.zeros(1 << bits if bits <= MOST_SEEN_BITS else 0, bool)
    differences = [np.zeros(0, np.int64)]
    for phase in access.operation.phases:
        lanes, on = offsets[:, phase.start : phase.stop], active[:, phase.start : phase.stop]
        first, second = np.triu_indices(lanes.shape[1], 1)
        pairs = (lanes[:, first] ^ lanes[:, second])[on[:, first] & on[:, second]]  # every pair of a phase once
        if len(seen):
            seen[pairs] = True
        else:
            differences.append(np.unique(pairs))
    every = np.flatnonzero(seen) if len(seen) else np.unique(np.concatenate(differences))
    return np.asarray(every[every != 0])
