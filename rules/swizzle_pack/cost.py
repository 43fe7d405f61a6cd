"""ConflictCost: what the excessive wavefronts cost, in time: a point and an interval.

The shared-memory pipe takes one wavefront per cycle, so the excess took a known share of its time. Three things
decide how much of that a fix gives back:

- how much of it was exposed: a pipe that is busy most of the time holds everything else up, one that is not works
  under other waits. The exposure rises with the pipe's utilisation; the ramps below were fitted to the pairs in
  docs/rules.md and are an estimate, which is why there is an interval.
- the next wall: no fix makes a kernel faster than DRAM, L2, the tensor pipe or the issue slots allow.
- what the fix itself costs: some instructions; for a TMA tile a narrower box, and so more of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from swizzle_pack import facts as known
from swizzle_pack.facts import PIPE, Facts
from swizzle_pack.finding import OK, OPTIMIZATION, Finding, Focus, Table, listed, percent

RULE = "ConflictCost"
MATTERS = 0.01  # a point estimate of less than this share of the duration is not worth a fix

WAITS = ("short_scoreboard", "mio_throttle")  # the stalls that a busy shared-memory pipe causes


@dataclass(frozen=True)
class Wall:
    """Something else that limits a kernel: its metric, and which share of its peak kernels reach in practice.

    `poor` is what a kernel that is not tuned for it still reaches.
    """

    name: str
    metric: str
    reached: float = 1.0
    poor: float = 1.0


# DRAM: kernels of the catalogue that nothing else limits reach 75 to 88 % of its peak on an H100.
WALLS = (
    Wall("DRAM", "dram__bytes.sum.pct_of_peak_sustained_elapsed", 0.85, 0.75),
    Wall("L2", "lts__t_sectors.sum.pct_of_peak_sustained_elapsed"),
    Wall("the tensor pipe", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    Wall("issue slots", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
)

# From which utilisation of the shared-memory pipe on its time is exposed, and from which on wholly.
EXPOSED = (0.30, 0.80)
HARDLY_EXPOSED = (0.40, 0.90)
WELL_EXPOSED = (0.10, 0.50)
LATENCY = 0.05  # what shorter waits may give beyond the pipe's time
FIX_COSTS = (0.0, 0.03)  # expected, and at most
TMA_FIX_COSTS = (0.03, 0.15)  # in the catalogue 2 to 9 %: a narrower swizzle takes narrower boxes, and so more of them


@dataclass(frozen=True)
class Estimate:
    """The share of the duration that a fix saves (of 1): the point, the interval, and what stands in the way then."""

    point: float
    low: float
    high: float
    wall: str = ""


def estimate(facts: Facts, removed: int) -> Estimate | None:
    """Return what removing so many wavefronts saves; None where the report lacks what that takes."""
    busy, total = facts.share(PIPE), facts.total
    if busy is None or total.wavefronts <= 0:
        return None
    busy = min(busy, 1.0)
    freed = busy * removed / total.wavefronts
    walls = [(share, wall) for wall in WALLS if (share := facts.share(wall.metric)) is not None]
    weight = removed / total.excessive if total.excessive > 0 else 0.0  # a part of the excess, a part of the fix
    expected, most = (weight * cost for cost in (TMA_FIX_COSTS if _has_tma(facts) else FIX_COSTS))
    floor, name = max([(share / wall.reached, wall.name) for share, wall in walls], default=(0.0, ""))
    room = max(0.0, 1 - floor)
    gained = _exposure(busy, EXPOSED) * freed
    point = min(gained, room) - expected
    low = min(_exposure(busy, HARDLY_EXPOSED) * freed, *(max(0.0, 1 - share / wall.poor) for share, wall in walls), 1.0)
    high = min(
        _exposure(busy, WELL_EXPOSED) * freed + LATENCY * min(1.0, 2 * weight),
        *(1 - share for share, _ in walls),
        1 - busy + freed,
    )
    return Estimate(point, min(low - most, point), max(high, point), name if gained > room else "")


def _has_tma(facts: Facts) -> bool:
    return any(one.opcode.startswith("UTMALDG") for one in facts.instructions)


def _exposure(busy: float, ramp: tuple[float, float]) -> float:
    start, end = ramp
    return min(1.0, max(0.0, (busy - start) / (end - start)))


def decide(facts: Facts) -> list[Finding]:
    """Return what the excess costs in total and by access kind; nothing where there is no excess."""
    excess = facts.total.excessive
    whole = estimate(facts, excess) if excess > 0 else None
    if whole is None:
        return []
    kinds = known.by(facts.accesses(), lambda one: one.access)
    parts = [(kind, counts.excessive, estimate(facts, counts.excessive)) for kind, counts in kinds.items()]
    rows = [
        (kind, removed, *(round(100 * value, 2) for value in (part.point, part.low, part.high)))
        for kind, removed, part in parts
        if removed > 0 and part is not None
    ]
    return [
        Finding(
            RULE,
            OPTIMIZATION if whole.point >= MATTERS else OK,
            "What The Conflicts Cost",
            _message(facts, whole, [(str(row[0]), float(row[2])) for row in rows]),
            saving=round(100 * whole.point, 2),
            low=round(100 * whole.low, 2),
            high=round(100 * whole.high, 2),
            focus=(Focus(PIPE, facts.number(PIPE) or 0.0, "how busy the shared-memory pipe is"),),
            tables=(Table("Time saved by removing the excess, %", HEADS, tuple(rows)),) if len(rows) > 1 else (),
        )
    ]


HEADS = ("Access", "Excessive", "Estimate", "At least", "At most")


def _message(facts: Facts, whole: Estimate, parts: list[tuple[str, float]]) -> str:
    said = f"The shared-memory pipe is busy {percent(facts.share(PIPE) or 0.0)} of the time."
    waits = _waits(facts)
    if waits:
        said += f" {waits}"
    interval = f"between {_points(100 * whole.low)} and {_points(100 * whole.high)}"
    if whole.point >= MATTERS:
        said += f" Removing the excess would save an estimated {percent(whole.point)} of the duration ({interval})."
    else:
        said += f" Removing the excess would save next to nothing of the duration ({interval})."
    if len(parts) > 1:
        said += f" Of that: {listed([f'{kind} {_points(value)}' for kind, value in parts])}."
    if whole.wall:
        said += f" What stands in the way then: {whole.wall}."
    return said


def _points(value: float) -> str:
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.1f}%"


def _waits(facts: Facts) -> str:
    stalls = facts.stalls()
    samples = sum(stalls.values())
    if not samples:
        return ""
    shares = [f"{reason} has {percent(stalls.get(reason, 0) / samples)}" for reason in WAITS]
    conflicted = sum(sum(one.samples.values()) for one in facts.excessive())
    return (
        f"Of the warp samples, {listed(shares)}; {percent(conflicted / samples)} were taken at the conflicting "
        "accesses themselves, the others where their data are awaited."
    )
