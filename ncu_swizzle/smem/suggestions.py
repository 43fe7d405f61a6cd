"""The cheapest mapping under which all accesses to a tile, writers and readers together, are conflict-free.

Candidates are the plain layout, every ``Swizzle<B,M,S>`` that can matter, an XOR matrix, and padding. The swizzles
and matrices are found by linear algebra: two lanes of a phase collide if a mapping that is linear over GF(2)
sends the difference of their offsets to 0 in the bank bits. Every candidate is then verified by counting wavefronts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem import capacity
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.mapping import Mapping, tma_alignment, tma_mode
from ncu_swizzle.smem.operations import ATOMIC, LOAD
from ncu_swizzle.smem.pigeonhole import crowded
from ncu_swizzle.smem.swizzle import Padding, Swizzle, Transform
from ncu_swizzle.smem.xor_search import Differences, find_matrix

BANK_ROW = 128  # bytes
WORD = 4
UNKNOWN = 1 << 20  # wavefronts, of a request that no rule covers
MOST_REQUESTS = 1 << 12  # of all accesses together; each is counted under hundreds of mappings
LARGEST_PADDING = 128  # bytes: one more bank row reaches no new bank


@dataclass(frozen=True)
class Constraints:
    """What the mapping must respect: extra bytes per tile, TMA as the writer; a block has `copies` tiles."""

    max_bytes: int | None = None
    tma: bool = False
    copies: int = 1
    arch: str = "sm_90"

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
        return tma_alignment(self.mapping) or BANK_ROW


@dataclass(frozen=True)
class Suggestion:
    """Clean candidates, cheapest first, and the closest one if none is clean; `notes` say what was tried."""

    plain: Candidate
    clean: tuple[Candidate, ...]
    closest: Candidate
    notes: tuple[str, ...]
    unjudged: tuple[str, ...] = ()  # accesses whose wavefronts no rule gives
    complete: bool = True  # whether the search for an XOR matrix was exhaustive

    @property
    def best(self) -> Candidate | None:
        return self.clean[0] if self.clean else None


def suggest(plain: Mapping, accesses: Sequence[Access], constraints: Constraints | None = None) -> Suggestion:
    """Return the cheapest mappings of a tile that make all its accesses conflict-free.

    `plain` is the layout without a transform. Raises UsageError if an access is impossible or cannot be counted.
    """
    limits = constraints or Constraints()
    if not accesses:
        raise UsageError("no access to the tile is given", "name them: --write rows:16 --read ldmatrix")
    requests = sum(access.requests for access in accesses)
    if requests > MOST_REQUESTS:
        raise UsageError(
            f"the accesses to {plain} make {requests:,} requests; at most {MOST_REQUESTS:,} can be searched for",
            "name a smaller part of the tile, such as its first 64 rows",
        )
    _check(plain, accesses)
    countable = tuple(access for access in accesses if access.wavefronts(plain).known.all())
    if not countable:
        raise UsageError(f"no rule gives the wavefronts of {accesses[0].op} here", "add another access")
    unjudged = tuple(access.name for access in accesses if access not in countable)
    granule = max(access.granule(plain.element_bytes) for access in accesses)
    suggestion = _search(_Judge(plain, countable, limits, granule))
    return replace(suggestion, unjudged=unjudged)


def _search(judge: _Judge) -> Suggestion:
    first = judge.candidate(judge.plain)
    if first.clean and judge.allowed(first):
        return Suggestion(first, (first,), first, ("Every access is already conflict-free.",))
    swizzles, tried = _swizzles(judge)
    notes = [f"{tried} Swizzle<B,M,S> tried, {len(swizzles) or 'none'} clean."]
    matrices: list[Candidate] = []
    complete = True
    hopeless = [reason for access in judge.accesses if (reason := crowded(access, judge.plain, judge.granule))]
    if not swizzles and not hopeless:
        matrices, complete, note = _matrices(judge)
        notes.append(note)
    paddings, note = _paddings(judge)
    notes += [note, *hopeless]
    clean = sorted([*swizzles, *matrices, *paddings], key=_cost)
    closest = clean[0] if clean else min([first, *judge.rejected], key=lambda c: (c.actual, *_cost(c)))
    return Suggestion(first, tuple(clean), closest, tuple(notes), complete=complete)


def _cost(candidate: Candidate) -> tuple[int, ...]:
    """Rank by resident blocks, bytes, then instructions; TMA modes and small patterns break ties."""
    transform = candidate.mapping.transform
    small = (transform.bits, transform.shift) if isinstance(transform, Swizzle) else (0, 0)
    return (-candidate.blocks, candidate.extra_bytes, candidate.operations, candidate.tma is None, *small)


def _check(plain: Mapping, accesses: Sequence[Access]) -> None:
    for access in accesses:
        width = access.operation.width_bytes
        if width > max(plain.vector_bytes(), plain.element_bytes):
            raise UsageError(
                f"{access.name}: {width} bytes per lane, but {plain} keeps only {plain.vector_bytes()} contiguous",
                "use a layout whose rows are multiples of that, or narrower accesses",
            )
        access.wavefronts(plain)  # raises if the instruction cannot use the addresses


class _Judge:
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
            actual += int(counted.sum()) * access.times
            ideal += int(wavefronts.ideal.sum()) * access.times
            avoidable += int(np.maximum(counted - least, 0).sum()) * access.times
        blocks = capacity.resident_blocks(self.limits.arch, self.limits.copies * mapping.bytes)
        return Candidate(mapping, actual, ideal, avoidable, mapping.bytes - self.plain.bytes, blocks, tma_mode(mapping))

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


def _swizzles(judge: _Judge) -> tuple[list[Candidate], int]:
    """Return the clean swizzles, one per distinct mapping, and how many were tried."""
    differences = judge.differences()
    low, row_bits = judge.granule.bit_length() - 1, differences.row_bits
    top = int(judge.plain.all_elements().max()).bit_length()
    offsets = judge.plain.all_elements()
    tried, by_mapping = 0, dict[bytes, list[Swizzle]]()
    clean: list[Candidate] = []
    for swizzle in _all_swizzles(low, row_bits, top):
        tried += 1
        if differences.separated_by(swizzle):
            by_mapping.setdefault(swizzle(offsets).tobytes(), []).append(swizzle)
        elif not by_mapping:  # still counted, to report the closest one if none is clean
            clean += filter(None, [judge.consider(swizzle)])
    for same in by_mapping.values():
        *others, name = sorted(same, key=lambda s: (s.bits <= 3, -s.shift, s.bits))  # CUTLASS's own have up to 3 bits
        candidate = judge.consider(name)
        if candidate:
            clean.append(replace(candidate, also=tuple(map(str, others))))
    return clean, tried


def _all_swizzles(low: int, row_bits: int, top: int) -> Iterator[Swizzle]:
    """Yield the swizzles that keep `low` bits, change only bank bits and read only bits that the tile has."""
    for base in range(low, row_bits):
        for bits in range(1, row_bits - base + 1):
            for shift in range(bits, top - base):
                yield Swizzle(bits, base, shift)


def _matrices(judge: _Judge) -> tuple[list[Candidate], bool, str]:
    """Return the clean matrix if there is one, whether the search was complete, and a note on the outcome."""
    top = int(judge.plain.all_elements().max()).bit_length()
    matrix, complete = find_matrix(judge.differences(), judge.granule.bit_length() - 1, top)
    if matrix is None:
        proven = "none exists, the search was complete" if complete else "none found, the search was cut off"
        return [], complete, f"XOR matrices within a 128-byte bank row: {proven}."
    candidate = judge.consider(matrix)
    note = f"An XOR matrix of {len(matrix.terms)} terms was found" + ("." if candidate else ", but rejected.")
    return ([candidate] if candidate else []), candidate is not None, note


def _paddings(judge: _Judge) -> tuple[list[Candidate], str]:
    """Return the smallest clean padding after rows (or runs) of each length."""
    clean, tried = [], 0
    step, most = judge.granule, LARGEST_PADDING // judge.plain.element_bytes
    for every in sorted({stride for size, stride in judge.plain.layout.leaves if size > 1 and stride > 1}):
        if every % judge.granule:
            continue
        for by in range(step, most + 1, step):
            tried += 1
            candidate = judge.consider(Padding(every, by))
            if candidate:
                clean.append(candidate)
                break
    return clean, f"{tried} paddings of up to {LARGEST_PADDING} bytes tried, {len(clean) or 'none'} clean."
