"""The cheapest mapping under which all accesses to a tile are conflict-free, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.judge import LEADING_STEP, Candidate, Constraints, Judge, find_matrix
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, LINE, WORD, Ints
from ncu_swizzle.smem.swizzle import Padding, Swizzle

# Why no mapping can make some accesses conflict-free: more lanes than banks that they could use.


def crowded(access: Access, plain: Mapping, granule: int) -> str | None:
    """Return why no mapping that keeps `granule` elements together makes this access conflict-free; None if one might.

    A word keeps its position within its granule, and a 128-byte bank row holds a fixed number of granules. If one phase
    accesses words at the same position of more granules than that, they must share banks.
    """
    size = plain.element_bytes
    unit = max(access.operation.width_bytes, WORD, size) // size
    if granule <= unit or access.operation.kind == ATOMIC:
        return None
    slots = LINE // (granule * size)
    offsets = plain.elements(access.rows, access.columns)
    active = access.mask
    most = 0
    for phase in access.operation.phases:
        lanes, on = offsets[:, phase.start : phase.stop], active[:, phase.start : phase.stop]
        for position in range(granule // unit):
            block = np.where(on & (lanes % granule // unit == position), lanes // granule, -1)
            block.sort(axis=1)
            distinct = (np.diff(block, axis=1, prepend=-1) != 0) & (block >= 0)
            most = max(most, int(distinct.sum(axis=1).max()))
    if most <= slots:
        return None
    return (
        f"{access.name}: {most} lanes of a phase need words at the same position in different {granule * size}-byte "
        f"units, but a bank row of 128 bytes holds only {slots}: no mapping that keeps units whole can separate them."
    )


# The cheapest mapping under which all accesses to a tile, writers and readers together, are conflict-free.
#
# Candidates are the plain layout, every ``Swizzle<B,M,S>`` that can matter, an XOR matrix, and padding. The swizzles
# and matrices are found by linear algebra: two lanes of a phase collide if a mapping that is linear over GF(2)
# sends the difference of their offsets to 0 in the bank bits. Every candidate is then verified by counting wavefronts.


MOST_REQUESTS = 1 << 12  # of all accesses together; each is counted under hundreds of mappings
LARGEST_PADDING = 128  # bytes: one more bank row reaches no new bank


@dataclass(frozen=True, kw_only=True)
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
    judge, unjudged = _judge(plain, accesses, limits)
    return replace(_search(judge), unjudged=unjudged)


def _judge(plain: Mapping, accesses: Sequence[Access], limits: Constraints) -> tuple[Judge, tuple[str, ...]]:
    """Return the judge of the accesses that can be counted, and the names of the others. Raises UsageError."""
    countable = tuple(access for access in accesses if access.wavefronts(plain).known.all())
    if not countable:
        raise UsageError(f"no rule gives the wavefronts of {accesses[0].op} here", "add another access")
    granule = max(access.granule(plain.element_bytes) for access in accesses)
    unjudged = tuple(access.name for access in accesses if access not in countable)
    return Judge(plain, countable, limits, granule), unjudged


def _search(judge: Judge) -> Suggestion:
    first = judge.candidate(judge.plain)
    if first.clean and judge.allowed(first):
        return Suggestion(
            plain=first, clean=(first,), closest=first, notes=("Every one of these accesses is already conflict-free.",)
        )
    hopeless = [reason for access in judge.accesses if (reason := crowded(access, judge.plain, judge.granule))]
    xors, complete, notes = _xors(judge, not hopeless)
    paddings, note = _paddings(judge)
    clean = sorted([*xors, *paddings], key=_cost)
    closest = clean[0] if clean else min([first, *judge.rejected], key=lambda c: (c.actual, *_cost(c)))
    return Suggestion(
        plain=first, clean=tuple(clean), closest=closest, notes=(*notes, note, *hopeless), complete=complete
    )


def _xors(judge: Judge, matrices_may_help: bool) -> tuple[list[Candidate], bool, list[str]]:
    """Return the clean swizzles or, if none is, XOR matrices; whether the search was complete; notes on what it did."""
    if judge.limits.leading:
        return [], True, ["An API computes the addresses: only longer rows can be tried."]
    swizzles, tried = _swizzles(judge)
    notes = [f"{tried} Swizzle<B,M,S> tried, {len(swizzles) or 'none'} clean."]
    if swizzles or not matrices_may_help:
        return swizzles, True, notes
    matrices, complete, note = _matrices(judge)
    return matrices, complete, [*notes, note]


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


def _swizzles(judge: Judge) -> tuple[list[Candidate], int]:
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
            # From `bits` on, or the source would overlap the target; below top - base, or no source bit would exist.
            for shift in range(bits, top - base):
                yield Swizzle(bits=bits, base=base, shift=shift)


def _matrices(judge: Judge) -> tuple[list[Candidate], bool, str]:
    """Return the clean matrix if there is one, whether the search was complete, and a note on the outcome."""
    top = int(judge.plain.all_elements().max()).bit_length()
    matrix, complete = find_matrix(judge.differences(), judge.granule.bit_length() - 1, top)
    if matrix is None:
        proven = "none exists, the search was complete" if complete else "none found, the search was cut off"
        return [], complete, f"XOR matrices within a 128-byte bank row: {proven}."
    candidate = judge.consider(matrix)
    note = f"An XOR matrix of {len(matrix.terms)} terms was found" + ("." if candidate else ", but rejected.")
    return ([candidate] if candidate else []), candidate is not None, note


def _paddings(judge: Judge) -> tuple[list[Candidate], str]:
    """Return the smallest clean padding after rows (or runs) of each length."""
    clean, tried = [], 0
    element = judge.plain.element_bytes
    step, most = judge.granule, LARGEST_PADDING // element
    if judge.limits.leading:
        step = max(step, LEADING_STEP // element)
    for every in sorted({stride for size, stride in judge.plain.layout.leaves if size > 1 and stride > 1}):
        if every % judge.granule:
            continue
        # Multiples of the granule alone: behind other paddings, a wide access would not be aligned.
        for by in range(step, most + 1, step):
            tried += 1
            candidate = judge.consider(Padding(every, by))
            if candidate:
                clean.append(candidate)
                break
    return clean, f"{tried} paddings of up to {LARGEST_PADDING} bytes tried, {len(clean) or 'none'} clean."


TRIED = 96  # requests per access to search on
VERIFIED = 24  # candidates to count on all requests
KEPT = 5  # clean ones that are enough


def suggest_by_trial(plain: Mapping, accesses: Sequence[Access], constraints: Constraints | None = None) -> Suggestion:
    """Return what `suggest` says of a sample of each access's requests, with every candidate counted on all of them.

    Raises UsageError if an access is impossible or no rule gives its wavefronts.
    """
    limits = constraints or Constraints()
    most = min(TRIED, MOST_REQUESTS // max(1, len(accesses)))
    if most == 0:
        raise UsageError(
            f"{len(accesses):,} accesses to one tile are too many to search for", "profile a smaller kernel"
        )
    samples = [access.chosen(sample(access, plain, most)) for access in accesses]
    suggestion = suggest(plain, samples, limits)
    judge, unjudged = _judge(plain, accesses, limits)
    verified = (counted for found in suggestion.clean[:VERIFIED] if (counted := judge.recounted(found)).clean)
    clean = tuple(islice(verified, KEPT))
    first = judge.candidate(plain)
    closest = clean[0] if clean else min((first, judge.recounted(suggestion.closest)), key=lambda c: c.actual)
    return replace(
        suggestion,
        plain=first,
        clean=clean,
        closest=closest,
        unjudged=unjudged,
        complete=suggestion.complete and bool(clean) == bool(suggestion.clean),
    )


def sample(access: Access, plain: Mapping, most: int = TRIED) -> Ints:
    """Return the indices of a sample of requests: the worst half first, then an even spread of the rest."""
    excess = access.wavefronts(plain).actual
    order = np.argsort(-excess, kind="stable")
    if len(order) <= most:
        return np.sort(order)
    worst, rest = order[: most // 2], order[most // 2 :]
    # The step is rounded up, so that the spread has at most as many as are left.
    return np.concatenate([worst, rest[:: -(-len(rest) // (most - len(worst)))]])
