"""Tables of a profile as pandas DataFrames: ncu's counts, unrounded, unknown values NA.

Columns and their units are defined once, here; the command line's CSV has the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import pandas as pd

from ncu_swizzle.base.validate import LIMIT
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import NEVER as GUARD
from ncu_swizzle.reports.counts import TRANSFERS, Instruction, Ratios, Total
from ncu_swizzle.reports.model import Metric, Profile
from ncu_swizzle.reports.side_by_side import COUNT, RATIO
from ncu_swizzle.smem.opcodes import Copy, Shared, opcodes_with

# The instruction mix: warp instructions executed, by class of SASS opcode.
#
# The classes follow the instruction set tables of NVIDIA's "CUDA Binary Utilities". Shared-memory and tensor-core
# opcodes are counted one by one: a swizzle must not change their number.

TENSOR, SHARED, TMA = "Tensor cores", "Shared memory", "TMA"
PREDICATED_OFF = "Predicated off"  # the guard @!PT is always false, as on the loads around cp.async
INTEGER, MOVE, CONTROL, OTHER = "Integer and logic", "Move and select", "Control", "Other"

# The first pattern that matches the start of an opcode gives its class.
_CLASSES: tuple[tuple[str, str], ...] = (
    (PREDICATED_OFF, rf"{GUARD} [\w.]+"),
    (TENSOR, r"[A-Z]*MMA|UTC\w*MMA"),
    (SHARED, "|".join(opcodes_with(lambda row: row.shared is Shared.LANES or row.copy is Copy.STORE))),
    (TMA, r"UTMA\w*|UBLK\w*"),
    ("Global and local memory", r"(LD|ST)[GL]?|ATOMG?|REDG?|CCTL\w*|SU(LD|ST|RED|ATOM)|TEX|TLD"),
    ("Constants", r"U?LDCU?"),
    ("Special functions", r"MUFU"),
    ("Conversion", r"U?[FI]2[FI]P?|F2FP|FRND"),
    (MOVE, r"U?MOVM?|IMAD\.MOV|C?S2U?R|U?R2P|U?P2R|R2UR|UP2UR|R2B|B2R|U?PRMT|U?SEL"),
    ("Cross-lane", r"SHFL|VOTEU?|MATCH|C?REDUX"),
    (CONTROL, r"BR[AX]U?|JM[PX]|CALL|RET|EXIT|BAR|BSSY|BSYNC|BREAK|BMOV|WARPSYNC|NOP|DEPBAR|LDGDEPBAR|SYNCS|ARRIVES|"
              r"FENCE|MEMBAR|ERRBAR|NANOSLEEP|YIELD|KILL|BPT|ELECT|ENDCOLLECTIVE|USETMAXREG|UCGABAR\w*|WARPGROUP|"
              r"ACQBULK|PREEXIT|UTCBAR"),
    ("Floating point", r"U?F(ADD|MUL|FMA|MNMX|SETP?|SEL|CHK|SWZADD)\w*|[HD](ADD|MUL|FMA|MNMX|SETP?)\w*"),
    (INTEGER, r"U?I(ADD|MAD|MUL|SETP|MNMX|ABS|SCADD|DP)\w*|U?LEA|U?P?LOP3?|U?SHF|U?SH[LR]|U?VI?(ADD|MNMX)\w*|"
              r"U?FLO|U?POPC|U?BREV|U?BMSK|U?SGXT|VABSDIFF\w*"),
)  # fmt: skip
# A dot, a digit or the end must follow, so that LD does not match LDGDEPBAR.
_PATTERNS = tuple((name, re.compile(f"(?:{pattern})(?:[.\\d]|$)")) for name, pattern in _CLASSES)
# In display order: what must stay the same, what address computation costs, the rest.
_FIRST = (TENSOR, SHARED, TMA, INTEGER, MOVE)
NAMES = (*_FIRST, *(name for name, _ in _CLASSES if name not in _FIRST), OTHER)


@dataclass(frozen=True)
class Mix:
    """Warp instructions executed, by full opcode; `known` says whether there are execution counts.

    `uncounted` has the instructions, by opcode, whose execution count is unknown: the counts of
    those opcodes are sums over the others, hence lower bounds.
    """

    opcodes: Counter[str]
    known: bool
    uncounted: Counter[str] = field(default_factory=Counter)

    @cached_property
    def classes(self) -> Counter[tuple[str, str]]:
        """The counts by class; tensor-core, shared-memory and TMA opcodes also by their first word."""
        return _by_class(self.opcodes)

    @cached_property
    def uncounted_classes(self) -> Counter[tuple[str, str]]:
        """The classes with uncounted instructions, and how many they have."""
        return _by_class(self.uncounted)

    def total(self) -> int:
        """Return all warp instructions executed."""
        return self.opcodes.total()


def _by_class(opcodes: Counter[str]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for opcode, number in opcodes.items():
        counts[key(opcode)] += number
    return counts


def count(profile: Profile) -> Mix:
    """Return a profile's instruction mix; an opcode that is in the code but never ran counts 0."""
    opcodes: Counter[str] = Counter()
    uncounted: Counter[str] = Counter()
    counted = False
    for instruction in profile.instructions:
        opcode = guarded_opcode(instruction)
        opcodes[opcode] += instruction.executed or 0
        counted = counted or instruction.executed is not None
        # ncu leaves out what never ran, but not if it has other counts.
        if instruction.executed is None and (profile.origin.computed or instruction.wavefronts is not None):
            uncounted[opcode] += 1
    return Mix(opcodes, True, uncounted) if counted else Mix(Counter(), known=False)


