"""Pair the launches of several reports.

A row has one launch of each report, None if a report has no match. Two launches match if function, grid, block and
occurrence agree; else if the function's short name without template arguments and its occurrence do, which survives a
changed tile size or type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.reports.model import Profile

MOST_NAMED = 8  # kernels in one sentence

Row = tuple[Profile | None, ...]


@dataclass(frozen=True)
class Forced:
    """A pair that the user asked for: the name of the launch in the first report, and its name in the others."""

    before: str
    after: str


@dataclass(frozen=True)
class Choice:
    """Which launches to use, and which to pair regardless of their names."""

    kernel_name: str = ""  # as in `KernelFilter`
    launches: tuple[int, ...] = ()
    pairs: tuple[Forced, ...] = ()

    def chosen(self, profiles: Sequence[Profile]) -> list[Profile]:
        """Return the chosen launches; raise UsageError if there are none."""
        return select(profiles, self.kernel_name, self.launches)


EVERYTHING = Choice()


def forced_pair(text: str) -> Forced:
    """Parse ``A=B``; each side is a name, ``regex:EXPRESSION`` or a launch number. Raises UsageError."""
    before, equals, after = text.partition("=")
    if not equals or not before or not after:
        raise UsageError(f"--pair {text} is not of the form A=B", "--pair old_kernel=new_kernel, --pair 0=3")
    return Forced(before, after)


def matches(profile: Profile, wanted: str) -> bool:
    """Return whether a side of a forced pair means a launch: by its number, or as `KernelFilter` does."""
    if wanted.isdecimal():
        return str(profile.launch.index) == (wanted.lstrip("0") or "0")
    return KernelFilter(wanted, "--pair").passes(profile.kernel.names)


def select(profiles: Sequence[Profile], kernel_name: str = "", launches: Sequence[int] = ()) -> list[Profile]:
    """Return the launches with this name and one of these numbers; raise UsageError if there are none."""
    kernels = KernelFilter(kernel_name)
    selected = [
        profile
        for profile in profiles
        if (not launches or profile.launch.index in launches) and kernels.passes(profile.kernel.names)
    ]
    if profiles and not selected:
        filters = [f"--kernel-name {kernel_name}"] if kernel_name else []
        filters += [f"--launch {number}" for number in launches]
        raise UsageError(
            f"no kernel matches {' '.join(filters)}",
            f"available: {launch_list(profiles)}; --kernel-name regex:PART matches part of a name",
        )
    return selected


def launch_list(profiles: Sequence[Profile]) -> str:
    """Return the launches in a sentence: numbers and short names, the first few of many."""
    shown = [f"{p.launch.index} {names.shorten(p.kernel.function or p.kernel.name)}" for p in profiles]
    more = [f"{len(shown) - MOST_NAMED} more"] if len(shown) > MOST_NAMED else []
    return ", ".join([*shown[:MOST_NAMED], *more])


def rows(reports: Sequence[Sequence[Profile]], forced: Sequence[Forced] = ()) -> list[Row]:
    """Return one row per launch of the first report, then the unmatched launches of the others.

    If every report has a single launch, names need not match: that is how two variants are compared. Raises
    NotComparable if nothing in the first report has a match, UsageError if a forced pair does not exist.
    """
    first, *others = reports
    if not others:
        return [(profile,) for profile in first]
    columns = [_partners(first, other, forced) for other in others]
    paired: list[Row] = [(profile, *(c.get(index) for c in columns)) for index, profile in enumerate(first)]
    if not any(column for column in columns):
        sides = " and ".join(f"[{launch_list(report)}]" for report in reports)
        raise NotComparable(f"the reports have no kernel in common: {sides}", "pair kernels by name: --pair A=B")
    for number, (other, column) in enumerate(zip(others, columns, strict=True)):
        for profile in _without(other, column):
            paired.append((None, *(profile if index == number else None for index in range(len(others)))))
    return paired


def _partners(first: Sequence[Profile], other: Sequence[Profile], forced: Sequence[Forced]) -> dict[int, Profile]:
    """Return the matching launches of the other report, keyed by index in the first."""
    if len(first) == len(other) == 1:
        return {0: other[0]}
    partners: dict[int, Profile] = {}
    free = list(other)
    for pair in forced:
        left = [index for index, p in enumerate(first) if index not in partners and matches(p, pair.before)]
        right = [profile for profile in free if matches(profile, pair.after)]
        if not left or not right:
            side, wanted, report = ("first", pair.before, first) if not left else ("second", pair.after, other)
            raise UsageError(f"--pair: the {side} report has no {wanted}", f"it has: {launch_list(report)}")
        partners |= zip(left, right, strict=False)
        free = _without(free, partners)
    for criterion in (
        lambda p: (p.kernel.function, p.grid, p.block, p.launch.workload),
        lambda p: (names.function(p.kernel.function or p.kernel.name), p.launch.workload),
    ):
        candidates = dict(zip(_keys(free, criterion), free, strict=True))
        unpaired = [index for index in range(len(first)) if index not in partners]
        keys = _keys([first[index] for index in unpaired], criterion)
        partners |= {index: candidates[key] for index, key in zip(unpaired, keys, strict=True) if key in candidates}
        free = _without(free, partners)
    return partners


def _without(profiles: Sequence[Profile], partners: Mapping[int, Profile]) -> list[Profile]:
    taken = {id(profile) for profile in partners.values()}
    return [profile for profile in profiles if id(profile) not in taken]


def _keys(profiles: Sequence[Profile], criterion: Callable[[Profile], Hashable]) -> list[Hashable]:
    """Return each launch's key, numbered among launches with the same key."""
    seen: Counter[Hashable] = Counter()
    keys: list[Hashable] = []
    for profile in profiles:
        key = criterion(profile)
        keys.append((key, seen[key]))
        seen[key] += 1
    return keys
