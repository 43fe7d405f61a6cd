"""The mappings to try on a tile, the cheapest first, each counted on the recorded requests."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.fix.accessors import Both, Shorter
from ncu_swizzle.fix.claims import excess_of
from ncu_swizzle.fix.frames import Root, SourceTile
from ncu_swizzle.reports.counts import known_sum
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.code import unit
from ncu_swizzle.smem.judge import Candidate, Constraints, Judge
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping as TileMapping
from ncu_swizzle.smem.operations import LDMATRIX, LINE, STMATRIX, Ints
from ncu_swizzle.smem.requests import AccessRequests
from ncu_swizzle.smem.suggestions import LARGEST_PADDING, Suggestion, in_narrower_accesses, row_xors, simplest_xor
from ncu_swizzle.smem.swizzle import Padding, RowXor, Swapped, Swizzle, XorMatrix

# The tiles of a source with the requests that the emulator saw of them.


@dataclass(frozen=True, eq=False, kw_only=True)
class RootSeen:
    """A root's bytes in shared memory, and the array of the binary that they are in."""

    root: Root
    array: SharedArray
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, eq=False, kw_only=True)
class TileSeen:
    """A tile, where its roots are, the requests that lie in each, by instruction, and their excess."""

    tile: SourceTile
    roots: tuple[RootSeen, ...]
    requests: tuple[tuple[RootSeen, AccessRequests], ...]
    excess: int  # in the blocks that ran
    launch_excess: int | None  # in all blocks; None if unknown

    @property
    def total(self) -> int:
        """The excess of the launch, or of the blocks that ran if that is all that is known."""
        return self.excess if self.launch_excess is None else self.launch_excess

    def in_launch(self, excess: int) -> int:
        """Scale an excess in the blocks that ran to the whole launch."""
        # In proportion to the excess that the emulator counted; rounded up, as an excess must not become 0.
        return -(-excess * self.total // self.excess) if self.excess else excess

    @property
    def name(self) -> str:
        return ", ".join(dict.fromkeys(root.root.declared.text for root in self.roots))

    @property
    def widest(self) -> int:
        return max(operations.find(requests.op).width_bytes for _, requests in self.requests)

    @property
    def narrowest(self) -> int:
        return min(operations.find(requests.op).width_bytes for _, requests in self.requests)


def tiles_seen(tiles: Sequence[SourceTile], placed: Mapping[int, SharedArray], emulated: Emulated) -> list[TileSeen]:
    """Return the tiles that are accessed, the worst first; `placed` are the arrays by their declared identifier."""
    starts = sorted(
        placed[root.array.declared.id].start + root.offset
        for tile in tiles for root in tile.roots if root.array.declared.id in placed
    )  # fmt: skip
    seen = [seen for tile in tiles if (seen := _seen(tile, placed, starts, emulated))]
    return sorted(seen, key=lambda tile: -tile.excess)


def _seen(
    tile: SourceTile, placed: Mapping[int, SharedArray], starts: Sequence[int], emulated: Emulated
) -> TileSeen | None:
    roots: list[RootSeen] = []
    for root in tile.roots:
        if (array := placed.get(root.array.declared.id)) is not None:
            start, end = array.start + root.offset, array.start + array.size
            later = min((at for at in starts if start < at < end), default=end)
            end = start + root.size if root.size else later
            roots.append(RootSeen(root=root, array=array, start=start, end=end))
    counts = emulated.counts
    requests = [
        (root, inside)
        # Of accesses whose lanes data choose, all that any of them may request: that holds for other data, too.
        for _, every in sorted({**counts.requests, **counts.supposed}.items())
        for root in roots
        if (inside := within(every, root.start, root.end)) is not None
    ]
    if not requests:
        return None
    spans = {str(root.start): range(root.start, root.end) for root in roots}
    return TileSeen(
        tile=tile,
        roots=tuple(roots),
        requests=tuple(requests),
        excess=sum(excess_at(inside, inside.addresses) for _, inside in requests),
        launch_excess=known_sum(excess_of(emulated, spans).moved.values()),
    )


def excess_at(requests: AccessRequests, addresses: Ints) -> int:
    """Return the excessive wavefronts of requests at some addresses, [request, lane]; 0 for unknown ones."""
    matrix = operations.find(requests.op).kind in (LDMATRIX, STMATRIX)
    counted = wavefronts(requests.op, addresses, None if matrix else requests.active, requests.source)
    return int((np.where(counted.known, counted.actual - counted.ideal, 0) * requests.times).sum())


def within(requests: AccessRequests, start: int, end: int) -> AccessRequests | None:
    """Return the requests that lie within these bytes; None if none does."""
    operation = operations.find(requests.op)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    inside = (requests.addresses >= start) & (requests.addresses + operation.width_bytes <= end)
    used = requests.used[:, : operation.addressed]
    whole = used.all(axis=1) if matrix else used.any(axis=1)
    rows = np.flatnonzero((inside | ~requests.used).all(axis=1) & whole)
    return requests.chosen(rows) if len(rows) else None


MOST = 16  # mappings of one shape


class MappingKind(StrEnum):
    """The mappings that are wanted."""

    PADDING = "padding"
    SWIZZLE = "swizzle"


@dataclass(frozen=True)
class FixOptions:
    """What kind of mapping is wanted, how much shared memory a block may take with it, and whether it may cost time.

    `slower`: a patch is offered although fewer blocks fit on an SM, or it is predicted to be slower.
    """

    only: MappingKind | None = None
    max_shared: int | None = None
    slower: bool = False


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Rows of `columns` elements, `rows` to a tile (0 if that is not declared)."""

    columns: int
    rows: int
    element_bytes: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranked:
    """A mapping with its cost, and what it leaves of the excess, over all requests."""

    transform: RowXor | XorMatrix | Padding | Swapped | Both
    shape: Shape
    candidate: Candidate
    narrower: bool = False  # the compiler has to access element by element what it now accesses as vectors
    named: bool = False  # `lint` and `explain` name it, too

    def __str__(self) -> str:
        if isinstance(self.transform, RowXor | XorMatrix):
            return f"{self.transform} on {unit(self.shape.element_bytes)}"
        if isinstance(self.transform, Swapped):
            return str(self.transform)
        both = self.transform if isinstance(self.transform, Both) else None
        rows, xor = (both.rows, f", with {both.xor}") if both else (self.transform, "")
        assert isinstance(rows, Padding)
        return f"rows of {rows.every + rows.by} instead of {rows.every} {unit(self.shape.element_bytes)}{xor}"

    @property
    def cost(self) -> tuple[int, ...]:
        """The order of candidates: excess, vectors, blocks per SM, bytes, instructions, what others name."""
        counted, xor = self.candidate, self.transform
        simplest = simplest_xor(xor.drop, xor.base, xor.bits) if isinstance(xor, RowXor) else ()
        taken = (-counted.blocks, counted.extra_bytes, counted.operations)
        return (counted.avoidable, counted.excessive, self.narrower, *taken, not self.named, *simplest)


def ranked(
    seen: TileSeen,
    shapes: Collection[Shape],
    limits: Constraints,
    spelled: int,
    only: MappingKind | None = None,
    advice: Suggestion | None = None,
    first: bool = False,
) -> tuple[list[Ranked], Candidate | None]:
    """Return the mappings that leave less excess than there is, the best first, and the tile as it is.

    `spelled` is how many bytes the source accesses at most at once; wider accesses are the compiler's. `advice` is what
    `lint` and `explain` found: of equally good mappings the one that they name is the first, with `first` of all.
    """
    mappings: list[Ranked] = []
    plain: Candidate | None = None
    for shape in shapes:
        widths = (0, spelled) if spelled < seen.widest else (0,)
        judges = [judge for part in widths if (judge := _judge(seen, shape, limits, part)) is not None]
        if not judges:
            continue
        plain = judges[0].candidate(judges[0].plain)
        mappings += _searched(seen, shape, judges, only)
        if only is not MappingKind.SWIZZLE:
            clean = any(mapping.candidate.clean for mapping in mappings)
            mappings += _other_rows(judges[0], shape, xors=only is None and not clean)
    if plain is None:
        return [], None
    named = named_by(advice)
    counted = [mapping.candidate for mapping in mappings if not mapping.narrower]
    free = any(candidate.clean and not candidate.extra_bytes for candidate in counted)
    if named is not None and only is not MappingKind.PADDING and not free:
        mappings += _as_named(seen, limits, named, advice.narrow if advice and not advice.best else 0)
    excessive = plain.excessive
    better = [mapping for mapping in mappings if mapping.candidate.excessive < excessive]
    if named is not None:
        size = max(root.size for root in seen.roots)
        better = [replace(mapping, named=is_same(mapping.candidate, named, size)) for mapping in better]
    return sorted(better, key=lambda mapping: (not (first and mapping.named), mapping.cost)), plain


def named_by(advice: Suggestion | None) -> Candidate | None:
    """Return the mapping that `lint` and `explain` name."""
    return advice.best or advice.apart if advice else None


def is_same(one: Candidate, other: Candidate, size: int) -> bool:
    """Return whether two mappings put each byte that both place, of the first `size`, at the same place."""
    first, second = one.places(size), other.places(size)
    return bool(((first == second) | (first < 0) | (second < 0)).all())


def _searched(seen: TileSeen, shape: Shape, judges: Sequence[Judge], only: MappingKind | None) -> list[Ranked]:
    """Return the best mappings of one shape; the second judge takes the compiler's vectors apart."""
    best: list[Ranked] = []
    for judge in judges:
        for transform in _transforms(seen, shape, judge.granule, only):
            # What leaves more than as many others as are wanted is not counted to the end.
            bound = best[-1].candidate.avoidable if len(best) == MOST else math.inf
            candidate = judge.bounded(replace(judge.plain, transform=transform), bound)
            if candidate is not None and judge.allowed(candidate):
                apart = judge is not judges[0]
                ranked = Ranked(transform=transform, shape=shape, candidate=candidate, narrower=apart)
                best = sorted([*best, ranked], key=lambda ranked: ranked.cost)[:MOST]
    return best


def _transforms(
    seen: TileSeen, shape: Shape, granule: int, only: MappingKind | None
) -> Iterator[RowXor | Padding | Swapped]:
    """Yield the XORs of rows into columns, of tiles as high as declared; longer rows; the swap of both indices."""
    if only is not MappingKind.PADDING:
        size = max(root.size for root in seen.roots)
        rows = shape.rows or size // (shape.columns * shape.element_bytes)
        yield from row_xors(shape.columns, rows, granule, shape.element_bytes, shape.rows)
    if only is not MappingKind.SWIZZLE:
        yield from _longer(shape, granule)
    if only is None and shape.rows > 1 and granule == 1:
        yield Swapped(columns=shape.columns, rows=shape.rows)


def _longer(shape: Shape, granule: int) -> Iterator[Padding]:
    most = LARGEST_PADDING // shape.element_bytes
    return (Padding(shape.columns, by) for by in range(granule, most + 1, granule))


def _other_rows(judge: Judge, shape: Shape, *, xors: bool) -> Iterator[Ranked]:
    """Yield mappings to shorter rows: padding that the source has is taken out, if nothing accesses it.

    With `xors`, also the clean XORs of the first other length that has some, shorter lengths first.
    """
    columns, rows = shape.columns, judge.plain.shape[0]
    plain = replace(judge.plain, layout=Layout((rows, judge.used), (columns, 1)))
    of_used = Judge(plain, judge.accesses, judge.limits, judge.granule)

    def found(transform: Padding | Both) -> Ranked | None:
        candidate = of_used.candidate(replace(plain, transform=transform))
        if not of_used.allowed(candidate):
            return None
        by = (transform.rows if isinstance(transform, Both) else transform).by
        counted = replace(candidate, extra_bytes=rows * by * shape.element_bytes)
        return Ranked(transform=transform, shape=shape, candidate=counted)

    lengths = (length for length in range(judge.used, columns) if length % judge.granule == 0 and judge.used > 1)
    shorter = [Shorter(columns, length - columns) for length in lengths]
    yield from filter(None, map(found, shorter))
    for length in (*shorter, *_longer(shape, judge.granule)) if xors else ():
        of_length = row_xors(columns + length.by, rows, judge.granule, shape.element_bytes, shape.rows)
        both = (Both(length, xor) for xor in of_length if of_used.consider(Both(length, xor)))
        if clean := [*filter(None, map(found, both))]:
            yield from clean
            return


def _as_named(seen: TileSeen, limits: Constraints, named: Candidate, narrow: int) -> Iterator[Ranked]:
    """Yield the XOR of bits that `lint` and `explain` name for a tile, which needs no row length."""
    element, xor = named.mapping.element_bytes, named.mapping.transform
    shape = Shape(columns=LINE // element, rows=0, element_bytes=element)
    judge = _judge(seen, shape, limits, narrow)
    if isinstance(xor, Swizzle) and xor.combine == "xor" and xor.shift > 0:
        xor = XorMatrix(((xor.shift, xor.target),))
    if judge is not None and isinstance(xor, XorMatrix):
        counted = judge.candidate(replace(judge.plain, transform=xor))
        yield Ranked(transform=xor, shape=shape, candidate=counted, narrower=narrow > 0)


def _judge(seen: TileSeen, shape: Shape, limits: Constraints, spelled: int) -> Judge | None:
    """Return a judge of all requests; None if they do not fit the shape.

    With `spelled`, wider accesses are taken apart into ones of so many bytes.
    """
    row = shape.columns * shape.element_bytes
    size = max(root.size for root in seen.roots)
    if row < 2 * shape.element_bytes or size < 2 * row:
        return None
    layout = Layout((-(-size // row), shape.columns), (shape.columns, 1))
    plain = TileMapping(layout, element_bytes=shape.element_bytes, origin=seen.roots[0].start % LINE)
    try:
        accesses = tuple(_access(requests, root, shape) for root, requests in seen.requests)
        if spelled:
            split = (in_narrower_accesses(access, spelled, shape.element_bytes) for access in accesses)
            accesses = tuple(part for parts in split for part in parts)
        return Judge(plain, accesses, limits, max(access.granule(shape.element_bytes) for access in accesses))
    except UsageError:
        return None


def _access(requests: AccessRequests, root: RootSeen, shape: Shape) -> Access:
    """Return requests, (N, 32) addresses, as accesses to rows and columns of a shape, (N, 32) each."""
    addresses = np.where(requests.active, requests.addresses - root.start, 0)
    rows, columns = np.divmod(addresses // shape.element_bytes, shape.columns)
    full = bool(requests.active.all()) or operations.find(requests.op).kind in (LDMATRIX, STMATRIX)
    return Access(
        requests.op,
        requests.op,
        rows=rows,
        columns=columns,
        active=None if full else requests.active,
        source=requests.source,
        times=requests.times,
    )
