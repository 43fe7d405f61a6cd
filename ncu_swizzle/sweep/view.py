"""A sweep as one HTML file: charts and the table behind them. No script but for very many points, to search them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median_low

from ncu_swizzle.base.texts import in_words
from ncu_swizzle.render import text
from ncu_swizzle.render.page import environment, script_parts
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.folder import Sweep
from ncu_swizzle.sweep.table import PointRow, Scale

# What a chart marks: each point, or of very many the median of neighbouring ones; and which charts there are.

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
    step = max(1, -(-len(sizes) // BINS))  # sizes per mark, rounded up: at most BINS marks
    marks = []
    for start in range(0, len(sizes), step):
        near = sizes[start : start + step]
        held = sorted(value for size in near for value in values[size])
        middle = median_low(held)
        span = f"{near[0]:,}" if len(near) == 1 else f"{near[0]:,} to {near[-1]:,}"
        tip = f"{axis}={span}: median {show(middle)} of {len(held):,} points, {show(held[0])} to {show(held[-1])}"
        marks.append(Sample(median_low(near), middle, tip))
    return marks


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


# The data of a sweep's page, built before any markup: charts over the varied parameter, and the table.
#
# Series differ in colour, in mark shape and in dash pattern. Coordinates are in the units of a WIDTH by HEIGHT SVG.

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 66, 542, 14, 252  # of the plot
LABEL_ROOM = 46  # between two labels below the axis
PLOT = {"width": WIDTH, "height": HEIGHT, "plot": {"LEFT": LEFT, "RIGHT": RIGHT, "BOTTOM": BOTTOM}}  # for templates
COLOURS = 8

# Outlines around (0, 0); hollow, so that overlapping marks all stay visible.
SHAPES = (
    "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
    "M-4.5,-4.5h9v9h-9z",
    "M0,-6L5.5,4.5h-11z",
    "M0,-6.5L6.5,0L0,6.5L-6.5,0z",
    "M-5,-5L5,5M-5,5L5,-5",
    "M0,6L5.5,-4.5h-11z",
    "M-6,0H6M0,-6V6",
    "M-6.5,-3h13v6h-13z",
)
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 2 2 2 2")


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    tip: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """One variant in one chart: its line, broken where points are missing, and its marks."""

    label: str
    colour: int
    shape: str
    dashes: str
    lines: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One quantity over the parameter. `one` is the y position of the line at 1; None for no such line."""

    title: str
    note: str
    axis: str
    xs: tuple[Tick, ...]
    ys: tuple[Tick, ...]
    series: tuple[Series, ...]
    one: float | None = None


@dataclass(frozen=True)
class ChartGroup:
    """The charts of one combination of the parameters that are not on the axis."""

    title: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class TableLine:
    """A row of the table; `first` of its problem."""

    row: PointRow
    cells: tuple[str, ...]
    first: bool


@dataclass(frozen=True, kw_only=True)
class SweepPage:
    """A sweep, and what its page shows that it does not say itself."""

    sweep: Sweep
    legend: tuple[Series, ...]
    groups: tuple[ChartGroup, ...]
    heads: tuple[str, ...]
    lines: tuple[TableLine, ...]
    baseline: str  # empty if variants have different ones

    @property
    def title(self) -> str:
        return table.title(self.sweep)

    @property
    def where(self) -> str:
        return table.where(self.sweep)

    @property
    def summary(self) -> str:
        failed = f", {len(self.sweep.failed):,} failed" if self.sweep.failed else ""
        return f"{len(self.sweep.done):,} of {len(self.lines):,} points are done{failed}."

    @property
    def large(self) -> bool:
        """Whether there are too many points to mark each: charts show medians, and a script searches the table."""
        return len(self.lines) > MOST_POINTS


@dataclass(frozen=True, kw_only=True)
class SweepFigure:
    """What a chart shows: how to get it from a row, how to scale its axis and how to format its values."""

    title: str
    note: str
    get: Callable[[PointRow], float | None]
    scale: Callable[[Sequence[float]], Scale]
    show: Callable[[float], str]
    tick: Callable[[float], str]
    one: bool = False


def build(sweep: Sweep) -> SweepPage:
    """Return the page of a sweep."""
    rows, varied = table.rows_table(sweep), sweep.plan.varied
    baselines = set(sweep.plan.baselines().values())
    baseline = baselines.pop() if len(baselines) == 1 else ""
    unit = table.time_unit(rows)
    lines = [
        TableLine(row, tuple(table.cells(row, varied, unit)), number == 0)
        for _, group in groupby(rows, key=lambda row: row.outcome.point.problem)
        for number, row in enumerate(group)
    ]
    groups = []
    if varied:
        axis, *others = varied
        for title, members in grouped(rows, others, len(rows) > MOST_POINTS).items():
            charts = (_chart(sweep, figure, axis, members) for figure in FIGURES)
            groups.append(ChartGroup(title, tuple(filter(None, charts))))
    return SweepPage(
        sweep=sweep,
        legend=tuple(style(number, kernel.name) for number, kernel in enumerate(sweep.plan.kernels)),
        groups=tuple(groups),
        heads=("Variant", *varied, "Duration", "Speedup", *([] if baseline else ["Over"]), "Excessive", "Degree"),
        lines=tuple(lines),
        baseline=baseline,
    )