def guarded_opcode(instruction: Instruction) -> str:
    """Return an instruction's opcode for `classify`, behind its guard if that is always false."""
    return f"{GUARD} {instruction.opcode}" if instruction.never else instruction.opcode


def classify(opcode: str) -> str:
    """Return the class of an opcode such as ``IMAD.MOV.U32``: a move, although IMAD is arithmetic."""
    return next((name for name, pattern in _PATTERNS if pattern.match(opcode)), OTHER)


def key(opcode: str) -> tuple[str, str]:
    """Return an opcode's class, and its first word if the class is counted by opcode."""
    name = classify(opcode)
    return name, opcode.partition(".")[0] if name in (TENSOR, SHARED, TMA) else ""


Kind = Literal["instructions", "lines", "accesses", "stalls", "metrics"]
Row = TypeVar("Row")

TEXT = "string[python]"  # with pyarrow installed, plain "string" is its type, which holds only valid UTF-8
STALL = "stall_"  # + the reason: one column of warp samples per reason that occurs


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """One column: its unit, its meaning, and how to get it from a row. Any value but text can be unknown (NA)."""

    name: str
    dtype: str
    unit: str
    meaning: str
    get: Callable[[Row], object]


def texts(name: str, meaning: str, get: Callable[[Row], object]) -> Column[Row]:
    """Return a column of texts, which have no unit."""
    return Column(name=name, dtype=TEXT, unit="", meaning=meaning, get=get)


def counts(name: str, meaning: str, get: Callable[[Row], object], unit: str = "") -> Column[Row]:
    """Return a column of integers."""
    return Column(name=name, dtype=COUNT, unit=unit, meaning=meaning, get=get)


def ratios(name: str, meaning: str, get: Callable[[Row], object], unit: str = "ratio") -> Column[Row]:
    """Return a column of real numbers."""
    return Column(name=name, dtype=RATIO, unit=unit, meaning=meaning, get=get)


WARPS, WAVEFRONTS, SAMPLES = "warps", "wavefronts", "warp samples"
Placed = tuple[Instruction, int]  # an instruction, and the address of its kernel's first one


def _wavefronts(counted: Callable[[Row], Ratios]) -> tuple[Column[Row], ...]:
    """Return the columns of wavefronts, and what follows from them; `counted` gets a row's counts."""
    return (
        counts("wavefronts", "actual wavefronts", lambda r: counted(r).wavefronts, WAVEFRONTS),
        counts("ideal", "fewest wavefronts possible", lambda r: counted(r).ideal, WAVEFRONTS),
        counts("excessive", "actual minus ideal", lambda r: counted(r).excessive, WAVEFRONTS),
        ratios("degree", "actual over ideal", lambda r: counted(r).degree),
    )


def _totals() -> tuple[Column[tuple[Any, Total]], ...]:
    """Return the columns shared by rows of a name and its total."""
    return (
        counts("executed", "warp-level executions of its instructions", lambda r: r[1].executed, WARPS),
        *_wavefronts(lambda r: r[1]),
        counts("samples", "samples, all stall reasons", lambda r: r[1].samples, SAMPLES),
    )


