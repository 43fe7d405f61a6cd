"""The excessive wavefronts of both versions: of the arrays that moved, and line by line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.engines.executable import Executable
from ncu_swizzle.proof.claims import About, Claim, Excess, State
from ncu_swizzle.proof.lines import Lines
from ncu_swizzle.proof.moved import Moved
from ncu_swizzle.smem import operations

Site = tuple[Location, str]  # a line and the kind of access


def excess(version: Executable, spans: Mapping[str, range]) -> Excess:
    """Return the excess of a launch: in all, and that of the instructions that access some bytes."""
    return of_launch(version.emulated, spans)


def of_launch(emulated: Emulated, spans: Mapping[str, range]) -> Excess:
    """Return the same of an emulated launch."""
    profile, requests = emulated.profile, emulated.counts.requests
    touching: dict[str, list[int | None]] = {name: [] for name in spans}
    every: list[int | None] = []
    actual: list[int | None] = []
    for access in profile.shared():
        every.append(access.excessive)
        actual.append(access.wavefronts)
        made = requests.get(access.pc)
        for name, span in spans.items():
            if made is None:
                within = access.excessive is None
            else:
                used = made.active & (np.arange(operations.WARP) < operations.find(made.op).addressed)
                within = bool((used & (made.addresses >= span.start) & (made.addresses < span.stop)).any())
            if within:
                touching[name].append(access.excessive)
    return Excess({name: _total(counts) for name, counts in touching.items()}, _total(every), _total(actual))


def grown(old: Excess, new: Excess) -> Claim | None:
    """Return a failed claim if all accesses together take more wavefronts than before.

    An index that is no longer a constant keeps the compiler from holding elements in registers.
    """
    if old.wavefronts is None or new.wavefronts is None or new.wavefronts <= old.wavefronts:
        return None
    more = new.wavefronts - old.wavefronts
    reason = f"all accesses together take {new.wavefronts:,} wavefronts, {more:,} more than before"
    return Claim(About.EXCESS, State.FAILED, reason)


def stays(new: Excess, made: Moved) -> Claim | None:
    """Return a failed claim if a tile has more excess than its mapping promised."""
    left = new.moved[made.name]
    if left is None or left <= made.least:
        return None
    return Claim(
        About.EXCESS, State.FAILED, f"{made.name} still has {left:,} excessive wavefronts in the blocks that ran"
    )


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)


def by_site(version: Executable, lines: Lines) -> dict[Site, int | None]:
    """Return the excess by line of the old source and kind of access; None if unknown."""
    sites: defaultdict[Site, list[int | None]] = defaultdict(list)
    for access in version.emulated.profile.shared():
        sites[lines.first(tuple(access.stack)), access.access].append(access.excessive)
    return {site: _total(counts) for site, counts in sites.items()}


def claim(before: Executable, after: Executable, moved: Sequence[Moved], old: Excess, new: Excess) -> Claim:
    """Judge whether the excess of what moved is as low as it can be, and no line has more than before."""
    if more := grown(old, new):
        return more
    for array in moved:
        left = new.moved[array.name]
        if left is None:
            return Claim(About.EXCESS, State.UNKNOWN, f"the wavefronts of some accesses to {array.name} are unknown")
        if left > array.least:
            reason = f"{array.name} still has {left:,} excessive wavefronts"
            return Claim(About.EXCESS, State.FAILED, reason, _worst(before, after))
    texts = before.emulated.profile.sources
    first = by_site(before, Lines.same(texts))
    second = by_site(after, Lines.between(texts, after.emulated.profile.sources))
    for (line, kind), count in sorted(second.items()):
        earlier = first.get((line, kind), 0)
        at = line if line[0] else None
        if count is None or earlier is None:
            return Claim(About.EXCESS, State.UNKNOWN, f"the wavefronts of {kind} are unknown", at)
        if count > earlier:
            reason = f"{kind} has {count:,} excessive wavefronts here, {count - earlier:,} more than before"
            return Claim(About.EXCESS, State.FAILED, reason, at)
    return Claim(About.EXCESS, State.HELD, _held(moved, old, new))


def _held(moved: Sequence[Moved], old: Excess, new: Excess) -> str:
    names = ", ".join(
        f"{array.name} from {old.moved[array.name] or 0:,} to {new.moved[array.name]:,} excessive wavefronts"
        f"{f' ({array.reason})' if array.least and array.reason else ''}"
        for array in moved
    )
    return f"{names}; no access has more than before"


def _worst(before: Executable, after: Executable) -> Location | None:
    """Return the line with the most excess that is left."""
    lines = Lines.between(before.emulated.profile.sources, after.emulated.profile.sources)
    sites = {site: count for site, count in by_site(after, lines).items() if count}
    line = max(sites, key=lambda site: sites[site] or 0)[0] if sites else None
    return line if line and line[0] else None
