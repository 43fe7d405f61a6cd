"""ConflictCost: the time that the excessive wavefronts cost, as a point estimate with an interval of stated coverage.

The shared-memory pipe takes one wavefront per cycle, so the excess takes a known share of its time: what a fix frees.
How much of that a launch gains depends on how much of it is exposed, and that shows in what its warps wait for. The
share is linear in few facts that ncu measures; bench/figures/calibration.py fits it to pairs of launches before and
after one change of layout, by program, and the width of the interval to the errors on other programs (`calibration`).
So an interval holds for nine in ten programs that are like those, and there is none for a launch that is not.

Exact are two bounds: no fix makes a kernel faster than DRAM, L2, the tensor pipe or the issue slots allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swizzle_pack import calibration
from swizzle_pack.facts import FEW_SAMPLES, PIPE, Facts, Simulation, grouped
from swizzle_pack.finding import (
    FEW_SAMPLES_TAKEN,
    OK,
    OPTIMIZATION,
    UNLIKE,
    WARNING,
    Finding,
    Focus,
    Table,
    listed,
    percent,
)

RULE = "ConflictCost"
MATTERS = 0.01  # below this share of the duration, a fix is not worthwhile
TITLE = "What The Conflicts Cost"
HEADS = ("Access", "Excessive", "Estimate", "At least", "At most")

DURATION = "gpu__time_duration.sum"  # ns
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
MOST_WARPS = "device__attribute_max_warps_per_scheduler"
CAPABILITY = tuple(f"device__attribute_compute_capability_{part}" for part in ("major", "minor"))
BUSIEST = PIPE.replace(".sum.", ".max.")  # of all SMs: averages understate the busy ones if others have no block

WAITS = ("short_scoreboard", "mio_throttle")  # the stalls caused by a busy shared-memory pipe
INDIRECT = "barrier"  # waiting for a warp that may wait for shared memory
GLOBAL = "long_scoreboard"  # these loads return through the same pipe
SCHEDULERS = 4  # per SM
LONE_WARPS = 1.5  # resident per SM; below, hardly a warp fills the gaps of another
LONE_CYCLES = 2.0  # that a lone warp waits per wavefront: 1.6 and 1.8 measured on an H100, 0.8 with two warps
LEAST_SPREAD = 0.02  # what two measurements of a launch of microseconds differ by
NEAR = 0.9  # of its peak, which the next bottleneck has after the fix
UNEVEN = 1.1  # times the average, which the busiest SM has where that is worth saying
TMA = "tiles of TMA"
PART = 0.1  # of the excess: a kind of access with less does not decide whether the launch is like those measured

# Other limits of a kernel, and the share of its peak that kernels reach: DRAM-bound ones have 75 to 88 % on an H100.
BOTTLENECKS = (
    ("DRAM", "dram__bytes.sum.pct_of_peak_sustained_elapsed", 0.85),
    ("L2", "lts__t_sectors.sum.pct_of_peak_sustained_elapsed", 1.0),
    ("the tensor pipe", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 1.0),
    ("issue slots", "smsp__issue_active.avg.pct_of_peak_sustained_active", 1.0),
)


# Units of a simulation, in words.
UNIT_NAMES = {
    "shared": "the shared-memory pipe",
    "l2": "L2",
    "dram": "DRAM",
    "tensor": "the tensor pipe",
    "issue": "the issue slots",
}


@dataclass(frozen=True)
class Doubt:
    """Why a launch's savings cannot be estimated."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What the estimate is made from: shares of the duration or of the warp samples, from 0 to 1.

    `freed` is the pipe's time for the wavefronts to remove, on the busiest SM; `waits` are samples at shared memory or
    a barrier, `loads` those at global memory. `room` is what the other units leave, and no fix saves more; `reached`
    what they leave at the share of their peak that kernels reach.
    """

    freed: float
    waits: float
    loads: float
    room: float
    reached: float

    @property
    def terms(self) -> tuple[float, ...]:
        """The terms whose weighted sum is the saving; all vanish with the excess."""
        return (self.freed, self.freed * self.waits, self.freed * self.freed, self.freed * self.loads)

    @property
    def hidden(self) -> float:
        """The freed time that no warp is seen to wait for: what of it is gained is least known."""
        return max(0.0, self.freed - self.waits)


@dataclass(frozen=True)
class Estimate:
    """The fraction of the duration that a fix saves: point, interval, and the next bottleneck if one is near."""

    point: float
    low: float
    high: float
    bottleneck: str = ""


def estimate(facts: Facts, removed: int) -> Estimate | Doubt | None:
    """Return what removing so many wavefronts saves, or why that is unknown; None if the report lacks the metrics."""
    found = traits(facts, removed)
    reasons = () if found is None else tuple(_unlike(facts))
    if found is None or reasons:
        return Doubt(reasons) if reasons else None
    gained = sum(weight * term for weight, term in zip(calibration.SAVED, found.terms, strict=True))
    point = min(gained, found.reached)
    always, hidden = calibration.SPREAD
    spread = calibration.FACTOR * max(LEAST_SPREAD, always + hidden * found.hidden)
    near, name = max(((share / reached, name) for name, share, reached in _limits(facts)), default=(0.0, ""))
    return Estimate(
        point, point - spread, max(point, min(point + spread, found.room)), name if near >= NEAR * (1 - point) else ""
    )


def traits(facts: Facts, removed: int) -> Traits | None:
    """Return what the estimate is made from; None if the report lacks the pipe's utilization or has no wavefronts."""
    average, total = facts.share(PIPE), facts.total
    if average is None or total.wavefronts <= 0:
        return None
    stalls, occupancy, most = facts.stalls(), facts.share(OCCUPANCY), facts.number(MOST_WARPS)
    samples = max(1, sum(stalls.values()))
    lone = occupancy is not None and most is not None and 0 < occupancy * most * SCHEDULERS < LONE_WARPS
    busy = max(average, facts.share(BUSIEST) or 0.0) * (LONE_CYCLES if lone else 1.0)
    return Traits(
        freed=min(1.0, busy) * removed / total.wavefronts,
        waits=sum(stalls.get(reason, 0) for reason in (*WAITS, INDIRECT)) / samples,
        loads=stalls.get(GLOBAL, 0) / samples,
        room=max(0.0, 1 - max((share for _, share, _ in _limits(facts)), default=0.0)),
        reached=max(0.0, 1 - max((share / reached for _, share, reached in _limits(facts)), default=0.0)),
    )


