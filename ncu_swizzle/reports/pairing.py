"""Launches of several reports: paired, laid out as comparisons, and judged together.

A row has one launch of each report, None if a report has no match. Two launches match if function, grid, block and
occurrence agree; else if the function's short name without template arguments and its occurrence do, which survives a
changed tile size or type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ncu_swizzle.base.bounds import some
from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.comparison import Comparison, compare, distinct
from ncu_swizzle.reports.counts import known_sum
from ncu_swizzle.reports.model import IDEAL, WAVEFRONTS, Profile

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
    """Return whether a side of a forced pair matches a launch: by its number, or as `KernelFilter` does."""
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
    return some(f"{p.launch.index} {names.shorten(p.kernel.function or p.kernel.name)}" for p in profiles)


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
    occurrences: Counter[Hashable] = Counter()
    keys: list[Hashable] = []
    for profile in profiles:
        key = criterion(profile)
        keys.append((key, occurrences[key]))
        occurrences[key] += 1
    return keys


# One comparison per launch or pair, which are the worst, and an overall verdict.

SUFFIXES = (".ncu-rep", ".json", ".launches")
BEFORE, AFTER = "before", "after"


def lay_out(
    rows: Sequence[Row], columns: Sequence[str] = (), notes: Sequence[str] = ()
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Return one comparison per row, and the notes about all of them.

    `columns` are the reports' names. With a single row, its comparison carries the notes as warnings; without
    `columns`, its profiles are labelled with their kernels' names.
    """
    # The launches that each row has, with their column's index.
    launches = [[(index, profile) for index, profile in enumerate(row) if profile is not None] for row in rows]
    if len(rows) == 1:
        labels = [columns[index] for index, _ in launches[0]] if columns and len(launches[0]) > 1 else ()
        return (compare([profile for _, profile in launches[0]], notes, labels),), ()
    lasts = [_full_name(row[-1][1]) for row in launches]
    firsts = [names.function(_full_name(row[0][1])) for row in launches]
    titles = distinct(
        [
            name if first == names.function(last) else f"{first} → {name}"  # paired although they differ
            for first, last, name in zip(firsts, lasts, names.distinct(lasts), strict=True)
        ]
    )
    several = len(rows[0]) > 1
    comparisons = tuple(
        compare(
            [profile for _, profile in row],
            labels=[columns[index] for index, _ in row] if several else [title],
            title=title,
        )
        for row, title in zip(launches, titles, strict=True)
    )
    alone: dict[int, list[Profile]] = {}
    for row in launches:
        if several and len(row) == 1:
            alone.setdefault(row[0][0], []).append(row[0][1])
    unpaired = [f"Only in {columns[i]}, not paired: {launch_list(alone[i])}." for i in sorted(alone)]
    return comparisons, (*notes, *unpaired, *_lacking([profile for row in launches for _, profile in row]))


def _full_name(profile: Profile) -> str:
    return profile.kernel.name if profile.kernel.family else profile.kernel.function or profile.kernel.name


def _lacking(profiles: Sequence[Profile]) -> list[str]:
    lacking = [profile for profile in profiles if profile.missing]
    if not lacking:
        return []
    missing = dict.fromkeys(name for profile in lacking for name in profile.missing)
    return [
        f"{len(lacking)} of {len(profiles)} launches lack metrics: {', '.join(missing)}. "
        f"Collect them with: {remarks.command_for_all()}"
    ]


def columns(entries: Sequence[str]) -> tuple[str, ...]:
    """Return the reports' labels: their file names without suffixes, or before and after if these are equal."""
    stems = []
    for entry in entries:
        name = PurePosixPath(entry).name
        suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
        stems.append(one_line(name.removesuffix(suffix)) or entry)
    if len(set(stems)) < len(stems):
        return (BEFORE, AFTER) if len(stems) == 2 else distinct(stems)
    return tuple(stems)


def excess(profile: Profile) -> int | None:
    """Return a launch's excessive wavefronts: 0 if ncu counted no accesses, None if wavefronts were not collected."""
    if WAVEFRONTS in profile.metrics and IDEAL in profile.metrics and not profile.accesses:
        return 0
    return profile.total.excessive


def excessive(comparison: Comparison) -> int | None:
    """Return the largest excess of any of its profiles; None if all are unknown."""
    return max((count for count in map(excess, comparison.profiles) if count is not None), default=None)


def worst(comparisons: Sequence[Comparison], most: int) -> list[int]:
    """Return the indices of the comparisons to look at: most excessive wavefronts first, then the longest.

    Only the worst launch per kernel and size is listed.
    """
    order = sorted(range(len(comparisons)), key=lambda index: _badness(comparisons[index]))
    largest: dict[Hashable, int] = {}
    for index in order:
        last = comparisons[index].profiles[-1]
        largest.setdefault((_full_name(last), last.grid, last.block, len(comparisons[index].profiles)), index)
    return list(largest.values())[:most]


def _badness(comparison: Comparison) -> tuple[int, float]:
    return -(excessive(comparison) or 0), -max(profile.duration_ns or 0.0 for profile in comparison.profiles)


def outputs(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield of how many launches the outputs were compared, and what of them is wrong or unknown."""
    found = [
        (comparison.title, comparison.profiles[-1].checked)
        for comparison in comparisons
        if comparison.profiles[-1].checked
    ]
    if found:
        right = sum(not any(output.wrong or output.unknown for output in checked) for _, checked in found)
        yield f"Outputs were compared of {len(found)} of {len(comparisons)} launches; of {right} all are right."
    for title, checked in found:
        yield from (f"{title}: {output}." for output in checked if output.wrong or output.unknown)


def verdict(comparisons: Sequence[Comparison]) -> str:
    """Return the verdict on all comparisons, in one or two sentences."""
    if len(comparisons) == 1:
        return comparisons[0].verdict
    pairs = [comparison for comparison in comparisons if len(comparison.profiles) > 1]
    return _pairs_verdict(pairs) if pairs else _launches_verdict(comparisons)


def _launches_verdict(comparisons: Sequence[Comparison]) -> str:
    counted = [comparison for comparison in comparisons if excessive(comparison) is not None]
    bad = sorted((comparison for comparison in counted if excessive(comparison)), key=_badness)
    unknown = f"; {len(comparisons) - len(counted)} cannot be judged" if len(counted) < len(comparisons) else ""
    if not counted:
        return f"None of the {len(comparisons)} launches can be judged."
    if not bad:
        return f"None of {len(comparisons)} launches has excessive shared-memory wavefronts{unknown}."
    total = bad[0].profiles[0].total
    return (
        f"{len(bad)} of {len(comparisons)} launches have excessive shared-memory wavefronts{unknown}; the worst is "
        f"{bad[0].title}: {total.excessive:,}" + (f" (degree {total.degree:.2f})." if total.degree else ".")
    )


def _pairs_verdict(pairs: Sequence[Comparison]) -> str:
    was, now = (known_sum(excess(pair.profiles[index]) for pair in pairs) for index in (0, 1))
    before, after = (known_sum(pair.profiles[index].duration_ns for pair in pairs) for index in (0, 1))
    parts = [f"{len(pairs)} pairs"]
    parts += [f"excessive wavefronts {was:,.0f} → {now:,.0f}"] if was is not None and now is not None else []
    parts += [f"{before / 1e6:.3f} → {after / 1e6:.3f} ms in total"] if before is not None and after else []
    return f"{', '.join(parts)}."
