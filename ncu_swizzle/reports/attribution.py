"""The source line to blame for an access, and the tiles of an emulated profile, whose requests are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

from ncu_swizzle.cubin.lines import Location, is_library
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.reports.counts import Instruction, SavedRequests
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import floors, operations
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.smem.observed import Advice, ObservedTile, advise, observed_tiles, search_next, search_together
from ncu_swizzle.smem.operations import ATOMIC, COPY

# Which of the lines that an instruction was inlined through are the user's own.

Stack = tuple[Location, ...]
Here = Callable[[str], bool]  # whether a file is in the user's checkout


def nowhere(_: str) -> bool:
    """Return False: no file is known to be in the checkout."""
    return False


class FrameOwners:
    """Tells the user's own frames of a profile's call stacks from those of libraries.

    A file in the checkout beats one below the profile's source folders or with a text in the profile, that beats one
    elsewhere, and anything beats a library's. If all frames are alike, all count as own: it is the user's.
    """

    def __init__(self, profile: Profile, here: Here = nowhere) -> None:
        self._sources = profile.sources
        self._here = here
        self._ranks: dict[str, int] = {}

    def own(self, stack: Stack) -> Stack:
        """Return the stack without foreign frames, innermost first; empty only if the stack is."""
        best = max((self._rank(file) for file, _ in stack), default=0)
        return tuple(frame for frame in stack if self._rank(frame[0]) == best)

    def named(self, instruction: Instruction) -> Location | None:
        """Return the line that ncu shows for an instruction.

        If it is in a library outside the profile's source folders, return the nearest own line.
        """
        named = instruction.named
        if named is None or _relative(named[0]) or not is_library(named[0]):
            return named
        callers = instruction.stack[instruction.stack.index(named) :]
        return self.own(callers)[0]

    def _rank(self, file: str) -> int:
        if (rank := self._ranks.get(file)) is None:
            relative = _relative(file)
            if is_library(file) and not (relative and file in self._sources):
                rank = 0
            elif self._here(file):
                rank = 3
            else:
                rank = 2 if relative or file in self._sources else 1
            self._ranks[file] = rank
        return rank


class Calls:
    """Tells the line of a kernel that does something from the helpers that it calls.

    PTX is mostly wrapped, in a header or above the kernel: a wait belongs to the line that calls `mbarrier_wait`,
    not to the asm statement that all waits share.
    """

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self._called: dict[Location, set[Location]] = {}  # by line: what is inlined directly there
        for stack in stacks:
            for inner, outer in pairwise(stack):
                self._called.setdefault(outer, set()).add(inner)

    def blamed_line(self, stack: Stack) -> Stack:
        """Return the line to name, and what is inlined there, innermost last; empty only if the stack is.

        The line is the innermost one in the file of the kernel that does more than call one other line.
        """
        if not stack:
            return ()
        at = next(number for number, (file, _) in enumerate(stack) if file == stack[-1][0])
        while at + 1 < len(stack) and self._called[stack[at + 1]] == {stack[at]}:
            at += 1
        return stack[at::-1]


def _relative(file: str) -> bool:
    """Return whether a path is below one of the folders that the profile's sources come from."""
    return not (PurePosixPath(file).is_absolute() or PureWindowsPath(file).is_absolute())


# Blame each shared-memory access on one of the user's own source lines.
#
# The innermost line is often an asm statement in a helper, the outermost the call of the kernel's whole body: the line
# to blame is the outermost own one whose instructions are mostly shared-memory accesses. Own lines are those in the
# user's folders, see `FrameOwners`: users cannot change the CUDA headers that `load_matrix_sync` or `atomicAdd` is
# inlined from.


class Site(NamedTuple):
    """An access, the line to blame, and the foreign lines that were inlined there, innermost first."""

    access: Instruction
    line: Location
    through: tuple[Location, ...]

    @property
    def name(self) -> str:
        """The line to blame as ``my.cu:23``."""
        file, line = self.line
        return f"{file.rpartition('/')[2]}:{line}"


def sites(profile: Profile, here: Here = nowhere) -> Iterator[Site]:
    """Yield each access that has a source line, with the line to blame; `here` tells files in the checkout."""
    totals, accesses = _executed(profile.instructions), _executed(profile.shared())
    ownership = FrameOwners(profile, here)
    for access in profile.shared():
        if access.stack:
            users = ownership.own(access.stack)
            line, *callers = users
            for caller in callers:
                if 2 * accesses[caller] <= totals[caller]:  # most of what the caller runs is something else
                    break
                line = caller
            inner = access.stack[: access.stack.index(line)]
            yield Site(access, line, tuple(frame for frame in inner if frame not in users))


def _executed(instructions: Iterable[Instruction]) -> Counter[Location]:
    """Return the warp instructions executed per line, inlined ones included; unknown counts are 0."""
    totals: Counter[Location] = Counter()
    for instruction in instructions:
        for location in dict.fromkeys(instruction.stack):
            totals[location] += instruction.executed or 0
    return totals


