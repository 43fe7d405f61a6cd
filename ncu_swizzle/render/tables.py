"""Warp stall reasons per profile, and what replaced a stall that shrank."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from ncu_swizzle.render import text
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import TRANSFERS, Total
from ncu_swizzle.reports.model import Profile

# The tables of a report: metrics, accesses, and ncu's raw metrics.


COUNTER = "Hardware conflict counter, "  # the start of these metrics' titles in `comparison.METRICS`
DECIMALS = {"%": 1, "GHz": 2}


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric: a value per profile, and the change from the first to the second."""

    title: str
    unit: str
    values: tuple[str, ...]
    change: str


@dataclass(frozen=True, kw_only=True)
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
        return MetricRow(title=title, unit=scale.name, values=tuple(scale.show(span) for span in spans), change=change)
    decimals = 2 if title.startswith("Degree") else DECIMALS.get(unit, 0)
    return MetricRow(
        title=title, unit=unit, values=tuple(text.fixed(value, decimals) for value in values), change=change
    )


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
    longest = max((total.known.wavefronts or 0 for _, total, _ in rows), default=0)
    return tuple(_access_row(label, total, everything, longest) for label, total, everything in rows)


def _access_row(label: str, total: Total, everything: Total, longest: int) -> AccessRow:
    known = total.known
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


MINOR_STALL = 1.0  # percent; a reason below this in every profile is folded
MOVED = 1.0  # percentage points; smaller changes are not mentioned
GAINERS = 3


@dataclass(frozen=True, kw_only=True)
class StallRow:
    """One stall reason: its share of each profile's samples, and the change from the first to the second."""

    reason: str
    meaning: str
    shares: tuple[Share, ...]
    change: str
    delta: text.Delta

    @property
    def few(self) -> bool:
        """Whether the change rests on too few samples."""
        return any(share.few for share in self.shares[:2])


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """The major and minor stall reasons, a summary in words, and how many samples each profile has."""

    sampled: tuple[text.Sampled, ...]
    sentences: tuple[str, ...]
    major: tuple[StallRow, ...]
    minor: tuple[StallRow, ...]


def meaning(reason: str) -> str:
    """Return what a stall reason means, in a few words; empty if it is unknown."""
    return str(_reasons().REASONS.get(reason, ""))


def _reasons() -> ModuleType:
    return pack.pack("stalls")


def stalls(comparison: Comparison) -> Stalls:
    """Return the stall reasons in the comparison's order, the largest change first."""
    sampled = text.sampled(comparison)
    table = [
        (str(reason), [row[each.label] if each.samples else None for each in sampled])
        for reason, row in comparison.stalls.iterrows()
    ]
    widest = max((abs(_moved(shares) or 0.0) for _, shares in table), default=0.0)
    rows = [
        (max(share or 0.0 for share in shares), _stall(reason, shares, widest, sampled)) for reason, shares in table
    ]
    return Stalls(
        sampled=sampled,
        sentences=(caution,) if (caution := text.caution(sampled)) else _sentences(comparison, table),
        major=tuple(row for most, row in rows if most >= MINOR_STALL),
        minor=tuple(row for most, row in rows if most < MINOR_STALL),
    )


def _moved(shares: list[float | None]) -> float | None:
    """Return the change from the first to the second in percentage points; None if unknown."""
    if len(shares) < 2 or shares[0] is None or shares[1] is None:
        return None
    return shares[1] - shares[0]


def _stall(reason: str, shares: list[float | None], widest: float, sampled: tuple[text.Sampled, ...]) -> StallRow:
    return StallRow(
        reason=reason,
        meaning=meaning(reason),
        shares=tuple(
            Share(text.percent(share), text.width(share, 100), counted.few)
            for share, counted in zip(shares, sampled, strict=True)
        ),
        change=text.points(shares[0], shares[1]) if len(shares) > 1 else "",
        delta=text.delta(_moved(shares), widest),
    )


def _sentences(comparison: Comparison, table: list[tuple[str, list[float | None]]]) -> tuple[str, ...]:
    """Say what shrank most (in share and time), what took its place, and which wait is largest now."""
    moves = [(reason, shares, moved) for reason, shares in table if (moved := _moved(shares)) is not None]
    if not moves:
        return ()
    before, after = comparison.labels[:2]
    less = [(reason, shares) for reason, shares, moved in moves if moved <= -MOVED]
    more = [(reason, shares) for reason, shares, moved in moves if moved >= MOVED]
    if not less and not more:
        return (f"No stall reason changed by {MOVED:.0f} percentage point or more from {before} to {after}.",)
    sentences = []
    if less:
        reason, shares = less[0]
        sentences.append(f"{reason} fell from {text.percent(shares[0])} of {before}'s samples to "
                    f"{text.percent(shares[1])} of {after}'s{_in_time(comparison, shares)}.")  # fmt: skip
    if more:
        gained = [f"{reason} ({text.points(*shares[:2])})" for reason, shares in more[:GAINERS]]
        sentences.append(f"{text.listed(gained)} grew instead.")
    waits = [(reason, shares[1] or 0.0) for reason, shares, _ in moves if reason not in _reasons().HEALTHY]
    reason, share = max(waits, key=lambda entry: entry[1], default=("", 0.0))
    if share >= MINOR_STALL:
        why = f": {meaning(reason)}" if meaning(reason) else ""
        sentences.append(f"{after} stalls most on {reason}, {text.percent(share)}{why}.")
    return tuple(sentences)


def _in_time(comparison: Comparison, shares: list[float | None]) -> str:
    """Return share times duration, before and after, as a clause; empty if a duration is unknown."""
    times = [text.finite(profile.duration_ns) for profile in comparison.profiles[:2]]
    spent = [
        f"{text.fixed(share / 100 * ns * 1e-6, 3)} ms"
        for share, ns in zip(shares, times, strict=False)
        if share is not None and ns is not None
    ]
    return f", or {spent[0]} → {spent[1]} of the duration" if len(spent) == 2 else ""
