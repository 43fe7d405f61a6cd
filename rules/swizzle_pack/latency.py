"""Launches that wait for latency: the average utilization of the shared-memory pipe does not tell what conflicts cost.

The estimate in `cost` was fitted to launches that fill the GPU for 44 us and longer. Three kinds of launches lie
outside that range: those that leave SMs idle, so that averages over all SMs understate the busy ones; those of a few
microseconds, which are largely start and end; and those with few warps per scheduler and a pipe that is hardly busy,
which hide little of the latency that a conflict adds. For these, the warp samples tell how long warps wait for shared
memory, and the counts tell how much of such a wait is excess: a load waits for the pipe's latency and for its own
wavefronts, and a full queue waits for wavefronts only. The result is rough, and bounded by all samples that wait for
shared memory, or at a barrier for a warp that does.
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

BUSIEST = PIPE.replace(".sum.", ".max.")  # of all SMs

WAITS = ("short_scoreboard", "mio_throttle")  # the stalls caused by a busy shared-memory pipe
INDIRECT = "barrier"  # waiting for a warp that may wait for shared memory
SHORT_NS = 20_000.0
FEW_WARPS = 4.0  # per scheduler
IDLE_PIPE = 0.60  # with few warps, the estimate was fitted to launches above
NO_RESULT = ("ST", "LDGSTS")  # accesses that no instruction waits for by scoreboard
LATENCY_CYCLES = 30.0  # of a shared-memory load without conflicts, about, on sm_80 to sm_90
SPREAD = 1.6  # the interval, as a factor of the point, and beyond
SLACK = 0.02
MARGIN = 0.05  # what shorter latencies may save beyond the stalls they cause


@dataclass(frozen=True)
class Doubt:
    """Why a launch's savings cannot be estimated."""

    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Waiting:
    """The fraction of the duration that shorter waits would save; `most` bounds it, whatever the model."""

    point: float
    low: float
    high: float
    most: float


def busiest(facts: Facts) -> float | None:
    """Return the pipe's utilization; if SMs have no block, that of the busiest SM."""
    share = facts.share(PIPE)
    return max(share or 0.0, facts.share(BUSIEST) or 0.0) if _idle(facts) and share is not None else share


def reasons(facts: Facts) -> tuple[str, ...]:
    """Return why the launch lies outside what the estimate was fitted to; empty if it does not."""
    return tuple(_reasons(facts))


def waiting(facts: Facts, removed: int) -> Waiting | Doubt:
    """Return what removing so many wavefronts saves, going by the warp samples; Doubt if there are too few."""
    stalls, total = facts.stalls(), facts.total
    samples = sum(stalls.values())
    if samples < FEW_SAMPLES or not facts.instructions:
        counted = f"only {samples} warp sample{'s' * (samples != 1)}" if samples else "no warp samples"
        return Doubt((*_reasons(facts), f"there are {counted} to tell how long warps wait"))
    shares = {reason: stalls.get(reason, 0) / samples for reason in (*WAITS, INDIRECT)}
    returning = sum(i.executed for i in facts.accesses() if not i.access.startswith(NO_RESULT))
    of_load = removed / max(1.0, LATENCY_CYCLES * returning + total.wavefronts)
    of_queue = min(1.0, removed / max(1, total.wavefronts))
    point = min(1.0, shares[WAITS[0]] * of_load + shares[WAITS[1]] * of_queue)
    high = SPREAD * point + of_load * shares[INDIRECT] + SLACK
    return Waiting(point, point / SPREAD - SLACK, min(1.0, high), min(1.0, sum(shares.values()) + MARGIN))


def few_warps(facts: Facts) -> bool:
    """Return whether so few warps are resident that a wait is hardly hidden by other warps."""
    warps = _warps(facts)
    return warps is not None and warps <= FEW_WARPS


def _reasons(facts: Facts) -> Iterator[str]:
    duration, idle = facts.number(DURATION), _idle(facts)
    if idle:
        yield f"its grid leaves {idle} SMs idle"
    if duration is not None and 0 < duration < SHORT_NS:
        yield f"it takes only {duration / 1000:.1f} us with its start and end"
    busy, warps = facts.share(PIPE), _warps(facts)
    if busy is not None and warps is not None and busy < IDLE_PIPE and few_warps(facts):
        yield f"{warps:.1f} warps per scheduler hide little latency, with the pipe {percent(busy)} busy"


def _idle(facts: Facts) -> int:
    """Return how many SMs have no block of the launch; 0 if unknown."""
    blocks, sms = facts.number(BLOCKS), facts.number(SMS)
    return int(sms - blocks) if blocks is not None and sms is not None and 0 < blocks < sms else 0


def _warps(facts: Facts) -> float | None:
    """Return the resident warps per scheduler, averaged over the active cycles."""
    occupancy, most = facts.share(OCCUPANCY), facts.number(MOST_WARPS)
    return occupancy * most if occupancy is not None and most is not None and most > 0 else None