# TMA and wgmma use the hardware's own swizzle modes, for tiles whose requests the emulator does not see.
HARDWARE = frozenset({"UTMALDG", "UTMASTG", "UTMAREDG", "HGMMA", "QGMMA", "IGMMA", "BGMMA"})
KEPT = 64  # profiles, whose tiles are shown several times in one run

Labels = tuple[tuple[int, str], ...]
Offsets = frozenset[int]


def tiles(profile: Profile) -> tuple[ObservedTile, ...]:
    """Return the tiles, with accesses named by the source line to blame, such as ``tile.cu:12``; empty if unknown.

    Raises DamagedFile if the saved requests are damaged.
    """
    return _tiles(profile.requests, profile.supposed, _labels(profile), _leading(profile), profile.arrays)


def advice(profile: Profile) -> tuple[Advice, ...]:
    """Return a mapping for each tile with conflicts, tried on its requests; none where a compiler chose the layout."""
    if any(not note.explicit for note in profile.layouts):
        return ()
    return _advice(tiles(profile), constraints(profile), len(untried(profile)))


def search_mappings(profiles: Iterable[Profile], jobs: int) -> None:
    """Search for the mappings of profiles' tiles together, on several cores, before they are shown one by one."""
    search_together(list(_wanted(profiles)), jobs)


def search_mapping(profiles: Iterable[Profile]) -> bool:
    """Search for the mapping of one of profiles' tiles; return whether there was one left to search for."""
    return search_next(_wanted(profiles))


def _wanted(profiles: Iterable[Profile]) -> Iterator[tuple[ObservedTile, Constraints]]:
    return ((tile, constraints(profile)) for profile in profiles for tile in tiles(profile) if tile.excessive)


def most_ways(profile: Profile) -> Mapping[int, int]:
    """Return the most ways that accesses with unknown counts can conflict, whichever lanes make them, by offset.

    Only accesses whose possible requests are all known; 1: no conflicts.
    """
    return _most_ways(profile.supposed)


@lru_cache(KEPT)
def _most_ways(saved: tuple[SavedRequests, ...]) -> Mapping[int, int]:
    ways_by_offset = {}
    for requests_of in (requests_of for requests_of in saved if requests_of.complete):
        requests = requests_of.unpacked()
        ways = floors.most_ways(requests.op, requests.addresses, requests.active, requests.source)
        if ways is not None:
            ways_by_offset[requests_of.pc] = ways
    return ways_by_offset


def unavoidable(profile: Profile) -> Mapping[int, bool]:
    """Return the accesses, by offset, whose wavefronts no layout of their tiles reduces.

    The value is whether they are loads or stores by few lanes: those have no conflicts.
    """
    return _unavoidable(profile.requests)


@lru_cache(KEPT)
def _unavoidable(saved: tuple[SavedRequests, ...]) -> Mapping[int, bool]:
    unpacked = ((requests.pc, requests.unpacked()) for requests in saved if requests.complete)
    return {
        pc: operations.find(made.op).kind not in (ATOMIC, COPY)
        for pc, made in unpacked
        if floors.is_unavoidable(made.op, made.addresses, made.active, made.source)
    }


def untried(profile: Profile) -> tuple[str, ...]:
    """Return the accesses whose addresses are unknown, such as ``LDS at tile.cu:12``: no mapping is tried on them."""
    lines = dict(_labels(profile))
    supposed = {requests.pc for requests in profile.supposed}
    missed = [
        access
        for access in profile.shared()
        if access.wavefronts is None and access.executed != 0 and access.pc not in supposed
    ]
    named = (f"{access.access} at {lines.get(access.pc, f'{access.pc:#x}')}" for access in missed)
    return tuple(dict.fromkeys(named))


def constraints(profile: Profile, given: Constraints = Constraints()) -> Constraints:
    """Return what a mapping of the profile's tiles must respect, in addition to given constraints."""
    hardware = any(instruction.opcode.split(".")[0] in HARDWARE for instruction in profile.instructions)
    return replace(given, tma=given.tma or hardware)


def _labels(profile: Profile) -> Labels:
    return tuple((site.access.pc, site.name) for site in sites(profile)) if profile.requests or profile.supposed else ()


def _leading(profile: Profile) -> Offsets:
    return frozenset(access.pc for access in profile.shared() if access.by_wmma)


@lru_cache(KEPT)
def _tiles(
    saved: tuple[SavedRequests, ...],
    supposed: tuple[SavedRequests, ...],
    labels: Labels,
    leading: Offsets,
    arrays: tuple[SharedArray, ...],
) -> tuple[ObservedTile, ...]:
    names = dict(labels)
    # Possible requests include the certain ones.
    requests = {request.pc: request.unpacked() for request in (*saved, *supposed)}
    return observed_tiles(requests, lambda offset: names.get(offset, ""), leading, arrays)


_advice = lru_cache(KEPT)(advise)  # by the tiles themselves, which are kept, too
