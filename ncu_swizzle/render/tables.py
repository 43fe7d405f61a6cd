"""The tables of a report: metrics, accesses, instructions, warp stalls; and what is missing for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from ncu_swizzle.render import text
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import TRANSFERS, Instruction, Total
from ncu_swizzle.reports.model import DURATION, EXECUTED, IDEAL, STALLED, WAVEFRONTS, Profile
from ncu_swizzle.reports.side_by_side import DEGREE, METRICS

COUNTER = "Hardware conflict counter, "  # the start of these metrics' titles in `METRICS`
DECIMALS = {"%": 1, "GHz": 2}


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric in the unit that suits its values: a text per profile, and the change from the first to the second."""

    title: str
    unit: str
    values: tuple[str, ...]
    change: str


def metrics(comparison: Comparison, only: Collection[str] = ()) -> tuple[MetricRow, ...]:
    """Return the rows of the metric table, or those of these titles."""
    table = comparison.metrics
    return tuple(
        _metric(str(title), str(row["unit"]), [row[label] for label in comparison.labels])
        for title, row in table.iterrows()
        if not only or title in only
    )


def _metric(title: str, unit: str, values: list[object]) -> MetricRow:
    compare = text.points if unit == "%" else text.change
    change = compare(values[0], values[1]) if len(values) > 1 else ""
    if unit == text.MS.name:  # microseconds if all are short
        spans = [None if (ms := text.finite(value)) is None else ms * text.MS.nanoseconds for value in values]
        scale = text.time_unit(spans)
        return MetricRow(title=title, unit=scale.name, values=tuple(map(scale.show, spans)), change=change)
    decimals = 2 if title == DEGREE else DECIMALS.get(unit, 0)
    shown = tuple(text.fixed(value, decimals) for value in values)
    return MetricRow(title=title, unit=unit, values=shown, change=change)


def raw_names(comparison: Comparison) -> list[tuple[str, str]]:
    """Return every metric of every profile, sorted by name, and its unit or units."""
    units: dict[str, set[str]] = {}
    for profile in comparison.profiles:
        for name, metric in profile.metrics.items():
            units.setdefault(name, set()).update({metric.unit} - {""})
    return [(name, " or ".join(sorted(units[name]))) for name in sorted(units)]


# Accesses to shared memory.


class AccessRow(NamedTuple):
    """The accesses of one kind of one profile; `share` is of all its wavefronts, in percent, None if unknown."""

    label: str
    total: Total
    share: float | None


@dataclass(frozen=True)
class AccessKind:
    """One access kind, or all together, with a row per profile; bars are relative to `longest`, in wavefronts."""

    name: str
    transfer: str
    rows: tuple[AccessRow, ...]

    @property
    def longest(self) -> int:
        return max((row.total.known.wavefronts or 0 for row in self.rows), default=0)


def accesses(comparison: Comparison) -> tuple[AccessKind, ...]:
    """Return the access kinds, most wavefronts first, then all of them together."""
    names = dict.fromkeys(str(name) for name in comparison.accesses["access"])
    kinds = [
        AccessKind(
            name,
            TRANSFERS.get(name, ""),
            tuple(
                AccessRow(label, p.accesses[name], _share(p.accesses[name], p.total))
                for label, p in comparison.named
                if name in p.accesses
            ),
        )
        for name in names
    ]
    everything = tuple(AccessRow(label, p.total, _share(p.total, p.total)) for label, p in comparison.named)
    return (*kinds, AccessKind("All", "all of the above", everything)) if names else ()


def _share(part: Total, whole: Total) -> float | None:
    return None if part.wavefronts is None or not whole.wavefronts else 100 * part.wavefronts / whole.wavefronts


def phantoms(comparison: Comparison) -> dict[str, str]:
    """Return the phantom conflicts that hardware counters claim for profiles without excess, by label."""
    counters = [row for row in comparison.metrics.iterrows() if str(row[0]).startswith(COUNTER)]
    claims = {
        label: ", ".join(
            f"{text.count(row[label])} {str(title).removeprefix(COUNTER)}"
            for title, row in counters
            if text.finite(row[label])
        )
        for label, profile in comparison.named
        if profile.total.excessive == 0
    }
    return {label: counts for label, counts in claims.items() if counts}


# Instructions that access shared memory.

MOST_ROWS = 3_000  # of all profiles together
MOST_FRAMES = 30  # of an instruction's lines
NOT_STALLED = frozenset({"selected"})  # the warp issued


@dataclass(frozen=True, kw_only=True)
class InstructionTable:
    """One profile's instructions that access shared memory, worst first; offsets are from `start`."""

    label: str
    rows: tuple[Instruction, ...]
    start: int
    left_out: int = 0


def instructions(comparison: Comparison) -> tuple[InstructionTable, ...]:
    """Return a table for each profile that has such instructions: the worst, if there are many."""
    room = MOST_ROWS // len(comparison.profiles)
    tables = []
    for label, profile in comparison.named:
        rows = sorted(
            (i for i in profile.instructions if i.access),
            key=lambda i: (-(i.excessive or 0), -(i.wavefronts or 0), i.pc),
        )
        start = min((i.pc for i in profile.instructions), default=0)
        left_out = max(0, len(rows) - room)
        tables.append(InstructionTable(label=label, rows=tuple(rows[:room]), start=start, left_out=left_out))
    return tuple(table for table in tables if table.rows)


