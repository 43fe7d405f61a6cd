"""The excessive wavefronts of both versions: of the arrays whose elements move, and line by line."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import Emulated, Executable
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Excess


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A shared array whose elements have new places: its bytes in each version, as the emulator addresses them.

    `least` are the excessive wavefronts of the launch that the mapping leaves, `reason` says why.
    """

    name: str
    before: range
    after: range
    least: int = 0
    reason: str = ""


# Which line of the old source a line of the new one was, and so which access is which.

NOWHERE: Location = ("", 0)  # of an instruction without a source line


@dataclass(frozen=True)
class Lines:
    """By file of the new sources: the old file, and its line for each line that is not new."""

    old: Mapping[str, tuple[str, Mapping[int, int]]]

    @classmethod
    def between(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Lines:
        """Pair the lines of sources, texts by path. A file that has moved is found by its name, if that is unique."""
        earlier = {file: _earlier(file, before) for file in after}
        return cls(
            {file: (earlier[file], dict(_paired(before.get(earlier[file], ""), text))) for file, text in after.items()}
        )

    @classmethod
    def same(cls, sources: Mapping[str, str]) -> Lines:
        """Return the lines of sources that have not changed."""
        return cls.between(sources, sources)

    def first(self, stack: Sequence[Location]) -> Location:
        """Return the innermost line of a stack that the old sources have, as a line there.

        Lines of libraries count only if there is no other, as they are the same in both.
        """
        own = (self._old(file, line) for file, line in stack if file in self.old)
        libraries = (at for at in stack if at[0] not in self.old)
        return next(filter(None, own), None) or next(libraries, NOWHERE)

    def _old(self, file: str, line: int) -> Location | None:
        old, lines = self.old[file]
        return (old, lines[line]) if line in lines else None


def _earlier(file: str, before: Mapping[str, str]) -> str:
    """Return the old path of a file; the new one if it is unknown."""
    named = [other for other in before if PurePath(other).name == PurePath(file).name]
    return named[0] if file not in before and len(named) == 1 else file


def _paired(before: str, after: str) -> Iterator[tuple[int, int]]:
    """Yield line numbers, of the new text and of the old one."""
    old, new = before.splitlines(), after.splitlines()
    for tag, first, end, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from ((start + k + 1, first + k + 1) for k in range(end - first))
        elif tag == "replace":  # what a patch adds stands before what uses it
            yield from ((stop - k, end - k) for k in range(min(end - first, stop - start)))


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


def stays(old: Excess, new: Excess, array: Moved) -> Claim | None:
    """Return a failed claim if a tile has more excess than its mapping promised, and no less than before."""
    left, before = new.moved[array.name], old.moved[array.name]
    if left is None or left <= array.least or (before is not None and left < before):
        return None
    reason = f"{array.name} still has {left:,} excessive wavefronts in the blocks that ran"
    return _claim(state=ClaimState.FAILED, reason=reason)


def excess_claim(before: Executable, after: Executable, moved: Sequence[Moved], old: Excess, new: Excess) -> Claim:
    """Judge whether the excess of the moved arrays is as low as possible, and no line has more than before."""
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
        f"{f' ({array.reason})' if new.moved[array.name] and array.reason else ''}"
        for array in moved
    )
    return _claim(state=ClaimState.HELD, reason=f"{names}; no access has more than before")


def _by_site(version: Executable, lines: Lines) -> dict[Site, int | None]:
    """Return the excess by line of the old source and kind of access; None if unknown."""
    sites: defaultdict[Site, list[int | None]] = defaultdict(list)
    for access in version.emulated.profile.shared():
        sites[lines.first(tuple(access.stack)), access.access].append(access.excessive)
    return {site: _total(counts) for site, counts in sites.items()}
