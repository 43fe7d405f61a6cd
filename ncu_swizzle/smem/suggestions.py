"""The cheapest mapping under which all accesses to a tile are conflict-free, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem import floors
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.judge import LEADING_STEP, Candidate, Constraints, Differences, Judge, find_matrix
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping, pitch
from ncu_swizzle.smem.operations import LINE, LOAD, STORE, Ints
from ncu_swizzle.smem.swizzle import Padding, RowXor, Swapped, Swizzle

# The cheapest mapping under which all accesses to a tile, writers and readers together, are conflict-free.
#
# Candidates are the plain layout, every ``Swizzle<B,M,S>`` that can matter, an XOR matrix, and padding. The swizzles
# and matrices are found by linear algebra: two lanes of a phase collide if a mapping that is linear over GF(2)
# sends the difference of their offsets to 0 in the bank bits. Every candidate is then verified by counting wavefronts.


MOST_REQUESTS = 1 << 12  # of all accesses together; each is counted under hundreds of mappings
LARGEST_PADDING = 128  # bytes that a row is lengthened by: one more bank row reaches no new bank


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The whole search: how many XORs, row lengths, and pairs of both.

    `xors` are all XORs of address bits if `complete`, else those that were counted.
    """

    xors: int = 0
    of_rows: int = 0  # of a row's number into the column, if row lengths are not a power of two
    lengths: int = 0
    both: int = 0
    swaps: int = 0  # of row and column
    complete: bool = True
    whole: int = 0  # bytes of the widest access, if more than an element: they move together
    tma: bool = False

    def __str__(self) -> str:
        """Describe it, for a sentence that begins with "none of"."""
        if self.tma:
            return "TMA's modes"
        kinds = [
            (self.xors, "XOR of address bits", "XORs of address bits"),
            (self.of_rows, "XOR of a row's number into its columns", "XORs of a row's number into its columns"),
            (self.lengths, "row length", "row lengths"),
        ]
        words = [f"{_many(count)} {one if count == 1 else more}" for count, one, more in kinds if count]
        if self.both:
            words.append(f"{_many(self.both)} pairs of both")
        if self.swaps:
            words.append("the swap of row and column")
        text = ", ".join(words[:-1]) + (" and " if words[1:] else "") + words[-1] if words else "mappings"
        return f"the {text}" + (f" that keep {self.whole}-byte accesses whole" if self.whole else "")


def _many(count: int) -> str:
    """Format a number; a large power of two as such."""
    return f"2^{count.bit_length() - 1}" if count > 1 << 20 and count & (count - 1) == 0 else f"{count:,}"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Clean candidates, cheapest first, and the closest one if none is clean; `notes` say what was tried.

    `fixed` are the accesses that take more wavefronts than their bytes fill under any mapping, with the reasons.
    """

    plain: Candidate
    clean: tuple[Candidate, ...]
    closest: Candidate
    notes: tuple[str, ...]
    tried: Tried = Tried()
    fixed: tuple[tuple[str, str], ...] = ()
    unjudged: tuple[str, ...] = ()  # accesses whose wavefronts no rule gives
    complete: bool = True  # whether nothing that was searched for was left out
    # If none is clean: one that is clean with accesses no wider than `narrow` bytes, in no more wavefronts.
    apart: Candidate | None = None
    narrow: int = 0

    @property
    def best(self) -> Candidate | None:
        return self.clean[0] if self.clean else None


def suggest(
    plain: Mapping, accesses: Sequence[Access], constraints: Constraints | None = None, taken: int = 0, used: int = 0
) -> Suggestion:
    """Return the cheapest mappings of a tile that make all its accesses conflict-free.

    `plain` is the layout without a transform, `taken` the bytes of its array if they are known, `used` its columns that
    are accessed, if not these accesses alone tell. Raises UsageError if an access is impossible or cannot be counted.
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
    judge, unjudged = _judge(plain, accesses, limits, taken, used)
    suggestion = replace(_search(judge), unjudged=unjudged)
    return (
        suggestion
        if used
        else _with_narrow_accesses(suggestion, accesses, lambda parts: suggest(plain, parts, limits, taken))
    )


NARROW = {1: "u8", 2: "u16", 4: "b32", 8: "b64"}  # of loads and stores, by their bytes


