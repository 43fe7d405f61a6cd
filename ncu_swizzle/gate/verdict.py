"""What the gate concludes: one `Check` per kernel, criterion and access kind, and the `Verdict` over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MAX_EXCESSIVE, MAX_DEGREE, MAX_REGRESSION = "max-excessive", "max-degree", "max-regression"
BASELINE, MEASURED, PRESENT = "baseline", "measured", "present"

# What each criterion asks for, in a line.
CRITERIA: Mapping[str, str] = {
    MAX_EXCESSIVE: "Shared-memory wavefronts beyond the ideal number stay within the limit.",
    MAX_DEGREE: "Actual over ideal shared-memory wavefronts stay within the limit.",
    MAX_REGRESSION: "The duration stays within the limit over the baseline's, beyond noise.",
    BASELINE: "There are no more excessive wavefronts than in the baseline.",
    MEASURED: "The figures were measured, or computed.",
    PRESENT: "Every kernel that a rule or the baseline names was given.",
}


class Outcome(StrEnum):
    passed = "pass"
    failed = "fail"
    inconclusive = "inconclusive"


@dataclass(frozen=True)
class Place:
    """Where to point at: a source line, or a whole file where `line` is 0."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Check:
    """One criterion, held against one kernel. `message` is a sentence without the kernel and its full stop."""

    outcome: Outcome
    kernel: str
    criterion: str
    message: str
    access: str = ""  # empty: all accesses together
    place: Place | None = None
    origin: str = ""  # who asked for it: an option, a file
    hint: str = ""  # what to type next
    actual: float | None = None
    limit: float | None = None

    @property
    def subject(self) -> str:
        """The kernel, and the access kind where it is about one."""
        return ", ".join(part for part in (self.kernel, self.access) if part)

    @property
    def title(self) -> str:
        return f"{self.subject}: {self.criterion}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


@dataclass(frozen=True)
class Verdict:
    """All checks, and what else there is to know. Fail beats inconclusive beats pass."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        found = {check.outcome for check in self.checks}
        if Outcome.failed in found:
            return Outcome.failed
        return Outcome.passed if found == {Outcome.passed} else Outcome.inconclusive  # nothing judged is no pass

    @property
    def deciding(self) -> tuple[Check, ...]:
        """The checks that made the outcome what it is."""
        return tuple(check for check in self.checks if check.outcome is self.outcome)

    @property
    def summary(self) -> str:
        """How many checks came out how, such as ``1 fail, 3 pass``."""
        counts = Counter(check.outcome for check in self.checks)
        order = (Outcome.failed, Outcome.inconclusive, Outcome.passed)
        return ", ".join(f"{counts[outcome]} {outcome}" for outcome in order if counts[outcome]) or "nothing to judge"
