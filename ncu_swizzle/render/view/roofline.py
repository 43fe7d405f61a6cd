"""The roofline: arithmetic against DRAM traffic, below what the GPU sustains of either.

The formulas are those of Nsight Compute's section SpeedOfLight_RooflineChart: work is adds, multiplies and twice the
fused multiply-adds, per cycle times cycles per second; its peak is twice the fused multiply-adds of every cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

PRECISIONS = (("single precision", "f"), ("double precision", "d"))
TRAFFIC = "dram__bytes.sum.per_second"
PEAK_TRAFFIC = ("dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 560, 300, 64, 12, 16, 40
MARGIN = 0.5  # decades around what is drawn
MOST_POINTS = 8


@dataclass(frozen=True)
class Spot:
    """One profile in one precision, and what it reaches of the roof above it."""

    rank: int
    x: int
    y: int
    label: str
    work: str
    intensity: str
    reached: str


@dataclass(frozen=True)
class Grade:
    """A power of ten on an axis."""

    at: int
    text: str


@dataclass(frozen=True)
class Roof:
    """A precision's roof as an SVG path: the memory's slope up to the ridge, then the peak."""

    name: str
    path: str
    peak: str
    y: int


@dataclass(frozen=True)
class Roofline:
    """The chart, ready to draw, and its spots as rows of a table."""

    width: int
    height: int
    left: int
    bottom: int
    roofs: tuple[Roof, ...]
    spots: tuple[Spot, ...]
    across: tuple[Grade, ...]
    up: tuple[Grade, ...]
    traffic: str


@dataclass(frozen=True)
class _Point:
    rank: int
    label: str
    precision: str
    work: float  # FLOP/s
    traffic: float  # bytes/s
    peak: float
    bandwidth: float

    @property
    def intensity(self) -> float:
        return self.work / self.traffic

    @property
    def roof(self) -> float:
        return min(self.peak, self.bandwidth * self.intensity)


@dataclass(frozen=True)
class _Axes:
    """Logarithmic scales: decades at the ends of either axis."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> int:
        return round(LEFT + _part(value, self.x) * (WIDTH - LEFT - RIGHT))

    def up(self, value: float) -> int:
        return round(HEIGHT - BOTTOM - _part(value, self.y) * (HEIGHT - TOP - BOTTOM))


def _part(value: float, ends: tuple[float, float]) -> float:
    return (math.log10(value) - ends[0]) / (ends[1] - ends[0])


def section(comparison: Comparison) -> Roofline | None:
    """Return the chart of the profiles that have the metrics and compute something; None if there are none."""
    named = list(enumerate(zip(comparison.labels, comparison.profiles, strict=True)))[:MOST_POINTS]
    points = [
        point
        for rank, (label, profile) in named
        for precision, letter in PRECISIONS
        if (point := _point(rank, label, profile, precision, letter)) is not None
    ]
    return _chart(points) if points else None


def _point(rank: int, label: str, profile: Profile, precision: str, letter: str) -> _Point | None:
    work, peak = _work(profile, letter), _peak_work(profile, letter)
    traffic, bandwidth = profile.number(TRAFFIC), _product(profile, *PEAK_TRAFFIC)
    if not work or not peak or not traffic or not bandwidth or min(work, peak, traffic, bandwidth) < 0:
        return None
    return _Point(rank, label, precision, work, traffic, peak, bandwidth)


def _work(profile: Profile, letter: str) -> float | None:
    start, end = f"smsp__sass_thread_inst_executed_op_{letter}", "_pred_on.sum.per_cycle_elapsed"
    once = [profile.number(f"{start}{name}{end}") for name in ("add", "mul")]
    derived = profile.number(f"derived__{start}fma_pred_on_x2")
    fused = profile.number(f"{start}fma{end}")
    twice = derived if derived is not None else None if fused is None else 2 * fused
    hertz = profile.number("smsp__cycles_elapsed.avg.per_second")
    if hertz is None or twice is None or once[0] is None or once[1] is None:
        return None
    return (once[0] + once[1] + twice) * hertz


def _peak_work(profile: Profile, letter: str) -> float | None:
    name = f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on"
    hertz = "sm__cycles_elapsed.avg.per_second"
    derived = _product(profile, f"derived__{name}_x2", hertz)
    single = _product(profile, f"{name}.sum.peak_sustained", hertz)
    return derived if derived is not None else None if single is None else 2 * single


def _product(profile: Profile, *names: str) -> float | None:
    values = [profile.number(name) for name in names]
    return None if None in values else math.prod(value for value in values if value is not None)


def _chart(points: Sequence[_Point]) -> Roofline:
    first = points[0]
    ridges = [point.peak / point.bandwidth for point in points]
    axes = _Axes(
        _ends([*(point.intensity for point in points), *ridges]),
        _ends([*(point.work for point in points), *(point.peak for point in points)]),
    )
    roofs = {point.precision: point for point in reversed(points)}
    return Roofline(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        bottom=HEIGHT - BOTTOM,
        roofs=tuple(_roof(point, axes) for point in roofs.values()),
        spots=tuple(_spot(point, axes) for point in points),
        across=tuple(Grade(axes.across(10.0**power), text.fixed(10.0**power, 0)) for power in _decades(axes.x)),
        up=tuple(Grade(axes.up(10.0**power), _scaled(10.0**power, 0)) for power in _decades(axes.y)),
        traffic=f"{text.fixed(first.bandwidth * 1e-9, 0)} GB/s",
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return math.log10(min(values)) - MARGIN, math.log10(max(values)) + MARGIN


def _decades(ends: tuple[float, float]) -> Iterator[int]:
    return iter(range(math.ceil(ends[0]), math.floor(ends[1]) + 1))


def _roof(point: _Point, axes: _Axes) -> Roof:
    low, ridge = 10.0 ** axes.x[0], point.peak / point.bandwidth
    start = max(low, 10.0 ** axes.y[0] / point.bandwidth)
    corners = [(start, start * point.bandwidth), (ridge, point.peak), (10.0 ** axes.x[1], point.peak)]
    path = "L".join(f"{axes.across(x)} {axes.up(y)}" for x, y in corners)
    return Roof(point.precision, f"M{path}", f"{_scaled(point.peak, 1)}, {point.precision}", axes.up(point.peak) - 5)


def _spot(point: _Point, axes: _Axes) -> Spot:
    return Spot(
        rank=point.rank,
        x=axes.across(point.intensity),
        y=axes.up(point.work),
        label=f"{point.label}, {point.precision}",
        work=_scaled(point.work, 2),
        intensity=text.fixed(point.intensity, 2),
        reached=text.percent(100 * point.work / point.roof),
    )


def _scaled(work: float, decimals: int) -> str:
    """Return FLOP/s in G or T."""
    unit, scale = ("T", 1e-12) if work >= 1e12 else ("G", 1e-9)
    return f"{text.fixed(work * scale, decimals)} {unit}FLOP/s"
