"""Launches that wait for latency: the average utilization of the shared-memory pipe does not tell what conflicts cost.

The estimate in `cost` was fitted to launches that fill the GPU for 44 us and longer. Three kinds of launches lie
outside that range: those that leave SMs idle, so that averages over all SMs understate the busy ones; those of a few
microseconds, which are largely start and end; and those with few warps per scheduler and a pipe that is hardly busy,
which hide little of the latency that a conflict adds.

In these, warps wait for the pipe in phase, and the time that the busiest SM's pipe spends on excessive wavefronts is
almost all exposed: a fix saves that much, as far as warps are seen to wait for shared memory, or at a barrier for a
warp that does. It saves less where the conflicts overlap with the launch's start and end, or where the fix itself costs
instructions. The constants were fitted to the pairs of bench/pairs; docs/rules.md has the table.
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
GLOBAL = "long_scoreboard"
SHORT_NS = 20_000.0
SCHEDULERS = 4  # per SM
FEW_WARPS = 4.0  # per scheduler
IDLE_PIPE = 0.60  # with few warps, the estimate was fitted to launches above
LONE_WARPS = 1.5  # resident per SM; below, hardly a warp fills the gaps of another
LONE_CYCLES = 2.0  # that a lone warp waits per wavefront: 1.6 and 1.8 measured on an H100, 0.8 with two warps
LEAST = 0.90  # of the exposed excess, the part that a fix saves at least
OVERLAP_NS = 1100.0  # less, for conflicts that overlap with the launch's start and end
FIX_COSTS = 0.05  # and less, for the fix's own instructions
NOISE_NS = 100.0  # by which two durations of ncu's differ without a reason
WORST_FIX = -0.12  # a fix costs no more than that: two of 52 pairs lose 8 to 11 %
MARGIN = 0.02  # what a fix may save beyond the exposed excess
FOLLOWING = 0.5  # of the waits for global memory while the pipe is busy, what may be waits for it: loads use it, too


@dataclass(frozen=True)
class Doubt:
    """Why a launch's savings cannot be estimated."""

    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Waiting:
    """The fraction of the duration that warps spend on excessive wavefronts, and so what a fix saves."""

    point: float
    low: float
    high: float


def busiest(facts: Facts) -> float | None:
    """Return the pipe's utilization; if SMs have no block, that of the busiest SM."""
    share = facts.share(PIPE)
    return max(share or 0.0, facts.share(BUSIEST) or 0.0) if _idle(facts) and share is not None else share


def reasons(facts: Facts) -> tuple[str, ...]:
    """Return why the launch lies outside what the estimate was fitted to; empty if it does not."""
    return tuple(_reasons(facts))


def waiting(facts: Facts, removed: int) -> Waiting | Doubt | None:
    """Return what removing so many wavefronts saves, going by the warps that wait; None if the report lacks metrics.

    Doubt if there are too few samples to tell.
    """
    stalls, busy, duration = facts.stalls(), busiest(facts), facts.number(DURATION)
    if busy is None or not duration or facts.total.wavefronts <= 0:
        return None
    samples = sum(stalls.values())
    if samples < FEW_SAMPLES or not facts.instructions:
        counted = f"only {samples} warp sample{'s' * (samples != 1)}" if samples else "no warp samples"
        return Doubt((*_reasons(facts), f"there are {counted} to tell how long warps wait"))
    occupied = min(1.0, busy * (LONE_CYCLES if _lone(facts) else 1.0)) * removed / facts.total.wavefronts
    waits = sum(stalls.get(reason, 0) for reason in (*WAITS, INDIRECT)) / samples
    follow = FOLLOWING * busy * stalls.get(GLOBAL, 0) / samples
    exposed, most = min(occupied, waits), min(occupied, waits + follow)
    low = LEAST * exposed - FIX_COSTS - OVERLAP_NS / duration
    return Waiting((LEAST + 1) / 2 * exposed, max(low, WORST_FIX), min(1.0, most + MARGIN + NOISE_NS / duration))


def _reasons(facts: Facts) -> Iterator[str]:
    duration, idle = facts.number(DURATION), _idle(facts)
    if idle:
        yield f"its grid leaves {idle} SMs idle"
    if duration is not None and 0 < duration < SHORT_NS:
        yield f"it takes only {duration / 1000:.1f} us with its start and end"
    busy, warps = facts.share(PIPE), _warps(facts)
    if busy is not None and warps is not None and busy < IDLE_PIPE and warps <= FEW_WARPS:
        yield f"{warps:.1f} warps per scheduler hide little latency, with the pipe {percent(busy)} busy"


def _idle(facts: Facts) -> int:
    """Return how many SMs have no block of the launch; 0 if unknown."""
    blocks, sms = facts.number(BLOCKS), facts.number(SMS)
    return int(sms - blocks) if blocks is not None and sms is not None and 0 < blocks < sms else 0


def _lone(facts: Facts) -> bool:
    """Return whether SMs have hardly more than one warp at a time."""
    warps = _warps(facts)
    return warps is not None and warps * SCHEDULERS < LONE_WARPS


def _warps(facts: Facts) -> float | None:
    """Return the resident warps per scheduler, averaged over the active cycles."""
    occupancy, most = facts.share(OCCUPANCY), facts.number(MOST_WARPS)
    return occupancy * most if occupancy is not None and most is not None and most > 0 else None
