"""What a mapping of a tile costs, counted over all accesses to it, and what it must respect."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem import capacity
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.mapping import Mapping, tma_alignment, tma_mode
from ncu_swizzle.smem.operations import ATOMIC, LOAD
from ncu_swizzle.smem.swizzle import Transform
from ncu_swizzle.smem.xor_search import Differences

BANK_ROW = 128  # bytes
WORD = 4
LEADING_STEP = 16  # bytes
UNKNOWN = 1 << 20  # wavefronts, of a request that no rule covers


@dataclass(frozen=True)
class Constraints:
    """What the mapping must respect: extra bytes per tile, TMA as the writer; a block has `copies` tiles.

    `leading`: an API such as ``load_matrix_sync`` computes the addresses from a leading dimension, a multiple of
    LEADING_STEP bytes; only the tile's rows can be made longer.
    """

    max_bytes: int | None = None
    tma: bool = False
    copies: int = 1
    arch: str = "sm_90"
    leading: bool = False

    def __post_init__(self) -> None:
        if self.arch not in capacity.KIB_PER_SM:
            raise UsageError(f"{self.arch!r} is not a known architecture", f"one of {', '.join(capacity.KIB_PER_SM)}")
        if self.copies < 1:
            raise UsageError("a block has at least one tile", "--copies 1")


@dataclass(frozen=True)
class Candidate:
    """A mapping and its cost. Wavefronts are totals over all executions of all accesses."""

    mapping: Mapping
    actual: int
    ideal: int
    avoidable: int  # excessive, except where a few active lanes are spread over several phases
    extra_bytes: int  # per tile, beyond the plain layout
    blocks: int  # resident per SM, as far as shared memory allows
    tma: str | None
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
        return tma_alignment(self.mapping) or self.mapping.origin & -self.mapping.origin or BANK_ROW


class Judge:
    """Counts the cost of a mapping over all accesses, and keeps the candidates that were not clean."""

    def __init__(self, plain: Mapping, accesses: tuple[Access, ...], limits: Constraints, granule: int) -> None:
        self.plain = plain
        self.accesses = accesses
        self.limits = limits
        self.granule = granule
        self.rejected: list[Candidate] = []

    def candidate(self, mapping: Mapping) -> Candidate:
        actual = ideal = avoidable = 0
        for access in self.accesses:
            wavefronts = access.wavefronts(mapping)
            # If no rule gives the wavefronts under this mapping, it must not look clean.
            counted = wavefronts.actual if wavefronts.known.all() else wavefronts.actual + UNKNOWN
            least = _least(access, wavefronts.ideal)
            actual += access.total(counted)
            ideal += access.total(wavefronts.ideal)
            avoidable += access.total(np.maximum(counted - least, 0))
        blocks = capacity.resident_blocks(self.limits.arch, self.limits.copies * mapping.bytes)
        return Candidate(mapping, actual, ideal, avoidable, mapping.bytes - self.plain.bytes, blocks, tma_mode(mapping))

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
        candidate = self.candidate(replace(self.plain, transform=transform))
        if not self.allowed(candidate):
            return None
        if not candidate.clean:
            self.rejected.append(candidate)
            return None
        return candidate

    def differences(self) -> Differences:
        """Return the XORed offset differences that must map to different banks, by the number of bits below a bank."""
        by_bits: dict[int, list[Ints]] = {}
        for access in self.accesses:
            if access.operation.kind == ATOMIC:
                continue
            width = max(access.operation.width_bytes, WORD, self.plain.element_bytes)
            low = (width // self.plain.element_bytes).bit_length() - 1
            by_bits.setdefault(low, []).append(_phase_differences(access, self.plain, low))
        row_bits = (BANK_ROW // self.plain.element_bytes).bit_length() - 1
        return Differences({low: np.unique(np.concatenate(parts)) for low, parts in by_bits.items()}, row_bits)


def _least(access: Access, ideal: Ints) -> Ints:
    """Return the fewest wavefronts that any mapping allows for each request.

    That is ideal, unless a few active lanes are spread over more phases than their bytes would fill.
    """
    if access.active is None:
        return ideal
    phases = [access.active[:, p.start : p.stop].any(axis=1) for p in access.operation.phases]
    return np.asarray(np.maximum(ideal, np.stack(phases).sum(axis=0)))


def _phase_differences(access: Access, plain: Mapping, low: int) -> Ints:
    """Return the XORed offsets of all pairs of lanes in a phase, without the bits below `low`.

    Wide loads whose lanes come in pairs of equal addresses can merge two phases; these then count as one.
    """
    offsets = plain.elements(access.rows, access.columns) >> low << low
    active = np.ones(offsets.shape, bool) if access.active is None else access.active
    differences = []
    phases = access.operation.phases
    merges = bool((access.wavefronts(plain).ideal < len(phases)).any()) and access.operation.kind == LOAD
    size = access.operation.lanes * (2 if merges and len(phases) > 1 and access.active is None else 1)
    for first in range(0, access.operation.addressed, size):
        lanes, on = offsets[:, first : first + size], active[:, first : first + size]
        for step in range(1, lanes.shape[1]):
            both = on[:, step:] & on[:, :-step]
            differences.append(np.unique((lanes[:, step:] ^ lanes[:, :-step])[both]))
    every = np.unique(np.concatenate(differences))
    return np.asarray(every[every != 0])