def _limits(facts: Facts) -> list[tuple[str, float, float]]:
    """Return the other limits of which the report knows the share, and what kernels reach of them."""
    known = [(name, facts.share(metric), reached) for name, metric, reached in BOTTLENECKS]
    return [(name, share, reached) for name, share, reached in known if share is not None]


def _unlike(facts: Facts) -> Iterator[str]:
    """Yield why the launch is unlike those that the estimate was calibrated with."""
    samples, duration = sum(facts.stalls().values()), facts.number(DURATION)
    if samples < FEW_SAMPLES or not facts.instructions:
        counted = f"only {samples} warp sample{'s' * (samples != 1)}" if samples else "no warp samples"
        yield f"there are {counted} to tell how long warps wait"
    if duration is not None and duration < calibration.SHORTEST_NS:
        shortest = calibration.SHORTEST_NS / 1000
        yield f"it takes {duration / 1000:.1f} us, and the shortest launch measured took {shortest:.1f} us"
    capability = tuple(facts.number(name) for name in CAPABILITY)
    if None not in capability and capability != calibration.CAPABILITY:
        on, measured = (".".join(f"{part:.0f}" for part in parts) for parts in (capability, calibration.CAPABILITY))
        yield f"it ran on compute capability {on}, and only {measured} was measured"
    kinds = [kind for kind in conflicting(facts) if kind not in calibration.KINDS]
    if kinds:
        yield f"too few programs were measured whose conflicts are in {listed(kinds)}"


def conflicting(facts: Facts) -> list[str]:
    """Return the kinds of access with a good part of the excess, and TMA: its swizzles need other, narrower boxes."""
    kinds = grouped(facts.accesses(), lambda i: i.access)
    least = PART * facts.total.excessive
    copies = [TMA] if any(i.opcode.startswith("UTMALDG") for i in facts.instructions) else []
    return [kind for kind, counts in kinds.items() if counts.excessive > least] + copies


