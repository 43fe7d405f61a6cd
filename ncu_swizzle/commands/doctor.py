"""What ``ncu-swizzle doctor`` found: a status per check, the diagnosis, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from rich.console import Console

from ncu_swizzle.base.texts import in_json
from ncu_swizzle.render.listing import PlainTable, table_line

# The finding of each check, and the diagnosis that they add up to.


SCHEMA = 1


class Status(StrEnum):
    """`bad` prevents measuring (or computing); `doubtful` may prevent it, or only degrades it."""

    good = "good"
    doubtful = "doubtful"
    bad = "bad"


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """One finding: what was checked, what was found, and what to type if something has to be done.

    The fields are the keys of the JSON output.
    """

    name: str
    outcome: Status
    said: str
    cure: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All findings on measuring, and those on computing without a GPU, each in the order of the checks."""

    checks: tuple[HealthCheck, ...]
    computing: tuple[HealthCheck, ...] = ()  # empty: not examined

    @property
    def able(self) -> bool:
        """Whether this machine can measure."""
        return not self.obstacles

    @property
    def computes(self) -> bool:
        """Whether the emulated engine works here."""
        return bool(self.computing) and not _bad(self.computing)

    @property
    def obstacles(self) -> tuple[HealthCheck, ...]:
        """What prevents measuring."""
        return _bad(self.checks)

    @property
    def computing_obstacles(self) -> tuple[HealthCheck, ...]:
        """What prevents computing."""
        return _bad(self.computing)

    def to_json(self) -> str:
        content = {
            "schema": SCHEMA,
            "able": self.able,
            "checks": [asdict(check) for check in self.checks],
            "computes": self.computes,
            "computing": [asdict(check) for check in self.computing],
        }
        return in_json(content, indent=1)


def _bad(checks: tuple[HealthCheck, ...]) -> tuple[HealthCheck, ...]:
    return tuple(check for check in checks if check.outcome is Status.bad)


def good(name: str, said: str) -> HealthCheck:
    return HealthCheck(name=name, outcome=Status.good, said=said)


def doubtful(name: str, said: str, cure: str = "") -> HealthCheck:
    return HealthCheck(name=name, outcome=Status.doubtful, said=said, cure=cure)


def bad(name: str, said: str, cure: str) -> HealthCheck:
    return HealthCheck(name=name, outcome=Status.bad, said=said, cure=cure)


MARKS = {Status.good: ("✓", "green"), Status.doubtful: ("!", "yellow"), Status.bad: ("✗", "bold red")}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a line per check, the fix below it, and a verdict each on measuring and on computing."""
    console.print("To measure, with ncu on a GPU:")
    _show_checks(diagnosis.checks, console)
    if diagnosis.computing:
        console.print()
        console.print("To compute wavefronts, with --engine emulated:")
        _show_checks(diagnosis.computing, console)
    console.print()
    _conclude("measure", diagnosis.obstacles, console)
    if diagnosis.computing:
        _conclude("compute wavefronts", diagnosis.computing_obstacles, console)
    if diagnosis.obstacles and diagnosis.computes:
        console.print("Without a GPU: ncu-swizzle profile kernel2 --engine emulated", soft_wrap=True)
    elif diagnosis.obstacles:
        console.print("Recordings can still be shown: ncu-swizzle profile kernel2 --engine recorded", soft_wrap=True)


def _show_checks(checks: Sequence[HealthCheck], console: Console) -> None:
    table = PlainTable(show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mark, style = MARKS[check.outcome]
        table.add_row(table_line((mark, style)), check.name, check.said)
        for number, line in enumerate(check.cure.splitlines()):
            table.add_row("", "", table_line(line.strip() if number else f"try: {line}", style="dim"))
    console.print(table)


def _conclude(what: str, obstacles: Sequence[HealthCheck], console: Console) -> None:
    names = ", ".join(check.name for check in obstacles)
    conclusion = f"This machine cannot {what}: {names}." if obstacles else f"This machine can {what}."
    console.print(table_line(conclusion, style="bold red" if obstacles else "bold"))
