"""The tables of a report: metrics, accesses, and ncu's raw metrics."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.counts import TRANSFERS, Total
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

COUNTER = "Hardware conflict counter, "  # the start of these metrics' titles in `comparison.METRICS`
DECIMALS = {"%": 1, "GHz": 2}


@dataclass(frozen=True)
class MetricRow:
    """One metric: a value per profile, and the change from the first to the second."""

    title: str
    unit: str
    values: tuple[str, ...]
    change: str


@dataclass(frozen=True)
class AccessRow:
    """One access kind of one profile; bar widths are relative to the longest of its kind."""

    label: str
    executed: str
    actual: str
    ideal: str
    excessive: str
    degree: str
    share: str
    ideal_width: str
    excess_width: str


@dataclass(frozen=True)
class AccessKind:
    """One access kind, or all together, with one row per profile."""

    name: str
    transfer: str
    rows: tuple[AccessRow, ...]


@dataclass(frozen=True)
class Phantom:
    """What the hardware conflict counters claim for a profile without conflicts."""

    label: str
    counters: str


@dataclass(frozen=True)
class Share:
    """A value as text and as a bar; `few` if it is a share of too few samples."""

    text: str
    width: str
    few: bool = False


@dataclass(frozen=True)
class RawRow:
    """One metric under ncu's name, with all digits."""

    name: str
    unit: str
    values: tuple[str, ...]


def metrics(comparison: Comparison) -> tuple[MetricRow, ...]:
    """Return the rows of the metric table."""
    return tuple(
        _metric(str(title), str(row["unit"]), [row[label] for label in comparison.labels])
        for title, row in comparison.metrics.iterrows()
    )


def _metric(title: str, unit: str, values: list[object]) -> MetricRow:
    compare = text.points if unit == "%" else text.change
    change = compare(values[0], values[1]) if len(values) > 1 else ""
    if unit == text.MS.name:
        spans = [None if (ms := text.finite(value)) is None else ms * text.MS.nanoseconds for value in values]
        scale = text.time_unit(spans)
        return MetricRow(title, scale.name, tuple(scale.show(span) for span in spans), change)
    decimals = 2 if title.startswith("Degree") else DECIMALS.get(unit, 0)
    return MetricRow(title, unit, tuple(text.fixed(value, decimals) for value in values), change)


def accesses(comparison: Comparison) -> tuple[AccessKind, ...]:
    """Return the access kinds, most wavefronts first, then all of them together."""
    totals = [(label, p.accesses, p.total) for label, p in zip(comparison.labels, comparison.profiles, strict=True)]
    names = dict.fromkeys(str(name) for name in comparison.accesses["access"])
    if not names:
        return ()
    kinds = [(name, TRANSFERS.get(name, ""), [(label, by[name], all_) for label, by, all_ in totals if name in by])
             for name in names]  # fmt: skip
    kinds.append(("All", "all of the above", [(label, all_, all_) for label, _, all_ in totals]))
    return tuple(AccessKind(name, transfer, _access_rows(rows)) for name, transfer, rows in kinds)


def _access_rows(rows: list[tuple[str, Total, Total]]) -> tuple[AccessRow, ...]:
    longest = max((_known(total).wavefronts or 0 for _, total, _ in rows), default=0)
    return tuple(_access_row(label, total, everything, longest) for label, total, everything in rows)


def _known(total: Total) -> Total:
    """Return the sums over the accesses that could be counted."""
    return total.counted or total


def _access_row(label: str, total: Total, everything: Total, longest: int) -> AccessRow:
    known = _known(total)
    return AccessRow(
        label=label,
        executed=text.counted(total.executed, known.executed),
        actual=text.counted(total.wavefronts, known.wavefronts),
        ideal=text.counted(total.ideal, known.ideal),
        excessive=text.counted(total.excessive, known.excessive),
        degree=text.degree(total.degree),
        share=_share(total, everything),
        ideal_width=text.width(min(known.ideal or 0, known.wavefronts or 0), longest),
        excess_width=text.width(known.excessive, longest),
    )


def _share(part: Total, whole: Total) -> str:
    if part.wavefronts is None or not whole.wavefronts:
        return text.UNKNOWN
    return text.percent(100 * part.wavefronts / whole.wavefronts)


def phantoms(comparison: Comparison) -> tuple[Phantom, ...]:
    """Return the profiles without excess for which the hardware counters still claim conflicts."""
    counters = [row for row in comparison.metrics.iterrows() if str(row[0]).startswith(COUNTER)]
    phantom_profiles = []
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        claims = [f"{text.count(row[label])} {str(title).removeprefix(COUNTER)}"
                  for title, row in counters if text.finite(row[label])]  # fmt: skip
        if claims and profile.total.excessive == 0:
            phantom_profiles.append(Phantom(label, ", ".join(claims)))
    return tuple(phantom_profiles)


def raw(comparison: Comparison) -> tuple[RawRow, ...]:
    """Return every metric of every profile, sorted by name."""
    names = sorted({name for profile in comparison.profiles for name in profile.metrics})
    return tuple(
        RawRow(name, _units(name, comparison.profiles), tuple(_raw(name, p) for p in comparison.profiles))
        for name in names
    )


def _units(name: str, profiles: tuple[Profile, ...]) -> str:
    return " or ".join(sorted({p.metrics[name].unit for p in profiles if name in p.metrics and p.metrics[name].unit}))


def _raw(name: str, profile: Profile) -> str:
    return text.raw(profile.metrics[name].value) if name in profile.metrics else "not in the report"
