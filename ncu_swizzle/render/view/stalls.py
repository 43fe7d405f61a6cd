"""Warp stall reasons per profile, and what replaced a stall that shrank."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.render.view import sampling, text
from ncu_swizzle.render.view.tables import Share

MINOR_STALL = 1.0  # percent; a reason below this in every profile is folded
MOVED = 1.0  # percentage points; smaller changes are not mentioned
GAINERS = 3


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Stalls:
    """The major and minor stall reasons, a summary in words, and how many samples each profile has."""

    sampled: tuple[sampling.Sampled, ...]
    sentences: tuple[str, ...]
    major: tuple[StallRow, ...]
    minor: tuple[StallRow, ...]


def meaning(reason: str) -> str:
    """Return what a stall reason means, in a few words; empty if it is unknown."""
    return str(_reasons().REASONS.get(reason, ""))


def _reasons() -> ModuleType:
    return bridge.pack("stalls")


def stalls(comparison: Comparison) -> Stalls:
    """Return the stall reasons in the comparison's order, the largest change first."""
    sampled = sampling.sampled(comparison)
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
        sentences=(caution,) if (caution := sampling.caution(sampled)) else _sentences(comparison, table),
        major=tuple(row for most, row in rows if most >= MINOR_STALL),
        minor=tuple(row for most, row in rows if most < MINOR_STALL),
    )


def _moved(shares: list[float | None]) -> float | None:
    """Return the change from the first to the second in percentage points; None if unknown."""
    if len(shares) < 2 or shares[0] is None or shares[1] is None:
        return None
    return shares[1] - shares[0]


def _stall(reason: str, shares: list[float | None], widest: float, sampled: tuple[sampling.Sampled, ...]) -> StallRow:
    return StallRow(
        reason,
        meaning(reason),
        tuple(
            Share(text.percent(share), text.width(share, 100), counted.few)
            for share, counted in zip(shares, sampled, strict=True)
        ),
        text.points(shares[0], shares[1]) if len(shares) > 1 else "",
        text.delta(_moved(shares), widest),
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
