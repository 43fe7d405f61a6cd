"""Many launches in a table: which they are, what they cost, which of them are shown in detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles import many_launches
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

ARROW = " → "


@dataclass(frozen=True)
class Row:
    """One launch, or a pair of launches: what differs reads "before → after".

    `number` is the launch's in its report; `anchor` the section with its details, empty where there is none.
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


def rows(comparisons: Sequence[Comparison], detailed: Sequence[int] = ()) -> tuple[Row, ...]:
    """Return a row per comparison, in their order; `detailed` are the places of those that are shown in full."""
    most_excess = max((many_launches.excessive(one) or 0 for one in comparisons), default=0)
    longest = max((p.duration_ns or 0.0 for one in comparisons for p in one.profiles), default=0.0)
    return tuple(
        _row(one, anchor(place) if place in detailed else "", most_excess, longest)
        for place, one in enumerate(comparisons)
    )


def anchor(place: int) -> str:
    """Return the name in links of a comparison's section."""
    return f"k{place}"


def size(dimensions: Sequence[int]) -> str:
    """Return a grid or block as 128x8x1; without trailing ones, and unknown where any is 0."""
    if not all(dimensions):
        return text.UNKNOWN
    shown = list(dimensions)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(str(one) for one in shown)


def milliseconds(profile: Profile) -> str:
    ns = text.known(profile.duration_ns)
    return text.UNKNOWN if ns is None else text.fixed(ns * 1e-6, 3)


def _row(one: Comparison, target: str, most_excess: int, longest: float) -> Row:
    profiles = one.profiles[:2]
    last = profiles[-1]
    return Row(
        number=_both([str(p.launch.index) for p in profiles]),
        name=one.title or one.labels[-1],
        function=last.kernel.function,
        grid=_both([size(p.grid) for p in profiles]),
        block=_both([size(p.block) for p in profiles]),
        duration=_both([milliseconds(p) for p in profiles], always=True),
        excessive=_both([_excess(p) for p in profiles], always=True),
        degree=_both([_degree(p) for p in profiles], always=True),
        pace=f"{one.speedup:.2f}×" if one.speedup else "",
        note=_note(one),
        anchor=target,
        excess_width=text.width(many_launches.excess(last), most_excess),
        time_width=text.width(last.duration_ns, longest),
        bad=bool(many_launches.excess(last)),
    )


def _both(values: Sequence[str], always: bool = False) -> str:
    """Return one value, or two with an arrow between them; equal ones once, unless they are figures."""
    return values[0] if len(values) == 1 or (values[0] == values[1] and not always) else ARROW.join(values)


def _excess(profile: Profile) -> str:
    return text.count(many_launches.excess(profile))


def _degree(profile: Profile) -> str:
    if profile.total.ideal is None and many_launches.excess(profile) == 0:
        return "-"  # no access at all
    return text.degree(profile.total.degree) if profile.total.ideal else "-"


def _note(one: Comparison) -> str:
    workload = one.profiles[-1].launch.workload
    alone = f"only in {one.labels[0]}" if one.title and one.labels[0] != one.title and len(one.profiles) == 1 else ""
    return ", ".join(part for part in (workload if workload != "kernel" else "", alone) if part)