INSTRUCTIONS: tuple[Column[Placed], ...] = (
    counts("pc", "address as in the report", lambda r: r[0].pc, "bytes"),
    counts("offset", "from the kernel's first instruction", lambda r: r[0].pc - r[1], "bytes"),
    texts("sass", "the instruction", lambda r: r[0].sass),
    texts("opcode", "opcode with modifiers, without the predicate", lambda r: r[0].opcode),
    texts("class", "class in the instruction mix", lambda r: classify(guarded_opcode(r[0]))),
    texts("access", "LDS, LDSM, STS …; empty if it does not access shared memory", lambda r: r[0].access),
    texts("file", "source file of the innermost inlined function", lambda r: r[0].file),
    counts("line", "line in that file", lambda r: r[0].line or None),
    texts(
        "callers",
        "lines it was inlined into, innermost first",
        lambda r: " < ".join(f"{file}:{line}" for file, line in r[0].stack[1:]),
    ),
    counts("executed", "warp-level executions", lambda r: r[0].executed, WARPS),
    *_wavefronts(lambda r: r[0]),
    counts("samples", "samples, all stall reasons", lambda r: r[0].all_samples, SAMPLES),
)
LINES: tuple[Column[tuple[Location, Total]], ...] = (
    texts("file", "source file", lambda r: r[0][0]),
    counts("line", "line, including everything inlined into it", lambda r: r[0][1]),
    *_totals(),
)
ACCESSES: tuple[Column[tuple[str, Total]], ...] = (
    texts("access", "LDS, LDSM, STS …, most wavefronts first", lambda r: r[0]),
    texts("transfer", "source and destination of the data", lambda r: TRANSFERS.get(r[0], "")),
    *_totals(),
)
STALLS: tuple[Column[tuple[str, int, int]], ...] = (  # a reason, its samples, and those of all reasons
    texts("reason", "stall reason; `selected` means that the warp issued", lambda r: r[0]),
    counts("samples", "samples, most first", lambda r: r[1], SAMPLES),
    ratios("share", "share of the profile's samples", lambda r: 100 * r[1] / (r[2] or 1), "%"),
)
METRICS: tuple[Column[tuple[str, Metric]], ...] = (
    texts("name", "ncu's name", lambda r: r[0]),
    Column(name="value", dtype="object", unit="see unit", meaning="number or text", get=lambda r: r[1].value),
    texts("unit", "ncu's unit", lambda r: r[1].unit),
)
COLUMNS: dict[Kind, tuple[Column[Any], ...]] = {
    "instructions": INSTRUCTIONS,
    "lines": LINES,
    "accesses": ACCESSES,
    "stalls": STALLS,
    "metrics": METRICS,
}


def _rows(profile: Profile, kind: Kind) -> list[Any]:
    if kind == "instructions":
        start = min((i.pc for i in profile.instructions), default=0)
        return [(instruction, start) for instruction in profile.instructions]
    if kind == "stalls":
        return [(reason, samples, profile.all_samples) for reason, samples in profile.stalls.items()]
    tables: dict[str, Mapping[Any, Any]] = {
        "lines": profile.lines, "accesses": profile.accesses, "metrics": profile.metrics
    }  # fmt: skip
    return list(tables[kind].items())


def profile_table(profile: Profile, kind: Kind = "instructions") -> pd.DataFrame:
    """Return one table of a profile with the columns in `COLUMNS`; raise ValueError for an unknown kind.

    Instructions have one more column of warp samples per stall reason.
    """
    if kind not in COLUMNS:
        raise ValueError(f"no table is called {kind!r}: choose one of {', '.join(COLUMNS)}")
    table = frame(COLUMNS[kind], _rows(profile, kind))
    if kind != "instructions":
        return table
    samples = [instruction.samples for instruction in profile.instructions]
    reasons = sorted({reason for counts in samples for reason in counts})
    return table.assign(
        **{f"{STALL}{reason}": _series([c.get(reason, 0) for c in samples], COUNT) for reason in reasons}
    )


def comparison_table(comparison: Comparison, kind: Kind = "instructions") -> pd.DataFrame:
    """Return the stacked tables of all profiles, led by the columns `profile` (its label) and `engine`.

    A stall reason without samples in a profile counts 0 there.
    """
    return _stacked(comparison.named, kind)


def comparisons_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return the stacked tables of instructions; a profile is named by its kernel and, in a pair, its label."""
    named = [
        (label if comparison.title in ("", label) else f"{comparison.title}: {label}", profile)
        for comparison in comparisons
        for label, profile in comparison.named
    ]
    return _stacked(named, "instructions")


def _stacked(named: Sequence[tuple[str, Profile]], kind: Kind) -> pd.DataFrame:
    tables = [profile_table(profile, kind).assign(profile=label, engine=profile.engine) for label, profile in named]
    columns = [column.name for column in COLUMNS[kind]]
    stalls = sorted({name for table in tables for name in table.columns if name.startswith(STALL)})
    filled = [table.reindex(columns=["profile", "engine", *columns, *stalls]) for table in tables]
    stacked = pd.concat(filled, ignore_index=True)
    return stacked.assign(**{name: _series(stacked[name].fillna(0), COUNT) for name in stalls})


def frame(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> pd.DataFrame:
    """Return these rows as a table."""
    series = [_series([column.get(row) for row in rows], column.dtype) for column in columns]
    table = pd.DataFrame(dict(enumerate(series)))
    table.columns = pd.Index([column.name for column in columns], dtype="object")  # as in TEXT
    return table


def _series(values: Iterable[Any], dtype: Any) -> pd.Series[Any]:
    """Return values as a column; counts beyond 63 bits, which only an implausible report has, stay Python's ints."""
    cells = pd.Series(list(values), dtype="object")  # an integer next to a None would become a float
    fits = dtype != COUNT or all(value is None or -LIMIT <= value < LIMIT for value in cells)
    return cells.astype(dtype) if fits else cells.fillna(pd.NA)
