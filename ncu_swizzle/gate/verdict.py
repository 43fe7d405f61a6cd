"""The gate's results: one `Check` per kernel, criterion and access kind, and the `Verdict` that sums them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MAX_EXCESSIVE, MAX_DEGREE, MAX_REGRESSION = "max-excessive", "max-degree", "max-regression"
BASELINE, MEASURED, PRESENT, BUILT, BOUNDS, TILES = "baseline", "measured", "present", "built", "bounds", "tiles"
HISTORY = "history"

# What each criterion requires, in one line.
CRITERIA: Mapping[str, str] = {
    MAX_EXCESSIVE: "Excessive shared-memory wavefronts (actual minus ideal) stay within the limit.",
    MAX_DEGREE: "The degree (actual over ideal shared-memory wavefronts) stays within the limit.",
    MAX_REGRESSION: "The duration grows over the baseline by no more than the limit plus noise.",
    BASELINE: "There are no more excessive wavefronts than in the baseline.",
    HISTORY: "No access kind has more excessive wavefronts than in the last good run of the history.",
    MEASURED: "The values were measured or computed.",
    PRESENT: "Every kernel named by a rule or the baseline is among the profiles.",
    BOUNDS: "Global memory is accessed inside of the launch's buffers only.",
    TILES: "wgmma reads the tiles that TMA wrote, as its descriptors say.",
    BUILT: "The kernel compiles, and its launch and arguments fit.",
}


class Outcome(StrEnum):
    passed = "pass"
    failed = "fail"
    inconclusive = "inconclusive"
    error = "error"  # a mistake of the user's kept a kernel from being judged


WORST_FIRST = (Outcome.error, Outcome.failed, Outcome.inconclusive, Outcome.passed)


@dataclass(frozen=True)
class Place:
    """Where a check points: a source line, or a whole file if `line` is 0.

    `through`: the lines of libraries' headers that are inlined there, such as those of ``load_matrix_sync``.
    """

    file: str
    line: int = 0
    through: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def in_full(self) -> str:
        """The place and, by their names, the first of the headers' lines: ``my.cu:14, in mma.hpp:91``."""
        header = next(iter(self.through), None)
        return f"{self}, in {header.file.rsplit('/', 1)[-1]}:{header.line}" if header else str(self)


@dataclass(frozen=True)
class Check:
    """One criterion applied to one kernel. `message` is a sentence without the kernel and the full stop."""

    outcome: Outcome
    kernel: str
    criterion: str
    message: str
    access: str = ""  # empty: all accesses together
    place: Place | None = None
    origin: str = ""  # what set the limit: an option or a file
    hint: str = ""  # what to type next
    actual: float | None = None
    limit: float | None = None

    @property
    def subject(self) -> str:
        """The kernel, and the access kind if the check is about one."""
        return ", ".join(part for part in (self.kernel, self.access) if part)

    @property
    def title(self) -> str:
        return f"{self.subject}: {self.criterion}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


@dataclass(frozen=True)
class Replacement:
    """Lines of a file, the first from 1 on, and what stands there instead; no line if `count` is 0."""

    first: int
    count: int
    text: str


@dataclass(frozen=True)
class CorrectedFile:
    """A file of a correction, and its lines that change."""

    file: str
    replacements: tuple[Replacement, ...]


@dataclass(frozen=True)
class Correction:
    """A proved change of a source and its headers that frees kernels of their conflicts."""

    kernels: tuple[str, ...]
    description: str
    files: tuple[CorrectedFile, ...]

    def corrects(self, check: Check) -> bool:
        """Say whether it is the answer to a check."""
        return check.criterion == MAX_DEGREE and check.outcome is Outcome.failed and check.kernel in self.kernels


@dataclass(frozen=True)
class Change:
    """A kernel's accesses of one kind, before and now; None: unknown, or not there."""

    kernel: str
    access: str
    wavefronts_before: int | None
    ideal_before: int | None
    wavefronts: int | None
    ideal: int | None


@dataclass(frozen=True)
class Verdict:
    """All checks, with notes. The worst outcome wins: error, fail, inconclusive, pass.

    `changes` are what was compared with another commit, `corrections` what was proved to free kernels, if anything was.
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    corrections: tuple[Correction, ...] = ()

    @property
    def outcome(self) -> Outcome:
        outcomes = {check.outcome for check in self.checks}
        # Without any check the gate does not pass.
        return next((outcome for outcome in WORST_FIRST if outcome in outcomes), Outcome.inconclusive)

    @property
    def deciding(self) -> tuple[Check, ...]:
        """The checks that decided the outcome."""
        return tuple(check for check in self.checks if check.outcome is self.outcome)

    @property
    def summary(self) -> str:
        """The number of checks per outcome, such as ``1 fail, 3 pass``."""
        counts = Counter(check.outcome for check in self.checks)
        parts = [f"{counts[outcome]} {outcome}" for outcome in WORST_FIRST if counts[outcome]]
        return ", ".join(parts) or "nothing to judge"
