"""What a rule says of a launch: plain data, whoever prints it."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"  # informative
OPTIMIZATION = "optimization"  # something to gain
WARNING = "warning"  # the answer cannot be given, or not wholly


@dataclass(frozen=True)
class Focus:
    """A metric that the finding rests on; `good` says that its value is nothing to worry about."""

    metric: str
    value: float
    info: str
    good: bool = False


@dataclass(frozen=True)
class Marker:
    """A remark at an instruction (`pc`), or at a source line (`file` and `line`)."""

    text: str
    pc: int = 0
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Table:
    """A titled table; the cells of a column are all texts, all whole numbers or all fractions.

    A cell that begins with @sass: or @source: is a link of ncu's: ``@source:FILE:LINE:TEXT@``.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]


@dataclass(frozen=True)
class Finding:
    """What one rule says. `saving` is the share of the kernel's duration that could be saved, in percent.

    `low` and `high` are the interval around it. All three are None where the rule does not estimate.
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


def listed(parts: list[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part) if parts else ""


def percent(share: float) -> str:
    """Return a share of 1 in percent, with as many digits as mean something."""
    value = 100 * share
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.1f}%" if abs(value) >= 0.1 or not value else "under 0.1%"
