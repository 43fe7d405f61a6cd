"""ConflictCost: the time that the excessive wavefronts cost, as a point estimate with an interval.

The shared-memory pipe takes one wavefront per cycle, so the excess takes a known share of its time. Four things
decide how much of that a fix saves:

- exposure: a pipe that is busy most of the time stalls everything else, a less busy one hides behind other stalls.
  Exposure rises with the pipe's utilization; the ramps below were fitted to the pairs in docs/rules.md and are an
  estimate, hence the interval.
- the next bottleneck: no fix makes a kernel faster than DRAM, L2, the tensor pipe or the issue slots allow.
- the fix's own cost: a few instructions; for a TMA tile a narrower box, and so more of them.

- the warps that wait: no fix saves more than they wait for the pipe.

Launches that wait for latency get a rough estimate from their stalls alone, or none; `latency` says which, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

from swizzle_pack import latency
from swizzle_pack.facts import FEW_SAMPLES, PIPE, Facts, grouped
from swizzle_pack.finding import FEW_SAMPLES_TAKEN, OK, OPTIMIZATION, WARNING, Finding, Focus, Table, listed, percent
from swizzle_pack.latency import WAITS, Doubt

RULE = "ConflictCost"
MATTERS = 0.01  # below this share of the duration, a fix is not worthwhile
TITLE = "What The Conflicts Cost"


@dataclass(frozen=True)
class Bottleneck:
    """Another limit of a kernel: its metric, and the share of its peak that kernels reach in practice.

    `poor` is the share that even an untuned kernel reaches.
    """

    name: str
    metric: str
    reached: float = 1.0
    poor: float = 1.0


# DRAM: catalogue kernels limited by nothing else reach 75 to 88 % of its peak on an H100.
BOTTLENECKS = (
    Bottleneck("DRAM", "dram__bytes.sum.pct_of_peak_sustained_elapsed", 0.85, 0.75),
    Bottleneck("L2", "lts__t_sectors.sum.pct_of_peak_sustained_elapsed"),
    Bottleneck("the tensor pipe", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    Bottleneck("issue slots", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
)

# Utilization of the shared-memory pipe at which its time starts to be exposed, and at which it fully is.
EXPOSED = (0.30, 0.80)
HARDLY_EXPOSED = (0.40, 0.90)
WELL_EXPOSED = (0.10, 0.50)
LATENCY = 0.05  # what shorter latencies may save beyond the pipe's time
FIX_COSTS = (0.0, 0.03)  # expected, and at most
TMA_FIX_COSTS = (0.03, 0.15)  # 2 to 9 % in the catalogue: a narrower swizzle needs narrower boxes, hence more of them


@dataclass(frozen=True)
class Estimate:
    """The fraction of the duration that a fix saves: point, interval, and the next bottleneck if that limits it.

    `rough` says why the launch lies outside what the estimate was fitted to.
    """

    point: float
    low: float
    high: float
    bottleneck: str = ""
    rough: tuple[str, ...] = ()


def estimate(facts: Facts, removed: int) -> Estimate | Doubt | None:
    """Return what removing so many wavefronts saves, or why that is unknown; None if the report lacks the metrics."""
    by_pipe, waiting, reasons = _by_pipe(facts, removed), latency.waiting(facts, removed), latency.reasons(facts)
    if by_pipe is None or waiting is None:
        return by_pipe
    if isinstance(waiting, Doubt):
        return waiting if reasons else by_pipe
    if reasons:
        return Estimate(waiting.point, waiting.low, waiting.high, rough=reasons)
    point, high = min(by_pipe.point, waiting.point), min(by_pipe.high, waiting.high)
    low = min(by_pipe.low, waiting.low)
    bottleneck = by_pipe.bottleneck if by_pipe.point <= waiting.point else ""
    return Estimate(min(point, high), min(low, point, high), high, bottleneck)


def _by_pipe(facts: Facts, removed: int) -> Estimate | None:
    """Return what removing so many wavefronts saves, going by the utilization of the pipe."""
    busy, total = latency.busiest(facts), facts.total
    if busy is None or total.wavefronts <= 0:
        return None
    busy = min(busy, 1.0)
    freed = busy * removed / total.wavefronts
    limits = [(share, limit) for limit in BOTTLENECKS if (share := facts.share(limit.metric)) is not None]
    weight = removed / total.excessive if total.excessive > 0 else 0.0  # part of the excess, part of the fix
    expected, most = (weight * cost for cost in (TMA_FIX_COSTS if _has_tma(facts) else FIX_COSTS))
    floor, name = max([(share / limit.reached, limit.name) for share, limit in limits], default=(0.0, ""))
    room = max(0.0, 1 - floor)
    gained = _exposure(busy, EXPOSED) * freed
    point = min(gained, room) - expected
    low = min(
        _exposure(busy, HARDLY_EXPOSED) * freed, *(max(0.0, 1 - share / limit.poor) for share, limit in limits), 1.0
    )
    high = min(
        _exposure(busy, WELL_EXPOSED) * freed + LATENCY * min(1.0, 2 * weight),
        *(1 - share for share, _ in limits),
        1 - busy + freed,
    )
    return Estimate(point, min(low - most, point), max(high, point), name if gained > room else "")


def _has_tma(facts: Facts) -> bool:
    return any(i.opcode.startswith("UTMALDG") for i in facts.instructions)


def _exposure(busy: float, ramp: tuple[float, float]) -> float:
    start, end = ramp
    return min(1.0, max(0.0, (busy - start) / (end - start)))


def decide(facts: Facts) -> list[Finding]:
    """Return what the excess costs in total and by access kind; nothing if there is no excess."""
    excess = facts.total.excessive
    whole = estimate(facts, excess) if excess > 0 else None
    if whole is None:
        return []
    focus = (Focus(PIPE, facts.number(PIPE) or 0.0, "utilization of the shared-memory pipe"),)
    if isinstance(whole, Doubt):
        message = (
            f"{_state(facts)} What removing the excess would save cannot be estimated: {'; '.join(whole.reasons)}."
        )
        return [Finding(RULE, WARNING, TITLE, message, focus=focus, code=FEW_SAMPLES_TAKEN)]
    kinds = grouped(facts.accesses(), lambda i: i.access)
    parts = [(kind, counts.excessive, estimate(facts, counts.excessive)) for kind, counts in kinds.items()]
    rows = [
        (kind, removed, *(round(100 * value, 2) for value in (part.point, part.low, part.high)))
        for kind, removed, part in parts
        if removed > 0 and isinstance(part, Estimate)
    ]
    return [
        Finding(
            RULE,
            OPTIMIZATION if whole.point >= MATTERS else OK,
            TITLE,
            _message(facts, whole, [(str(row[0]), float(row[2])) for row in rows]),
            saving=round(100 * whole.point, 2),
            low=round(100 * whole.low, 2),
            high=round(100 * whole.high, 2),
            focus=focus,
            tables=(Table("Time saved by removing the excess, %", HEADS, tuple(rows)),) if len(rows) > 1 else (),
        )
    ]


HEADS = ("Access", "Excessive", "Estimate", "At least", "At most")


def _message(facts: Facts, whole: Estimate, parts: list[tuple[str, float]]) -> str:
    message = _state(facts)
    interval = f"between {_points(100 * whole.low)} and {_points(100 * whole.high)}"
    if whole.point >= MATTERS:
        message += f" Removing the excess would save an estimated {percent(whole.point)} of the duration ({interval})."
    else:
        message += f" Removing the excess would save next to no time ({interval})."
    if whole.rough:
        message += f" This is rough, because the launch waits for latency: {'; '.join(whole.rough)}."
    if len(parts) > 1:
        message += f" Of that: {listed([f'{kind} {_points(value)}' for kind, value in parts])}."
    if whole.bottleneck:
        message += f" The next bottleneck is then {whole.bottleneck}."
    return message


def _points(value: float) -> str:
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.1f}%"


def _state(facts: Facts) -> str:
    """Return how busy the pipe is and, if enough samples tell, how many warps wait for it."""
    average, busiest = facts.share(PIPE) or 0.0, latency.busiest(facts) or 0.0
    there = f", {percent(busiest)} on the busiest SM" if busiest > average else ""
    message = f"The shared-memory pipe is busy {percent(average)} of the time{there}."
    stalls = facts.stalls()
    samples = sum(stalls.values())
    if samples < FEW_SAMPLES:
        return message
    shares = [f"{reason} has {percent(stalls.get(reason, 0) / samples)}" for reason in WAITS]
    conflicted = sum(sum(i.samples.values()) for i in facts.excessive())
    return (
        f"{message} Of the {samples:,} warp samples, {listed(shares)}; {percent(conflicted / samples)} are at the "
        "conflicting accesses themselves, the others at instructions waiting for their data."
    )