def in_narrower_accesses(access: Access, width: int, element: int) -> tuple[Access, ...]:
    """Return a load or store as several of `width` bytes each; other or narrower accesses unchanged."""
    operation = access.operation
    if operation.kind not in (LOAD, STORE) or operation.width_bytes <= width:
        return (access,)
    op = f"{operation.name[:2]}.shared.{NARROW[width]}"
    firsts = range(0, operation.width_bytes // element, max(1, width // element))
    return tuple(replace(access, op=op, columns=access.columns + first) for first in firsts)


def _with_narrow_accesses(
    suggestion: Suggestion, accesses: Sequence[Access], search: Callable[[tuple[Access, ...]], Suggestion]
) -> Suggestion:
    """Add, to a suggestion without a clean mapping, one that is clean if wide accesses are split."""
    if suggestion.best is not None or not suggestion.complete:
        return suggestion
    element = suggestion.plain.mapping.element_bytes
    for width in (width for width in NARROW if width >= element):
        parts = tuple(part for access in accesses for part in in_narrower_accesses(access, width, element))
        if len(parts) == len(accesses):
            continue
        # What is clean takes no fewer wavefronts than hold the bytes, whatever the mapping.
        ideals = (part.total(part.wavefronts(suggestion.plain.mapping).ideal) for part in parts)
        try:
            if sum(ideals) >= suggestion.closest.actual:
                continue
            best = search(parts).best
        except UsageError:
            return suggestion
        if best is not None and best.actual < suggestion.closest.actual:
            return replace(suggestion, apart=best, narrow=width)
    return suggestion


def _judge(
    plain: Mapping, accesses: Sequence[Access], limits: Constraints, taken: int = 0, used: int = 0
) -> tuple[Judge, tuple[str, ...]]:
    """Return a judge of the countable accesses, and the names of the others. Raises UsageError."""
    countable = tuple(access for access in accesses if access.wavefronts(plain).known.all())
    if not countable:
        raise UsageError(f"no rule gives the wavefronts of {accesses[0].op} here", "add another access")
    granule = max(access.granule(plain.element_bytes) for access in accesses)
    unjudged = tuple(access.name for access in accesses if access not in countable)
    return Judge(plain, countable, limits, granule, taken=taken, used=used), unjudged


def _search(judge: Judge) -> Suggestion:
    first = judge.candidate(judge.plain)
    judge.closest = first.avoidable
    fixed = floors.reasons(judge.accesses, judge.plain)
    if first.clean and judge.allowed(first):
        free = "Every one of these accesses is already conflict-free."
        note = "No mapping takes fewer wavefronts." if fixed else free
        return Suggestion(plain=first, clean=(first,), closest=first, notes=(note,), fixed=fixed)
    crowds = (floors.crowded(access, judge.plain, judge.granule) for access in judge.accesses)
    hopeless = [crowd for crowd in crowds if crowd]
    xors, tried, notes = _xors(judge, bool(hopeless))
    swapped = _swapped(judge)
    of_rows, counted = _of_rows(judge)
    longer, lengths, more = _lengths(judge)
    notes += [f"{counted} XORs of rows into columns tried, {len(of_rows) or 'none'} clean."] if counted else []
    notes += more
    xors = [*filter(None, swapped), *xors, *of_rows]
    tried = replace(tried, of_rows=counted, lengths=lengths, swaps=len(swapped))
    if not (xors or longer or hopeless or judge.limits.leading or judge.limits.tma):
        longer, both = _both(judge)
        notes += [f"{both:,} of both together tried, {len(longer) or 'none'} clean."] if both else []
        tried = replace(tried, both=both)
    clean = sorted([*xors, *longer], key=_cost)
    closest = clean[0] if clean else min([first, *judge.rejected], key=lambda c: (c.avoidable, c.actual, *_cost(c)))
    return Suggestion(
        plain=first, clean=tuple(clean), closest=closest, notes=tuple(dict.fromkeys((*notes, *hopeless))), tried=tried,
        fixed=fixed, complete=tried.complete,
    )  # fmt: skip


def _cost(candidate: Candidate) -> tuple[int, ...]:
    """Rank by resident blocks, bytes, then instructions; TMA modes and the simplest code break ties."""
    transform, row = candidate.mapping.transform, pitch(candidate.mapping.layout).bit_length() - 1
    simplest = (0, 0, 0, 0)
    if isinstance(transform, Swizzle):
        # A mapping that also moves bits above a row's columns cannot be written as an XOR of the column.
        drop, leaves = transform.base + transform.shift - row, transform.base + transform.bits > row
        simplest = (leaves, *simplest_xor(drop, transform.base, transform.bits))
    elif isinstance(transform, RowXor):
        simplest = (0, *simplest_xor(transform.drop, transform.base, transform.bits))
    return (-candidate.blocks, candidate.extra_bytes, candidate.operations, candidate.tma is None, *simplest)


def simplest_xor(drop: int, base: int, bits: int) -> tuple[int, int, int]:
    """Return the order of XORs of a row's number, without its lowest `drop` bits, into a column from bit `base` on.

    ``x ^ y`` comes first; an XOR with fewer bits of the row takes a mask.
    """
    return (abs(drop), base, -bits)


def _check(plain: Mapping, accesses: Sequence[Access]) -> None:
    for access in accesses:
        width = access.operation.width_bytes
        if width > max(plain.vector_bytes(), plain.element_bytes):
            raise UsageError(
                f"{access.name}: {width} bytes per lane, but {plain} keeps only {plain.vector_bytes()} contiguous",
                "use a layout whose rows are multiples of that, or narrower accesses",
            )
        access.wavefronts(plain)  # raises if the instruction cannot use the addresses


# ---------------------------------------------------------------------------------------------- XORs


def _xors(judge: Judge, hopeless: bool) -> tuple[list[Candidate], Tried, list[str]]:
    """Return the clean swizzles or, if none is, XOR matrices; what was searched; and notes on it.

    `hopeless`: it is known that no mapping is clean.
    """
    widest = max(access.operation.width_bytes for access in judge.accesses)
    tried = Tried(whole=widest if judge.granule > 1 else 0, tma=judge.limits.tma)
    if judge.limits.leading:
        return [], tried, ["An API computes the addresses: only longer rows can be tried."]
    low, top = judge.granule.bit_length() - 1, _top(judge.plain)
    differences = judge.differences()
    # Each of the bits above a bank row, s, may be XORed into any of the t bank bits: 2^(t s) matrices, all swizzles
    # among them. Bits within a bank row only rename banks.
    every = 1 << max(0, differences.row_bits - low) * max(0, top - differences.row_bits)
    swizzles, counted = _swizzles(judge, differences)
    notes = [f"{counted} Swizzle<B,M,S> tried, {len(swizzles) or 'none'} clean."]
    if swizzles or hopeless:
        return swizzles, replace(tried, xors=every), notes
    matrices, complete, note = _matrices(judge, differences, low, top)
    notes.append(note)
    return matrices, replace(tried, xors=every if complete else counted, complete=complete or tried.tma), notes


def _top(plain: Mapping) -> int:
    return int(plain.all_elements().max()).bit_length()


def _swizzles(judge: Judge, differences: Differences) -> tuple[list[Candidate], int]:
    """Return the clean swizzles, one per distinct mapping, and how many were tried."""
    offsets = judge.plain.all_elements()
    tried, by_mapping = 0, dict[bytes, list[Swizzle]]()
    clean: list[Candidate] = []
    for swizzle in _all_swizzles(judge.granule.bit_length() - 1, differences.row_bits, _top(judge.plain)):
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


def _matrices(judge: Judge, differences: Differences, low: int, top: int) -> tuple[list[Candidate], bool, str]:
    """Return the clean matrix if there is one, whether the search was complete, and a note on the outcome."""
    matrix, _ = find_matrix(differences, low, top)
    candidate = judge.consider(matrix) if matrix and matrix.terms else None
    if candidate is not None:
        return [candidate], True, f"An XOR matrix of {len(matrix.terms if matrix else ())} terms was found."
    # Only differences that every clean mapping has to separate prove that none exists.
    none, complete = find_matrix(judge.differences(necessary=True), low, top)
    if none is None and complete:
        return [], True, "XOR matrices within a 128-byte bank row: none exists, the search was complete."
    return [], False, "XOR matrices within a 128-byte bank row: none found, the search was cut off."


def _of_rows(judge: Judge) -> tuple[list[Candidate], int]:
    """Return the clean XORs of a row's number into its columns, and how many were tried.

    For rows a power of two long, `_swizzles` tries them.
    """
    columns, (rows, _) = pitch(judge.plain.layout), judge.plain.shape
    if judge.limits.leading or not columns & columns - 1 or not _by_rows(judge.plain):
        return [], 0
    xors = list(row_xors(columns, rows, judge.granule, judge.plain.element_bytes))
    return [*filter(None, map(judge.consider, xors))], len(xors)


MOST_BITS = 5  # of a row's number: as many as of a bank's


def row_xors(columns: int, rows: int, granule: int, element_bytes: int, height: int = 0) -> Iterator[RowXor]:
    """Yield the XORs of a row's number that move whole granules within a bank row and within a row.

    There are `rows` of them; after `height` rows, if that is not 0, their numbers start over.
    """
    least = granule.bit_length() - 1
    for base in range(least, least + MOST_BITS):
        for bits in range(1, MOST_BITS + 1):
            moved = 1 << (base + bits)
            # Bits beyond a bank row of 128 bytes do not change the bank; and columns must stay within their row.
            if moved * element_bytes > LINE or columns % moved:
                break
            for drop in range(max(1, (rows - 1).bit_length())):
                # The highest used bit of the row's number is 0 in all rows: fewer bits do the same.
                if 1 << (drop + bits - 1) >= rows and bits > 1:
                    break
                yield RowXor(columns=columns, rows=height, bits=bits, base=base, drop=drop)


def _swapped(judge: Judge) -> list[Candidate | None]:
    """Return the swap of row and column, None if it is not clean; empty if none keeps the tile's bytes."""
    plain, (rows, columns) = judge.plain, judge.plain.shape
    fills_array = plain.bytes == rows * columns * plain.element_bytes == judge.taken
    alone = judge.limits.leading or judge.limits.tma or not judge.limits.rows
    if alone or judge.granule > 1 or not fills_array or not _by_rows(plain):
        return []
    return [judge.consider(Swapped(columns=columns, rows=rows))]


# ---------------------------------------------------------------------------------------------- lengths of rows


def _lengths(judge: Judge) -> tuple[list[Candidate], int, list[str]]:
    """Return the smallest clean padding after rows (or runs) of each length, how many were tried, and notes.

    And the shortest clean rows, if nothing accesses the last columns: existing padding may go.
    """
    rows, plain, (step, most) = judge.plain.shape[0], judge.plain, _steps(judge)
    tried, notes, clean = 0, list[str](), list[Candidate]()

    def first(mappings: Sequence[Mapping]) -> int:
        """Keep the first clean one of some mappings; return how many were tried."""
        for number, mapping in enumerate(mappings):
            if candidate := judge.consider_mapping(mapping):
                clean.append(candidate)
                return number + 1
        return len(mappings)

    if judge.limits.rows and not judge.limits.leading and judge.used > 1 and _by_rows(plain):
        shorter = [Layout((rows, judge.used), (n, 1)) for n in range(judge.used, pitch(plain.layout), judge.granule)]
        tried = first([replace(plain, layout=layout) for layout in shorter])
        notes += [f"{tried} shorter lengths of rows tried, {len(clean) or 'none'} clean."] if shorter else []
    longer, padded = 0, len(clean)
    for every in sorted({stride for size, stride in plain.layout.leaves if size > 1 and stride > 1}):
        # Only multiples of the granule: after other paddings, a wide access would not be aligned.
        by = range(step, most + 1, step) if every % judge.granule == 0 else ()
        longer += first([replace(plain, transform=Padding(every, more)) for more in by])
    padded = len(clean) - padded
    notes.append(f"{longer} paddings of up to {LARGEST_PADDING} bytes tried, {padded or 'none'} clean.")
    return clean, tried + longer, notes


def _steps(judge: Judge) -> tuple[int, int]:
    """Return the least and the greatest number of elements to lengthen rows by."""
    element = judge.plain.element_bytes
    least = LEADING_STEP // element if judge.limits.leading else 1
    return max(judge.granule, least), LARGEST_PADDING // element


def _by_rows(plain: Mapping) -> bool:
    """Return whether a layout is a sequence of rows."""
    rows, columns = plain.layout.modes
    return len(rows.leaves) == len(columns.leaves) == 1 and columns.leaves[0][1] == 1 and rows.size > 1


def _both(judge: Judge) -> tuple[list[Candidate], int]:
    """Return the clean swizzles of the shortest other row length that has any, and how many were tried.

    Rows may be shorter than now if nothing accesses their last columns: padding that does not help gives way to an XOR.
    """
    if not _by_rows(judge.plain):
        return [], 0
    step, most = _steps(judge)
    rows, used, now = judge.plain.shape[0], judge.used, pitch(judge.plain.layout)
    tried = 0
    for length in range(used if judge.limits.rows else now, now + most + 1, step):
        if length == now:  # its XORs are all tried without padding
            continue
        plain = replace(judge.plain, layout=Layout((rows, used), (length, 1)))
        of_length = Judge(plain, judge.accesses, judge.limits, judge.granule, judge.taken)
        differences = of_length.differences()
        clean = list[Candidate]()
        for swizzle in _all_swizzles(judge.granule.bit_length() - 1, differences.row_bits, _top(plain)):
            tried += 1
            if differences.separated_by(swizzle):
                clean += filter(None, [judge.consider_mapping(replace(plain, transform=swizzle))])
        if clean:
            return clean, tried
    return [], tried


# ---------------------------------------------------------------------------------------------- many requests


TRIED = 96  # requests per access to search on
VERIFIED = 24  # candidates to count on all requests
KEPT = 5  # clean ones that are enough
ROUNDS = 8  # of searching, each also on what the previous one got wrong


def suggest_by_trial(
    plain: Mapping, accesses: Sequence[Access], constraints: Constraints | None = None, taken: int = 0
) -> Suggestion:
    """Run `suggest` on a sample of each access's requests, and count every candidate on all of them.

    If none of the candidates holds on all requests, counterexamples join the sample, and the search starts over.
    Raises UsageError if an access is impossible or no rule gives its wavefronts.
    """
    limits = constraints or Constraints()
    most = min(TRIED, MOST_REQUESTS // max(1, 2 * len(accesses)))
    if most == 0:
        raise UsageError(
            f"{len(accesses):,} accesses to one tile are too many to search for", "profile a smaller kernel"
        )
    judge, unjudged = _judge(plain, accesses, limits, taken)
    first = judge.candidate(plain)
    chosen = [sample(access, plain, most) for access in accesses]
    for _ in range(ROUNDS):
        samples = [access.chosen(requests) for access, requests in zip(accesses, chosen, strict=True)]
        suggestion = suggest(plain, samples, limits, taken, judge.used)
        counted = [judge.recounted(found) for found in suggestion.clean[:VERIFIED]]
        clean = tuple(islice((candidate for candidate in counted if candidate.clean), KEPT))
        grown = [_with_worst(*pair, [c.mapping for c in counted]) for pair in zip(accesses, chosen, strict=True)]
        settled = bool(clean) or not counted or all(map(np.array_equal, chosen, grown))
        if settled or sum(map(len, grown)) > MOST_REQUESTS:
            break
        chosen = grown
    if clean and clean[0].mapping == plain and not first.clean:  # only the sample was clean
        clean = ()
    closest = clean[0] if clean else min((first, judge.recounted(suggestion.closest)), key=lambda c: c.avoidable)
    fixed = floors.reasons(judge.accesses, plain)
    found = replace(
        suggestion,
        plain=first,
        clean=clean,
        closest=closest,
        fixed=fixed,
        unjudged=unjudged,
        complete=suggestion.complete and bool(clean) == bool(suggestion.clean),
    )
    return _with_narrow_accesses(found, accesses, lambda parts: suggest_by_trial(plain, parts, constraints, taken))


def _with_worst(access: Access, chosen: Ints, mappings: Sequence[Mapping]) -> Ints:
    """Return a sample extended by each mapping's worst request."""
    worst = [chosen]
    for mapping in mappings:
        counted = access.wavefronts(mapping)
        excess = np.where(counted.known, counted.actual - floors.least(access, mapping, counted.ideal), 0)
        if excess.max(initial=0) > 0:
            worst.append(np.array([excess.argmax()]))
    return np.unique(np.concatenate(worst))


def sample(access: Access, plain: Mapping, most: int = TRIED) -> Ints:
    """Return the indices of a sample of requests: the worst half first, then an even spread of the rest."""
    excess = access.wavefronts(plain).actual
    order = np.argsort(-excess, kind="stable")
    if len(order) <= most:
        return np.sort(order)
    worst, rest = order[: most // 2], order[most // 2 :]
    # The step is rounded up, so that the spread has at most as many as are left.
    return np.concatenate([worst, rest[:: -(-len(rest) // (most - len(worst)))]])
