"""Tables of a profile as pandas DataFrames: counts as ncu counted them, nothing rounded, unknown values NA.

Each table's columns are defined here once, with their units; the CSV of the command line has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import pandas as pd

from ncu_swizzle.profiles import instruction_mix
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.counts import TRANSFERS, Instruction, Total
from ncu_swizzle.profiles.model import Metric, Profile

Kind = Literal["instructions", "lines", "accesses", "stalls", "metrics"]
Row = TypeVar("Row")

COUNT, RATIO, TEXT = "Int64", "Float64", "string"
STALL = "stall_"  # + the reason: columns of warp samples, one per reason that any instruction has


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: its unit, what it says, and where a row has it. Any value but a text can be unknown (NA)."""

    name: str
    dtype: str
    unit: str
    meaning: str
    get: Callable[[Row], object]


class Site(NamedTuple):
    """An instruction, and the address of the first one of its kernel."""

    instruction: Instruction
    start: int


class Line(NamedTuple):
    file: str
    line: int
    total: Total


class Access(NamedTuple):
    access: str
    total: Total


class Stall(NamedTuple):
    reason: str
    samples: int
    all_samples: int


class Named(NamedTuple):
    name: str
    metric: Metric


INSTRUCTIONS: tuple[Column[Site], ...] = (
    Column("pc", COUNT, "bytes", "address, as in the report", lambda s: s.instruction.pc),
    Column("offset", COUNT, "bytes", "from the kernel's first instruction", lambda s: s.instruction.pc - s.start),
    Column("sass", TEXT, "", "the instruction", lambda s: s.instruction.sass),
    Column("opcode", TEXT, "", "its first word without the predicate", lambda s: s.instruction.opcode),
    Column(
        "class",
        TEXT,
        "",
        "of the instruction mix",
        lambda s: instruction_mix.classify(instruction_mix.named(s.instruction)),
    ),
    Column("access", TEXT, "", "LDS, LDSM, STS …; empty: none", lambda s: s.instruction.access),
    Column("file", TEXT, "", "of the innermost inlined function", lambda s: s.instruction.file),
    Column("line", COUNT, "", "in that file", lambda s: s.instruction.line or None),
    Column(
        "callers",
        TEXT,
        "",
        "the lines that it was inlined into, innermost first",
        lambda s: " < ".join(f"{file}:{line}" for file, line in s.instruction.stack[1:]),
    ),
    Column("executed", COUNT, "warps", "that executed it", lambda s: s.instruction.executed),
    Column("wavefronts", COUNT, "wavefronts", "actual", lambda s: s.instruction.wavefronts),
    Column("ideal", COUNT, "wavefronts", "the fewest possible", lambda s: s.instruction.ideal),
    Column("excessive", COUNT, "wavefronts", "actual minus ideal", lambda s: s.instruction.excessive),
    Column("degree", RATIO, "ratio", "actual over ideal", lambda s: s.instruction.degree),
    Column("samples", COUNT, "warp samples", "of all reasons", lambda s: sum(s.instruction.samples.values())),
)


def _totals() -> tuple[Column[Any], ...]:
    """Return the columns of anything that has a `total`."""
    return (
        Column("executed", COUNT, "warps", "that executed an instruction of it", lambda r: r.total.executed),
        Column("wavefronts", COUNT, "wavefronts", "actual", lambda r: r.total.wavefronts),
        Column("ideal", COUNT, "wavefronts", "the fewest possible", lambda r: r.total.ideal),
        Column("excessive", COUNT, "wavefronts", "actual minus ideal", lambda r: r.total.excessive),
        Column("degree", RATIO, "ratio", "actual over ideal", lambda r: r.total.degree),
        Column("samples", COUNT, "warp samples", "of all reasons", lambda r: r.total.samples),
    )