def style(number: int, label: str) -> Series:
    """Return how the series of this number is drawn."""
    # When the colours repeat, shapes and dashes are shifted.
    turn = number + number // COLOURS
    return Series(
        label=label, colour=number % COLOURS, shape=SHAPES[turn % len(SHAPES)], dashes=DASHES[turn % len(DASHES)]
    )


def _chart(sweep: Sweep, figure: SweepFigure, axis: str, rows: Sequence[PointRow]) -> Chart | None:
    """Return one chart; None if no point has the value."""
    values = [value for row in rows if (value := figure.get(row)) is not None]
    if not values:
        return None
    choose = medians if len(rows) > MOST_POINTS else samples
    lines = {
        kernel.name: choose([row for row in rows if row.kernel == kernel.name], axis, figure.get, figure.show)
        for kernel in sweep.plan.kernels
    }
    x = table.sizes([sample.size for line in lines.values() for sample in line])
    y = figure.scale(values)
    series = [drawn(style(number, name), line, x, y) for number, (name, line) in enumerate(lines.items())]
    return Chart(
        title=figure.title,
        note=figure.note,
        axis=axis,
        xs=_apart(tuple(x_tick(x, tick, f"{tick:,.0f}") for tick in x.ticks)),
        ys=tuple(y_tick(y, tick, figure.tick(tick)) for tick in y.ticks),
        series=tuple(series),
        one=_y(y, 1.0) if figure.one else None,
    )


def drawn(style: Series, line: Sequence[Sample], x: Scale, y: Scale) -> Series:
    """Return a series with its marks, and lines between those that follow each other."""
    marked: list[Mark] = []
    pieces: list[list[str]] = [[]]
    for sample in line:
        if sample.value is None:
            pieces.append([])  # a line across a gap would show values that nobody measured
            continue
        mark = Mark(_x(x, sample.size), _y(y, sample.value), f"{style.label}, {sample.tip}")
        marked.append(mark)
        pieces[-1].append(f"{mark.x:g},{mark.y:g}")
    lines = tuple(f"M{'L'.join(piece)}" for piece in pieces if len(piece) > 1)
    return replace(style, lines=lines, marks=tuple(marked))


def x_tick(scale: Scale, value: float, label: str) -> Tick:
    return Tick(_x(scale, value), label)


def y_tick(scale: Scale, value: float, label: str) -> Tick:
    return Tick(_y(scale, value), label)


# SVG's y grows downwards. Marks at the ends of the horizontal axis keep 14 units from the border of the plot.
def _x(scale: Scale, value: float) -> float:
    return round(LEFT + 14 + (RIGHT - LEFT - 28) * scale.position(value), 1)


def _y(scale: Scale, value: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * scale.position(value), 1)


def _apart(ticks: tuple[Tick, ...]) -> tuple[Tick, ...]:
    """Return the ticks, without the labels that are too close to the previous one."""
    shown: list[Tick] = []
    last = -float(WIDTH)
    for tick in ticks:
        room = tick.at - last >= LABEL_ROOM
        last = tick.at if room else last
        shown.append(tick if room else Tick(tick.at, ""))
    return tuple(shown)


def _short(count: float) -> str:
    """Return a power of ten short enough for a tick label: 10 k, 1 M."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            return f"{count / size:g}{letter}"
    return f"{count:g}"


FIGURES = (
    SweepFigure(
        title="Duration, ms",
        note="Both axes are logarithmic: a straight line is a power law.",
        get=lambda row: row.ms,
        scale=table.logarithmic,
        show=lambda value: f"{text.fixed(value, 3)} ms",
        tick=lambda value: f"{value:g}",
    ),
    SweepFigure(
        title="Speedup",
        note="The baseline's duration over this variant's at the same problem; 1 is equally fast.",
        get=lambda row: row.speedup,
        scale=table.linear,
        show=lambda value: f"{value:.2f}×",
        tick=lambda value: f"{value:g}×",
        one=True,
    ),
    SweepFigure(
        title="Excessive wavefronts",
        note="Logarithmic, with a separate line for 0 at the bottom: a variant there is conflict-free.",
        get=lambda row: row.count("excessive"),
        scale=table.from_zero,
        show=text.count,
        tick=_short,
    ),
    SweepFigure(
        title="Degree, actual over ideal wavefronts",
        note="1 is conflict-free. Each tick doubles.",
        get=lambda row: row.count("degree"),
        scale=table.degrees,
        show=text.degree,
        tick=lambda value: f"{value:g}",
    ),
)


MOST_ROWS = 50  # a notebook cell lists the first points only


def render(sweep: Sweep) -> str:
    """Return the document; the same sweep gives the same bytes."""
    page = build(sweep)
    script = script_parts() if page.large else {}
    return environment().get_template("sweep/page.html").render(page=page, **PLOT, **script)


def render_card(sweep: Sweep) -> str:
    """Return a sweep as a notebook shows it: an HTML fragment with inline styles, without the charts."""
    return environment().get_template("sweep/card.html").render(page=build(sweep), most=MOST_ROWS)
