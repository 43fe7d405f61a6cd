"""Which launches of several reports belong together.

A row has one launch of each report, None where a report has none for it. Two launches are of the same kernel where
function, grid, block and occurrence agree; else where the function's short name without template arguments and its
occurrence do, which a changed tile size or type leaves alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.cubin import demangled
from ncu_swizzle.errors import NotComparable, UsageError
from ncu_swizzle.profiles.model import Profile

REGEX = "regex:"
MOST_NAMED = 8  # kernels in one sentence

Row = tuple[Profile | None, ...]


@dataclass(frozen=True)
class Forced:
    """A pair that the user wants: how the launch of the first report is named, and how that of the others."""

    before: str
    after: str


@dataclass(frozen=True)
class Choice:
    """Which launches of reports are looked at, and which of them belong together whatever their names."""

    kernel_name: str = ""  # as `matches` takes it
    launches: tuple[int, ...] = ()
    pairs: tuple[Forced, ...] = ()

    def of(self, profiles: Sequence[Profile]) -> list[Profile]:
        """Return the launches that are looked at; raise UsageError where there are none."""
        return select(profiles, self.kernel_name, self.launches)


EVERYTHING = Choice()


def parse(text: str) -> Forced:
    """Read ``A=B``; each side is a name, ``regex:EXPRESSION`` or the number of a launch. Raises UsageError."""
    before, equals, after = text.partition("=")
    if not equals or not before or not after:
        raise UsageError(f"--pair {text}: this is not A=B", "--pair old_kernel=new_kernel, --pair 0=3")
    return Forced(before, after)


def matches(profile: Profile, wanted: str) -> bool:
    """Return whether a launch is meant by a name (its own, the catalogue's), regex:EXPRESSION or its number.

    Raises UsageError where the expression is none.
    """
    kernel = profile.kernel
    if wanted.isdecimal():
        return profile.launch.index == int(wanted)
    if not wanted.startswith(REGEX):
        short = (demangled.function(kernel.function), demangled.shorten(kernel.function))
        return wanted in (kernel.name, kernel.function, kernel.mangled, *short)
    try:
        expression = re.compile(wanted.removeprefix(REGEX))
    except re.error as error:
        raise UsageError(f"{wanted} is no regular expression: {error}", "regex:softmax.*") from error
    return bool(expression.search(kernel.function) or expression.search(kernel.name))


def select(profiles: Sequence[Profile], kernel_name: str = "", launches: Sequence[int] = ()) -> list[Profile]:
    """Return the launches of such a name and number; raise UsageError where there are none."""
    found = [
        one
        for one in profiles
        if (not kernel_name or matches(one, kernel_name)) and (not launches or one.launch.index in launches)
    ]
    if profiles and not found:
        asked = [f"--kernel-name {kernel_name}"] if kernel_name else []
        asked += [f"--launch {number}" for number in launches]
        raise UsageError(
            f"no kernel fits {' '.join(asked)}", f"there are: {named(profiles)}; --kernel-name regex:PART searches"
        )
    return found


def named(profiles: Sequence[Profile]) -> str:
    """Return the launches in a sentence: numbers and short names, the first few of many."""
    shown = [f"{one.launch.index} {demangled.shorten(one.kernel.function or one.kernel.name)}" for one in profiles]
    more = [f"{len(shown) - MOST_NAMED} more"] if len(shown) > MOST_NAMED else []
    return ", ".join([*shown[:MOST_NAMED], *more])


def rows(reports: Sequence[Sequence[Profile]], forced: Sequence[Forced] = ()) -> list[Row]:
    """Return one row per launch of the first report, then the launches of the others that fit none.

    One launch against one needs no equal name: that is how two variants are compared. Raises NotComparable where
    there are several reports and nothing of the first fits anything, UsageError where a forced pair is not there.
    """
    first, *others = reports
    if not others:
        return [(one,) for one in first]
    columns = [_partners(first, other, forced) for other in others]
    made: list[Row] = [(one, *(column.get(place) for column in columns)) for place, one in enumerate(first)]
    if not any(column for column in columns):
        sides = " and ".join(f"[{named(report)}]" for report in reports)
        raise NotComparable(f"no kernel of one report is in another: {sides}", "say which belong together: --pair A=B")
    for number, (other, column) in enumerate(zip(others, columns, strict=True)):
        for one in _without(other, column):
            made.append((None, *(one if place == number else None for place in range(len(others)))))
    return made


def _partners(first: Sequence[Profile], other: Sequence[Profile], forced: Sequence[Forced]) -> dict[int, Profile]:
    """Return for places in the first report the launch of the other that belongs there."""
    if len(first) == len(other) == 1:
        return {0: other[0]}
    found: dict[int, Profile] = {}
    free = list(other)
    for pair in forced:
        left = [place for place, one in enumerate(first) if place not in found and matches(one, pair.before)]
        right = [one for one in free if matches(one, pair.after)]
        if not left or not right:
            side, wanted, report = ("first", pair.before, first) if not left else ("second", pair.after, other)
            raise UsageError(f"--pair: the {side} report has no {wanted}", f"it has: {named(report)}")
        found |= zip(left, right, strict=False)
        free = _without(free, found)
    for key in (_exact, _loose):
        waiting = dict(zip(_keys(free, key), free, strict=True))
        unpaired = [place for place in range(len(first)) if place not in found]
        keys = _keys([first[place] for place in unpaired], key)
        found |= {place: waiting[one] for place, one in zip(unpaired, keys, strict=True) if one in waiting}
        free = _without(free, found)
    return found


def _without(profiles: Sequence[Profile], found: Mapping[int, Profile]) -> list[Profile]:
    taken = {id(one) for one in found.values()}
    return [one for one in profiles if id(one) not in taken]


def _keys(profiles: Sequence[Profile], key: Callable[[Profile], Hashable]) -> list[Hashable]:
    """Return each launch's key with the number of those before it that have the same."""
    seen: Counter[Hashable] = Counter()
    made: list[Hashable] = []
    for profile in profiles:
        own = key(profile)
        made.append((own, seen[own]))
        seen[own] += 1
    return made


def _exact(profile: Profile) -> Hashable:
    return profile.kernel.function, profile.grid, profile.block, profile.launch.workload


def _loose(profile: Profile) -> Hashable:
    return demangled.function(profile.kernel.function or profile.kernel.name), profile.launch.workload
