"""The table of many launches: which they are, what they cost, which are shown in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles import many_launches
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

ARROW = " → "


@dataclass(frozen=True)
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
        duration=_both([text.duration(p.duration_ns, unit) for p in profiles], always=True),
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