LINES: tuple[Column[Line], ...] = (
    Column("file", TEXT, "", "the source", lambda r: r.file),
    Column("line", COUNT, "", "with all that was inlined there", lambda r: r.line),
    *_totals(),
)
ACCESSES: tuple[Column[Access], ...] = (
    Column("access", TEXT, "", "LDS, LDSM, STS …; most wavefronts first", lambda r: r.access),
    Column("transfer", TEXT, "", "what moves from where to where", lambda r: TRANSFERS.get(r.access, "")),
    *_totals(),
)
STALLS: tuple[Column[Stall], ...] = (
    Column("reason", TEXT, "", "why a warp did not issue; selected: it did", lambda r: r.reason),
    Column("samples", COUNT, "warp samples", "most first", lambda r: r.samples),
    Column("share", RATIO, "%", "of the profile's samples", lambda r: 100 * r.samples / r.all_samples),
)
METRICS: tuple[Column[Named], ...] = (
    Column("name", TEXT, "", "ncu's own", lambda r: r.name),
    Column("value", "object", "see unit", "a number, or a text", lambda r: r.metric.value),
    Column("unit", TEXT, "", "ncu's own", lambda r: r.metric.unit),
)
COLUMNS: dict[Kind, tuple[Column[Any], ...]] = {
    "instructions": INSTRUCTIONS,
    "lines": LINES,
    "accesses": ACCESSES,
    "stalls": STALLS,
    "metrics": METRICS,
}


def of_profile(profile: Profile, kind: Kind = "instructions") -> pd.DataFrame:
    """Return one table of a profile, its columns those of `COLUMNS`; raise ValueError for another kind.

    The instructions have a further column of warp samples for each stall reason.
    """
    if kind not in COLUMNS:
        raise ValueError(f"there is no table {kind!r}: name one of {', '.join(COLUMNS)}")
    rows = list(_rows(profile, kind))
    table = frame(COLUMNS[kind], rows)
    if kind != "instructions":
        return table
    samples = [instruction.samples for instruction in profile.instructions]
    reasons = sorted({reason for one in samples for reason in one})
    return table.assign(
        **{f"{STALL}{reason}": pd.Series([one.get(reason, 0) for one in samples], dtype=COUNT) for reason in reasons}
    )


def of_comparison(comparison: Comparison, kind: Kind = "instructions") -> pd.DataFrame:
    """Return the tables of all profiles, one below the other, behind the columns `profile` (its label) and `engine`.

    A stall reason that a profile has no samples of counts 0 there.
    """
    return _together(list(zip(comparison.labels, comparison.profiles, strict=True)), kind)


def of_comparisons(comparisons: Sequence[Comparison], kind: Kind = "instructions") -> pd.DataFrame:
    """Return the tables of several comparisons; a profile is called by its kernel and, in a pair, its label."""
    named = [
        (label if one.title in ("", label) else f"{one.title}: {label}", profile)
        for one in comparisons
        for label, profile in zip(one.labels, one.profiles, strict=True)
    ]
    return _together(named, kind)


def _together(named: Sequence[tuple[str, Profile]], kind: Kind) -> pd.DataFrame:
    tables = [of_profile(profile, kind).assign(profile=label, engine=profile.engine) for label, profile in named]
    columns = [column.name for column in COLUMNS[kind]]
    stalls = sorted({name for table in tables for name in table.columns if name.startswith(STALL)})
    filled = [table.reindex(columns=["profile", "engine", *columns, *stalls]) for table in tables]
    together = pd.concat(filled, ignore_index=True)
    return together.astype(dict.fromkeys(stalls, COUNT)).fillna(dict.fromkeys(stalls, 0))


def _rows(profile: Profile, kind: Kind) -> Iterable[Any]:
    if kind == "instructions":
        start = min((i.pc for i in profile.instructions), default=0)
        return (Site(instruction, start) for instruction in profile.instructions)
    if kind == "lines":
        return (Line(file, line, total) for (file, line), total in profile.lines.items())
    if kind == "accesses":
        return (Access(access, total) for access, total in profile.accesses.items())
    if kind == "stalls":
        stalls = profile.stalls
        return (Stall(reason, samples, sum(stalls.values()) or 1) for reason, samples in stalls.items())
    return (Named(name, metric) for name, metric in profile.metrics.items())


def frame(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> pd.DataFrame:
    """Return the table of these rows."""
    # By way of objects: an integer beside a None would become a float.
    cells = {column.name: [column.get(row) for row in rows] for column in columns}
    return pd.DataFrame(cells, dtype="object").astype({column.name: column.dtype for column in columns})
