"""The table of many launches: which they are, what they cost, which are shown in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.render import text
from ncu_swizzle.reports import many_launches
from ncu_swizzle.reports.comparison import SHARED_PIPE, Comparison
from ncu_swizzle.reports.model import Profile

# All profiles at a glance: the page's first picture, and one row per profile if there are more than two.


FEWEST = 3  # with fewer, the picture has it all
MOST_BARS = 8  # profiles in the picture; of more, only those of the verdict


@dataclass(frozen=True, kw_only=True)
class OverviewRow:
    """One profile; `pace` is its speed relative to the first. Bars are relative to the longest of all rows."""

    label: str
    excessive: str
    degree: str
    duration: str
    pace: str
    pipe: str
    ideal_width: str
    excess_width: str
    time_width: str
    bad: bool


@dataclass(frozen=True)
class Glance:
    """The picture: a bar of ideal and excessive wavefronts and a bar of time per profile; `more` are left out."""

    rows: tuple[OverviewRow, ...]
    timed: bool
    more: int


def glance(comparison: Comparison) -> Glance:
    """Return the picture of a comparison."""
    rows = _rows(comparison)
    shown = rows if len(rows) <= MOST_BARS else tuple(rows[number] for number in comparison.judged)
    return Glance(shown, any(row.duration != text.UNKNOWN for row in shown), len(rows) - len(shown))


def overview_rows(comparison: Comparison) -> tuple[OverviewRow, ...]:
    """Return one row per profile; none for one or two profiles."""
    return _rows(comparison) if len(comparison.profiles) >= FEWEST else ()


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """What bars are relative to, and the unit of durations."""

    first: Profile
    wavefronts: int
    slowest: float
    unit: text.TimeUnit


def _rows(comparison: Comparison) -> tuple[OverviewRow, ...]:
    profiles = comparison.profiles
    durations = [profile.duration_ns for profile in profiles]
    scale = _Scale(
        first=profiles[0],
        wavefronts=max((_least(profile, "wavefronts") or 0 for profile in profiles), default=0),
        slowest=max((ns or 0.0 for ns in durations), default=0.0),
        unit=text.time_unit(durations),
    )
    return tuple(_overview_row(label, p, scale) for label, p in zip(comparison.labels, profiles, strict=True))


def _least(profile: Profile, name: str) -> int | None:
    """Return a count over all accesses; if some are unknown, over the others."""
    total = profile.total
    count: int | None = getattr(total, name)
    return getattr(total.counted, name) if count is None and total.counted else count


def _overview_row(label: str, profile: Profile, scale: _Scale) -> OverviewRow:
    total, ns, first = profile.total, profile.duration_ns, scale.first.duration_ns
    wavefronts, excess = _least(profile, "wavefronts") or 0, _least(profile, "excessive")
    return OverviewRow(
        label=label,
        excessive=text.counted(total.excessive, excess),
        degree=text.degree(total.degree),
        duration=text.duration_text(ns, scale.unit),
        pace=f"{first / ns:.2f}×" if ns and first else text.UNKNOWN,
        pipe=text.percent(profile.number(SHARED_PIPE)),
        ideal_width=text.width(wavefronts - (excess or 0), scale.wavefronts),
        excess_width=text.width(excess, scale.wavefronts),
        time_width=text.width(ns, scale.slowest),
        bad=bool(excess),
    )


ARROW = " → "


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """One launch, or a pair of launches: values that differ read "before → after".

    `number` is the launch's number in its report; `anchor` links to its section, empty if it is not shown in full.
    """

    number: str
    name: str
    function: str
    grid: str
    block: str
    duration: str
    excessive: str
    degree: str
    pace: str
    note: str
    anchor: str
    excess_width: str
    time_width: str
    bad: bool


def rows(comparisons: Sequence[Comparison], detailed: Sequence[int] = ()) -> tuple[KernelRow, ...]:
    """Return one row per comparison, in order; `detailed` are the indices of those shown in full."""
    most_excess = max((many_launches.excessive(comparison) or 0 for comparison in comparisons), default=0)
    longest = max((p.duration_ns or 0.0 for comparison in comparisons for p in comparison.profiles), default=0.0)
    unit = text.time_unit(p.duration_ns for comparison in comparisons for p in comparison.profiles)
    return tuple(
        _row(comparison, anchor(index) if index in detailed else "", most_excess, (longest, unit))
        for index, comparison in enumerate(comparisons)
    )


def anchor(index: int) -> str:
    """Return the link target of a comparison's section."""
    return f"k{index}"


def short_dimensions(sizes: Sequence[int]) -> str:
    """Return a grid or block as 128x8, without trailing ones; "unknown" if any size is 0."""
    if not all(sizes):
        return text.UNKNOWN
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))


def _row(comparison: Comparison, target: str, most_excess: int, scale: tuple[float, text.TimeUnit]) -> KernelRow:
    profiles = comparison.profiles[:2]
    last = profiles[-1]
    longest, unit = scale
    return KernelRow(
        number=_both([str(p.launch.index) for p in profiles]),
        name=comparison.title or comparison.labels[-1],
        function=last.kernel.function,
        grid=_both([short_dimensions(p.grid) for p in profiles]),
        block=_both([short_dimensions(p.block) for p in profiles]),
        duration=_both([text.duration_text(p.duration_ns, unit) for p in profiles], always=True),
        excessive=_both([_excess(p) for p in profiles], always=True),
        degree=_both([_degree(p) for p in profiles], always=True),
        pace=f"{comparison.speedup:.2f}×" if comparison.speedup else "",
        note=_note(comparison),
        anchor=target,
        excess_width=text.width(many_launches.excess(last), most_excess),
        time_width=text.width(last.duration_ns, longest),
        bad=bool(many_launches.excess(last)),
    )


def _both(values: Sequence[str], always: bool = False) -> str:
    """Return one value, or two joined by an arrow; equal ones once unless `always`."""
    return values[0] if len(values) == 1 or (values[0] == values[1] and not always) else ARROW.join(values)


def _excess(profile: Profile) -> str:
    return text.count(many_launches.excess(profile))


def _degree(profile: Profile) -> str:
    if profile.total.ideal is None and many_launches.excess(profile) == 0:
        return "-"  # no access at all
    return text.degree(profile.total.degree) if profile.total.ideal else "-"


def _note(comparison: Comparison) -> str:
    workload = comparison.profiles[-1].launch.workload
    label = comparison.labels[0]
    alone = len(comparison.profiles) == 1 and comparison.title not in ("", label)
    unpaired = f"only in {label}" if alone else ""
    return ", ".join(part for part in (workload if workload != "kernel" else "", unpaired) if part)
