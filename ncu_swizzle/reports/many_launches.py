"""Many launches: one comparison per launch or pair, which are the worst, and an overall verdict."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import PurePosixPath

from ncu_swizzle.base.texts import one_line
from ncu_swizzle.cubin import names
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.comparison import Comparison, compare, distinct
from ncu_swizzle.reports.model import IDEAL, WAVEFRONTS, Profile
from ncu_swizzle.reports.pairing import Row, launch_list

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
    seen: dict[Hashable, int] = {}
    for index in order:
        last = comparisons[index].profiles[-1]
        seen.setdefault((_full_name(last), last.grid, last.block, len(comparisons[index].profiles)), index)
    return list(seen.values())[:most]


def _badness(comparison: Comparison) -> tuple[int, float]:
    return -(excessive(comparison) or 0), -max(profile.duration_ns or 0.0 for profile in comparison.profiles)


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
    was, now = (_sum([excess(pair.profiles[index]) for pair in pairs]) for index in (0, 1))
    before, after = (_sum([pair.profiles[index].duration_ns for pair in pairs]) for index in (0, 1))
    parts = [f"{len(pairs)} pairs"]
    parts += [f"excessive wavefronts {was:,.0f} → {now:,.0f}"] if was is not None and now is not None else []
    parts += [f"{before / 1e6:.3f} → {after / 1e6:.3f} ms in total"] if before is not None and after else []
    return f"{', '.join(parts)}."


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if any value is unknown."""
    return None if None in values else sum(value for value in values if value is not None)