def decide(facts: Facts) -> list[Finding]:
    """Return what the excess costs in total and by access kind; nothing if there is no excess.

    What was measured of a launch says it more closely than a simulation, which needs no counters.
    """
    excess, simulation = facts.total.excessive, facts.simulation
    whole = estimate(facts, excess) if excess > 0 else None
    if excess > 0 and simulation and simulation.saved and not isinstance(whole, Estimate):
        return [_simulated(simulation, simulation.saved)]
    if whole is None and excess > 0 and simulation and simulation.lacking:
        message = f"There is no estimate of what removing the excess would save: {simulation.lacking}."
        return [Finding(RULE, WARNING, TITLE, message, code=UNLIKE)]
    if whole is None:
        return []
    focus = (Focus(PIPE, facts.number(PIPE) or 0.0, "utilization of the shared-memory pipe"),)
    if isinstance(whole, Doubt):
        message = (
            f"{_state(facts)} What removing the excess would save cannot be estimated: {'; '.join(whole.reasons)}."
        )
        code = FEW_SAMPLES_TAKEN if sum(facts.stalls().values()) < FEW_SAMPLES else UNLIKE
        return [Finding(RULE, WARNING, TITLE, message, focus=focus, code=code)]
    kinds, saved = grouped(facts.accesses(), lambda i: i.access), (whole.point, whole.low, whole.high)
    rows = [
        (kind, part.excessive, *(round(100 * value * part.excessive / excess, 2) for value in saved))
        for kind, part in kinds.items()
        if part.excessive > 0
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


def _simulated(simulation: Simulation, saved: tuple[float, float, float]) -> Finding:
    """Return what removing the excess saves by a simulation."""
    point, low, high = saved
    interval = f"between {_points(100 * low)} and {_points(100 * high)}"
    message = (
        f"On an H100, removing the excess would save an estimated {percent(point)} of the cycles ({interval}, which "
        f"holds for {percent(simulation.coverage)} of programs): simulated, not measured."
        if point >= MATTERS
        else f"On an H100, removing the excess would save next to no time ({interval}): simulated, not measured."
    )
    if simulation.cycles:
        cycles, least, most = simulation.cycles
        message += (
            f" The launch takes about {cycles:,.0f} cycles ({least:,.0f} to {most:,.0f}); the busiest unit is "
            f"{UNIT_NAMES.get(simulation.unit, simulation.unit)}, {percent(simulation.used)} of the time."
        )
    rows = tuple((line, round(100 * share, 1), reason) for line, share, reason in simulation.lines)
    return Finding(
        RULE,
        OPTIMIZATION if point >= MATTERS else OK,
        TITLE,
        message,
        saving=round(100 * point, 2),
        low=round(100 * low, 2),
        high=round(100 * high, 2),
        tables=(Table("Where warps spend their time, simulated", ("Line", "% of it", "Mostly"), rows),) if rows else (),
    )


def _message(facts: Facts, whole: Estimate, parts: list[tuple[str, float]]) -> str:
    message = _state(facts)
    interval = (
        f"between {_points(100 * whole.low)} and {_points(100 * whole.high)}, "
        f"which holds for {percent(calibration.COVERAGE)} of programs"
    )
    if whole.point >= MATTERS:
        message += f" Removing the excess would save an estimated {percent(whole.point)} of the duration ({interval})."
    else:
        message += f" Removing the excess would save next to no time ({interval})."
    if len(parts) > 1:
        message += f" Of that: {listed([f'{kind} {_points(value)}' for kind, value in parts])}."
    if whole.bottleneck:
        message += f" The next bottleneck is then {whole.bottleneck}."
    return message


def _points(value: float) -> str:
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.1f}%"


def _state(facts: Facts) -> str:
    """Return how busy the pipe is and, if enough samples tell, how many warps wait for it."""
    average, busiest = facts.share(PIPE) or 0.0, facts.share(BUSIEST) or 0.0
    there = f", {percent(busiest)} on the busiest SM" if busiest > UNEVEN * average else ""
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
