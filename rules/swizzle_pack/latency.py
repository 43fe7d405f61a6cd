"""Launches that wait for latency: the utilization of the shared-memory pipe does not tell what their conflicts cost.

The estimate in `cost` was fitted to launches that fill the GPU for 44 us and longer. Three kinds of launches lie
outside that range: those that leave SMs idle, so that averages over all SMs understate the busy ones; those of a few
microseconds, which are largely start and end; and those with few warps per scheduler and a pipe that is hardly busy,
which hide little of the latency that a conflict adds. For these only an upper bound is known: the warp samples that
wait for shared memory, or at a barrier for a warp that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swizzle_pack.facts import FEW_SAMPLES, PIPE, Facts
from swizzle_pack.finding import percent

DURATION = "gpu__time_duration.sum"  # ns
BLOCKS = "launch__grid_size"
SMS = "device__attribute_multiprocessor_count"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
MOST_WARPS = "device__attribute_max_warps_per_scheduler"

WAITS = ("short_scoreboard", "mio_throttle")  # the stalls caused by a busy shared-memory pipe
INDIRECT = "barrier"  # waiting for a warp that may wait for shared memory
SHORT_NS = 20_000.0
FEW_WARPS = 4.0  # per scheduler
IDLE_PIPE = 0.60  # with few warps, the estimate was fitted to launches above
MARGIN = 0.05  # what shorter latencies may save beyond the stalls they cause


@dataclass(frozen=True)
class Doubt:
    """Why a launch's savings cannot be estimated; `most` is the largest possible one, None if that is unknown, too."""

    reasons: tuple[str, ...]
    most: float | None


def doubt(facts: Facts, high: float) -> Doubt | None:
    """Return why the estimate, at most `high` of the duration, does not hold; None if it does.

    Whatever the launch, an estimate holds if no more samples wait for shared memory than it allows for.
    """
    reasons = tuple(_reasons(facts))
    if not reasons:
        return None
    stalls = facts.stalls()
    samples = sum(stalls.values())
    if samples < FEW_SAMPLES:
        counted = f"only {samples} warp sample{'s' * (samples != 1)}" if samples else "no warp samples"
        return Doubt((*reasons, f"there are {counted} to tell how long warps wait"), None)
    waiting = sum(stalls.get(reason, 0) for reason in (*WAITS, INDIRECT)) / samples + MARGIN
    return Doubt(reasons, min(waiting, 1.0)) if waiting > high else None


def _reasons(facts: Facts) -> Iterator[str]:
    blocks, sms, duration = (facts.number(name) for name in (BLOCKS, SMS, DURATION))
    if blocks is not None and sms is not None and 0 < blocks < sms:
        yield f"its grid of {blocks:.0f} leaves {sms - blocks:.0f} of {sms:.0f} SMs idle"
    if duration is not None and 0 < duration < SHORT_NS:
        yield f"it takes only {duration / 1000:.1f} us with its start and end"
    busy, warps = facts.share(PIPE), _warps(facts)
    if busy is not None and warps is not None and busy < IDLE_PIPE and warps <= FEW_WARPS:
        yield f"{warps:.1f} warps per scheduler hide little latency, and the pipe is only {percent(busy)} busy"


def _warps(facts: Facts) -> float | None:
    """Return the resident warps per scheduler, averaged over the active cycles."""
    occupancy, most = facts.share(OCCUPANCY), facts.number(MOST_WARPS)
    return occupancy * most if occupancy is not None and most is not None and most > 0 else None


def explained(reasoned: Doubt) -> str:
    """Return the doubt as a sentence or two."""
    said = f"What removing the excess would save cannot be estimated here: {'; '.join(reasoned.reasons)}."
    if reasoned.most is None:
        return said
    return (
        f"{said} Going by the samples that wait for shared memory or at a barrier, it is at most "
        f"{percent(reasoned.most)} of the duration; only a trial tells how much."
    )