def source_of(instruction: Instruction) -> str:
    """Return an instruction's line and the lines it was inlined into."""
    shown = [f"{text.shortened(file)}:{line}" for file, line in instruction.stack[:MOST_FRAMES]]
    more = len(instruction.stack) - len(shown)
    return " ← ".join([*shown, f"{more} more"] if more else shown)


def lines_by_offset(profile: Profile) -> dict[int, str]:
    """Return the lines of a profile's instructions by their offset."""
    return {instruction.pc: source_of(instruction) for instruction in profile.instructions}


def top_stall(instruction: Instruction) -> str:
    """Return the reason that most of an instruction's samples have, and its share; empty without stalls."""
    stalled = {reason: n for reason, n in instruction.samples.items() if reason not in NOT_STALLED and n}
    if not stalled:
        return ""
    top = max(stalled, key=lambda reason: (stalled[reason], reason))
    return f"{top} {text.percent(100 * stalled[top] / instruction.all_samples)}"


# What a page cannot show without each required metric.

MEANINGS = {
    WAVEFRONTS: "wavefronts per instruction and source line",
    IDEAL: "ideal wavefronts, hence excess and degree",
    EXECUTED: "execution count per instruction",
    DURATION: "the duration",
    STALLED + "selected": "warp stall samples per source line",
}


def missing_rows(profile: Profile) -> list[str]:
    """Return the titles of the metric table's rows that a report has no value for."""
    return [title for title, _, get in METRICS if get(profile) is None]


# Warp stalls: the reasons per profile, and what replaced a stall that shrank.

MINOR_STALL = 1.0  # percent; a reason below this in every profile is folded
MOVED = 1.0  # percentage points; smaller changes are not mentioned
GAINERS = 3


class StallRow(NamedTuple):
    """One stall reason: its share of each profile's samples in percent, None for a profile without samples."""

    reason: str
    shares: tuple[float | None, ...]

    @property
    def moved(self) -> float | None:
        """The change from the first to the second, in percentage points; None if unknown."""
        first, second = self.shares[:2] if len(self.shares) > 1 else (None, None)
        return None if first is None or second is None else second - first


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """The major and minor reasons, a summary in words, and the largest change, which bars are relative to."""

    sentences: tuple[str, ...]
    major: tuple[StallRow, ...]
    minor: tuple[StallRow, ...]
    widest: float


def _reasons() -> ModuleType:
    return pack.pack("stalls")


def meaning(reason: str) -> str:
    """Describe a stall reason briefly; empty if it is unknown."""
    return str(_reasons().REASONS.get(reason, ""))


def stalls(comparison: Comparison) -> Stalls:
    """Return the stall reasons in the comparison's order, the largest change first."""
    rows = [
        StallRow(str(reason), tuple(row[label] if p.all_samples else None for label, p in comparison.named))
        for reason, row in comparison.stalls.iterrows()
    ]
    major = [row for row in rows if max(share or 0.0 for share in row.shares) >= MINOR_STALL]
    caution = text.few_samples_caution(comparison)
    return Stalls(
        sentences=(caution,) if caution else tuple(_stall_sentences(comparison, rows)),
        major=tuple(major),
        minor=tuple(row for row in rows if row not in major),
        widest=max((abs(row.moved or 0.0) for row in rows), default=0.0),
    )


def _stall_sentences(comparison: Comparison, rows: Sequence[StallRow]) -> Iterator[str]:
    """Describe what shrank most (in share and time), what took its place, and which wait is largest now."""
    moves = [(row, row.moved) for row in rows if row.moved is not None]
    if not moves:
        return
    before, after = comparison.labels[:2]
    less = [row for row, moved in moves if moved <= -MOVED]
    more = [row for row, moved in moves if moved >= MOVED]
    if not less and not more:
        yield f"No stall reason changed by {MOVED:.0f} percentage point or more from {before} to {after}."
        return
    if less:
        reason, shares = less[0]
        yield (
            f"{reason} fell from {text.percent(shares[0])} of {before}'s samples to {text.percent(shares[1])} of "
            f"{after}'s{_in_time(comparison, shares)}."
        )
    if more:
        gained = [f"{row.reason} ({text.points(*row.shares[:2])})" for row in more[:GAINERS]]
        yield f"{text.in_a_list(gained)} grew instead."
    waits = [(row.reason, row.shares[1] or 0.0) for row, _ in moves if row.reason not in _reasons().HEALTHY]
    reason, share = max(waits, key=lambda entry: entry[1], default=("", 0.0))
    if share >= MINOR_STALL:
        why = f": {meaning(reason)}" if meaning(reason) else ""
        yield f"{after} stalls most on {reason}, {text.percent(share)}{why}."


def _in_time(comparison: Comparison, shares: Sequence[float | None]) -> str:
    """Return share times duration, before and after, as a clause; empty if a duration is unknown."""
    times = [text.finite(profile.duration_ns) for profile in comparison.profiles[:2]]
    spent = [
        f"{text.fixed(share / 100 * ns * 1e-6, 3)} ms"
        for share, ns in zip(shares, times, strict=False)
        if share is not None and ns is not None
    ]
    return f", or {spent[0]} → {spent[1]} of the duration" if len(spent) == 2 else ""
