"""The excessive wavefronts of both versions: of the arrays that moved, and line by line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.engines.emulation import Emulated, Executable
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Excess
from ncu_swizzle.fix.rows import Lines
from ncu_swizzle.smem.operations import Bools, Ints

# Where the elements of a shared array lie before and after a fix.

NOWHERE = -1  # the place of what is never accessed


@dataclass(frozen=True, eq=False, kw_only=True)
class Moved:
    """One shared array whose elements have new places.

    Addresses are those of the emulator: offsets into the block's shared memory, of which the driver has the first
    1,024 bytes on sm_90. An array that has moved as a whole needs no entry: the proof finds by how much.
    """

    name: str
    before: range  # its bytes in the old kernel
    after: range  # and in the new one
    element_bytes: int  # the granule that moves as one
    places: Ints  # by granule of the old array: its byte offset from after.start, or NOWHERE; no two overlap
    least: int = 0  # excessive wavefronts that no mapping avoids
    reason: str = ""  # why not, if `least` is not 0

    def __post_init__(self) -> None:
        """Raise ValueError if two elements would share a byte, or one would lie outside."""
        granules, size = len(self.before) // self.element_bytes, self.element_bytes
        if self.places.shape != (granules,) or granules * size != len(self.before):
            raise ValueError(f"{self.name}: {granules} elements of {size} bytes, but {self.places.shape} places")
        ordered = np.sort(self.places[self.places != NOWHERE])
        inside = len(ordered) == 0 or (ordered[0] >= 0 and ordered[-1] + size <= len(self.after))
        if not inside or (np.diff(ordered) < size).any():
            raise ValueError(f"{self.name}: two elements share a place, or one lies outside of the array")


# Which byte of the old kernel's shared memory a byte of the new one's stands for.
#
# What moved is given. Arrays that moved as a whole are known if both cubins say where they lie, and so are the parts of
# dynamic shared memory between what moved. The places of other bytes are guessed from what the same lines access. A
# wrong guess does no harm: any one-to-one relation will do, since the traces are compared through it.

UNRESOLVED, GAP = -1, -2  # nothing is known of the byte; it belongs to no element
SPACE = 1 << 18  # bytes of shared memory, more than any block has


class MovedPlaces:
    """The places of the old kernel's bytes in the new one. Addresses are arrays of any length, [byte]."""

    def __init__(
        self, moved: Sequence[Moved], before: Sequence[SharedArray] = (), after: Sequence[SharedArray] = ()
    ) -> None:
        """`before` and `after` are the arrays of both versions, if they are known.

        Raises ValueError if two arrays share bytes before or after.
        """
        self._old = np.full(SPACE, UNRESOLVED, np.int64)  # by byte of the new kernel
        self._taken = np.zeros(SPACE, bool)  # bytes of the old kernel that have a place
        self._moved = tuple(moved)
        self._arrays = tuple(before)
        for one in moved:
            self._move(one)
        named = {array.symbol: array for array in after}
        for array in before:
            other = named.get(array.symbol)
            if other is not None and array.dynamic:
                self._between(array.span, other.span)
            elif other is not None and array.size == other.size:
                self._shift(array.span, other.span)

    def _move(self, array: Moved) -> None:
        new = self._old[array.after.start : array.after.stop]
        if (new != UNRESOLVED).any() or self._taken[array.before.start : array.before.stop].any():
            raise ValueError(f"{array.name} shares bytes with another array that has moved")
        new[:] = GAP
        each = np.arange(array.element_bytes)
        # (granules, 1) plus (element_bytes,): every byte of every element that is accessed.
        granules = np.flatnonzero(array.places != NOWHERE)[:, None]
        old = array.before.start + granules * array.element_bytes + each
        self._old[array.after.start + array.places[granules] + each] = old
        self._taken[array.before.start : array.before.stop] = True

    def _between(self, old: range, new: range) -> None:
        """Let the parts of an array between those that moved follow each other as they did."""
        parts = _without(old, [array.before for array in self._moved])
        others = _without(new, [array.after for array in self._moved])
        if len(parts) == len(others) and all(map(_alike, parts[:-1], others[:-1])):
            for part, other in zip(parts, others, strict=True):
                size = min(len(part), len(other))  # what follows the last array is nobody's
                self._shift(part[:size], other[:size])

    def _shift(self, old: range, new: range) -> None:
        overlaps = self._taken[old.start : old.stop].any() or (self._old[new.start : new.stop] != UNRESOLVED).any()
        if not overlaps:
            self._old[new.start : new.stop] = np.arange(old.start, old.stop)
            self._taken[old.start : old.stop] = True

    def old(self, address: Ints) -> Ints:
        """Return where bytes of the new kernel lay; UNRESOLVED or GAP for those of which that is not known."""
        places: Ints = self._old[address]
        return places

    def learn(self, new: Ints, old: Ints, unit: int) -> None:
        """Learn the places of units of some bytes that a line accesses: if they are as many, in the order of address.

        Those whose place is known already teach nothing.
        """
        # A shift or a longer row keeps the order of addresses, so the k-th unplaced unit of a line is taken for the
        # k-th.
        fresh = np.unique(new[self._old[new] == UNRESOLVED])
        origin = np.unique(old[~self._taken[old]])
        if len(fresh) == len(origin):
            for byte in range(unit):
                self._old[fresh + byte] = origin + byte
                self._taken[origin + byte] = True

    def whole(self, address: Ints, unit: int) -> Bools:
        """Return which units of the new kernel lie in one piece in the old one."""
        first = self._old[address]
        whole: Bools = np.ones(len(address), bool)
        for byte in range(1, unit):
            # Bytes without a place (< 0) pass: they are reported as such, with their own reason.
            whole &= (self._old[address + byte] == first + byte) | (first < 0)
        return whole

    def element(self, address: int) -> str:
        """Return the element at an address of the old kernel in words, such as tile[33]."""
        for one in self._moved:
            if address in one.before:
                return f"{one.name}[{(address - one.before.start) // one.element_bytes}]"
        for array in self._arrays:
            if address in array.span and not array.dynamic:
                return f"byte {address - array.start} of {array.name}"
        return f"byte {address:#x} of shared memory"


