"""What a chart marks: each point, or of very many the median of neighbouring ones; and which charts there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from ncu_swizzle.sweep.table import PointRow
from ncu_swizzle.texts import in_words

MOST_POINTS = 1000  # of a page that shows each
BINS = 40  # of a line that stands for more

Get = Callable[[PointRow], "float | None"]
Show = Callable[[float], str]


@dataclass(frozen=True)
class Sample:
    """A value at a size; None where nothing is known, which breaks the line."""

    size: int
    value: float | None
    tip: str


def samples(rows: Sequence[PointRow], axis: str, get: Get, show: Show) -> list[Sample]:
    """Return what one variant's line shows, by size."""
    ordered = sorted(rows, key=lambda row: row.outcome.point.sizes[axis])
    each = [(row.outcome.point.sizes[axis], get(row)) for row in ordered]
    return [Sample(size, value, "" if value is None else f"{axis}={size:,}: {show(value)}") for size, value in each]


def medians(rows: Sequence[PointRow], axis: str, get: Get, show: Show) -> list[Sample]:
    """Return the same of very many points: the median of those with the nearest sizes, whatever their other sizes."""
    values: dict[int, list[float]] = {}
    for row in rows:
        if (value := get(row)) is not None:
            values.setdefault(row.outcome.point.sizes[axis], []).append(value)
    sizes = sorted(values)
    step = max(1, -(-len(sizes) // BINS))
    found = []
    for start in range(0, len(sizes), step):
        near = sizes[start : start + step]
        held = sorted(value for size in near for value in values[size])
        middle = median_low(held)
        span = f"{near[0]:,}" if len(near) == 1 else f"{near[0]:,} to {near[-1]:,}"
        tip = f"{axis}={span}: median {show(middle)} of {len(held):,} points, {show(held[0])} to {show(held[-1])}"
        found.append(Sample(median_low(near), middle, tip))
    return found


def grouped(rows: Sequence[PointRow], others: Sequence[str], merged: bool) -> Mapping[str, list[PointRow]]:
    """Return the rows of each set of charts by its title: per GPU, and per combination of the sizes not on the axis.

    Of very many points all combinations share their charts.
    """
    machines = list(dict.fromkeys(_machine(row) for row in rows if row.values))
    sets: dict[str, list[PointRow]] = {}
    for row in rows:
        machine = _machine(row) if row.values else (machines or [""])[0]
        sizes = "" if merged else in_words({name: row.outcome.point.sizes[name] for name in others})
        title = ", ".join(part for part in (machine if len(machines) > 1 else "", sizes) if part)
        sets.setdefault(title, []).append(row)
    return sets


def _machine(row: PointRow) -> str:
    """Return the GPU, driver, ncu and clock mode of a point in words."""
    assert row.values is not None
    machine = row.values.machine
    named = (("", machine.gpu), ("driver ", machine.driver), ("ncu ", machine.ncu), ("clocks: ", machine.clock_control))
    return ", ".join(f"{what}{value}" for what, value in named if value)
