"""What a rule reports about a launch, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"  # informative
OPTIMIZATION = "optimization"  # something to gain
WARNING = "warning"  # the rule cannot decide, or only in part
# The codes of findings by rule; docs/rules has a page each. A finding of what is unknown has one of its own.
CODES = {
    "SharedExcess": "SW040",
    "ConflictCost": "SW041",
    "SwizzleAdvice": "SW042",
    "PartialSwizzle": "SW043",
    "PhantomConflicts": "SW044",
    "StallShift": "SW045",
    "GlobalSectors": "SW047",
}
FAILED, NOT_COLLECTED, FEW_SAMPLES_TAKEN, UNLIKE = "SW046", "UN020", "UN026", "UN027"


@dataclass(frozen=True)
class Focus:
    """A metric behind the finding; `good` marks a harmless value."""

    metric: str
    value: float
    info: str
    good: bool = False


@dataclass(frozen=True)
class Marker:
    """An annotation at an instruction (`pc`) or a source line (`file` and `line`)."""

    text: str
    pc: int = 0
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Table:
    """A titled table; a column's cells are all text, all integers or all floats.

    A cell that starts with @sass: or @source: is an ncu link: ``@source:FILE:LINE:TEXT@``.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]


@dataclass(frozen=True)
class Finding:
    """What one rule reports. `saving` is the estimated saving in percent of the kernel's duration.

    `low` and `high` are its interval. All three are None if the rule does not estimate a saving. `code` is the rule's
    if none is given.
    """

    rule: str
    kind: str
    title: str
    message: str
    saving: float | None = None
    low: float | None = None
    high: float | None = None
    focus: tuple[Focus, ...] = ()
    markers: tuple[Marker, ...] = ()
    tables: tuple[Table, ...] = ()
    code: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", self.code or CODES[self.rule])


def listed(parts: list[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part) if parts else ""


def percent(share: float) -> str:
    """Return a fraction in percent, with as many digits as are meaningful."""
    value = 100 * share
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.1f}%" if abs(value) >= 0.1 or not value else "under 0.1%"