def _without(whole: range, parts: Sequence[range]) -> list[range]:
    """Return what is left of a range, in order, with empty pieces between neighbours."""
    left, start = [], whole.start
    for part in sorted((part for part in parts if part.start in whole), key=lambda part: part.start):
        left.append(range(start, part.start))
        start = part.stop
    return [*left, range(start, whole.stop)]


def _alike(part: range, other: range) -> bool:
    return len(part) == len(other)


Site = tuple[Location, str]  # a line and the kind of access
_claim = partial(Claim, about=About.EXCESS)


def excess_of(emulated: Emulated, spans: Mapping[str, range]) -> Excess:
    """Return the excess of a launch: in all, and that of the instructions that access some bytes, by name."""
    touching: dict[str, list[int | None]] = {name: [] for name in spans}
    accesses = list(emulated.profile.shared())
    for access in accesses:
        requests = emulated.counts.requests.get(access.pc)
        for name, span in spans.items():
            if requests is None:  # what it accesses is not known
                # It may be to any of the arrays: if its excess is unknown too, so is that of each.
                within = access.excessive is None
            else:
                inside = (requests.addresses >= span.start) & (requests.addresses < span.stop)
                within = bool((requests.used & inside).any())
            if within:
                touching[name].append(access.excessive)
    return Excess(
        {name: _total(counts) for name, counts in touching.items()},
        _total([access.excessive for access in accesses]),
        _total([access.wavefronts for access in accesses]),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)


def grown(old: Excess, new: Excess) -> Claim | None:
    """Return a failed claim if all accesses together take more wavefronts than before.

    An index that is no longer a constant keeps the compiler from holding elements in registers.
    """
    if old.wavefronts is None or new.wavefronts is None or new.wavefronts <= old.wavefronts:
        return None
    more = new.wavefronts - old.wavefronts
    reason = f"all accesses together take {new.wavefronts:,} wavefronts, {more:,} more than before"
    return _claim(state=ClaimState.FAILED, reason=reason)


def stays(new: Excess, array: Moved) -> Claim | None:
    """Return a failed claim if a tile has more excess than its mapping promised."""
    left = new.moved[array.name]
    if left is None or left <= array.least:
        return None
    reason = f"{array.name} still has {left:,} excessive wavefronts in the blocks that ran"
    return _claim(state=ClaimState.FAILED, reason=reason)


def excess_claim(before: Executable, after: Executable, moved: Sequence[Moved], old: Excess, new: Excess) -> Claim:
    """Judge whether the excess of what moved is as low as it can be, and no line has more than before."""
    if more := grown(old, new):
        return more
    texts = before.emulated.profile.sources
    first = _by_site(before, Lines.same(texts))
    second = _by_site(after, Lines.between(texts, after.emulated.profile.sources))
    for array in moved:
        left = new.moved[array.name]
        if left is None:
            reason = f"the wavefronts of some accesses to {array.name} are unknown"
            return _claim(state=ClaimState.UNKNOWN, reason=reason)
        if left > array.least:
            worst = max(second, key=lambda site: second[site] or 0, default=None)
            reason = f"{array.name} still has {left:,} excessive wavefronts"
            at = worst[0] if worst and second[worst] and worst[0][0] else None
            return _claim(state=ClaimState.FAILED, reason=reason, line=at)
    for (line, kind), count in sorted(second.items()):
        # A line that accessed nothing before must not have any excess now: the patch must not move a conflict
        # elsewhere.
        earlier = first.get((line, kind), 0)
        at = line if line[0] else None
        if count is None or earlier is None:
            return _claim(state=ClaimState.UNKNOWN, reason=f"the wavefronts of {kind} are unknown", line=at)
        if count > earlier:
            reason = f"{kind} has {count:,} excessive wavefronts here, {count - earlier:,} more than before"
            return _claim(state=ClaimState.FAILED, reason=reason, line=at)
    names = ", ".join(
        f"{array.name} from {old.moved[array.name] or 0:,} to {new.moved[array.name]:,} excessive wavefronts"
        f"{f' ({array.reason})' if array.least and array.reason else ''}"
        for array in moved
    )
    return _claim(state=ClaimState.HELD, reason=f"{names}; no access has more than before")


def _by_site(version: Executable, lines: Lines) -> dict[Site, int | None]:
    """Return the excess by line of the old source and kind of access; None if unknown."""
    sites: defaultdict[Site, list[int | None]] = defaultdict(list)
    for access in version.emulated.profile.shared():
        sites[lines.first(tuple(access.stack)), access.access].append(access.excessive)
    return {site: _total(counts) for site, counts in sites.items()}
