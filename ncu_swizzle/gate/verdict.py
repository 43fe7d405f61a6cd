"""Checks and the verdict that sums them up; and where a check points, with its path in the user's checkout."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ncu_swizzle.base import codes
from ncu_swizzle.base.codes import Severity
from ncu_swizzle.cubin.lines import Location, is_library
from ncu_swizzle.reports import attribution, model
from ncu_swizzle.reports.attribution import FrameOwners, Here, Site, nowhere
from ncu_swizzle.reports.model import Profile

# The gate's results: one `Check` per kernel, criterion and access kind, and the `Verdict` that sums them up.

MAX_EXCESSIVE, MAX_DEGREE, MAX_REGRESSION = "max-excessive", "max-degree", "max-regression"
MAX_SECTORS, MEMORY = "max-sectors", "memory"
BASELINE, MEASURED, PRESENT, BUILT = "baseline", "measured", "present", "built"
BOUNDS, TILES, RACES, OUTPUT = "bounds", "tiles", "races", "output"
SUPPRESSIONS = "suppressions"

# What each criterion requires, in one line.
CRITERIA: Mapping[str, str] = {
    MAX_EXCESSIVE: "Excessive shared-memory wavefronts (actual minus ideal) stay within the limit.",
    MAX_DEGREE: "The degree (actual over ideal shared-memory wavefronts) stays within the limit.",
    MAX_REGRESSION: "The duration grows over the baseline by no more than the limit plus noise.",
    MAX_SECTORS: "Sectors of global memory for each ideal one stay within the limit.",
    MEMORY: "Global memory is read and written in whole sectors, local memory seldom, and warps do not part.",
    BASELINE: "There are no more excessive wavefronts than in the baseline.",
    MEASURED: "The values were measured or computed.",
    PRESENT: "Every kernel named by a rule or the baseline is among the profiles.",
    BOUNDS: "Global memory is accessed inside of the launch's buffers only.",
    RACES: "Accesses to shared memory are ordered, and every wait ends.",
    OUTPUT: "Outputs match their reference.",
    TILES: "wgmma reads the tiles that TMA wrote, as its descriptors say.",
    BUILT: "The kernel compiles, and its launch and arguments fit.",
    SUPPRESSIONS: "Suppressions name codes that exist, and hide something.",
}


class Outcome(StrEnum):
    passed = "pass"
    failed = "fail"
    inconclusive = "inconclusive"
    error = "error"  # a user error kept a kernel from being judged
    warning = "warning"  # it decides nothing


WORST_FIRST = (Outcome.error, Outcome.failed, Outcome.inconclusive, Outcome.warning, Outcome.passed)


@dataclass(frozen=True)
class Place:
    """Where a check points: a source line, or a whole file if `line` is 0.

    `through`: the lines of headers and helpers that are inlined there, such as those of ``load_matrix_sync``.
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


@dataclass(frozen=True, kw_only=True)
class Suppression:
    """A rule that hides findings: a comment in a source, for its `line`, or an entry of the settings, for kernels.

    `place` is where it is written. In an entry, `files` is a pattern of paths, `kernel` a regular expression; all if
    empty.
    """

    codes: tuple[str, ...]
    reason: str
    place: Place
    line: int = 0
    files: str = ""
    kernel: str = ""

    @property
    def in_source(self) -> bool:
        return bool(self.line)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One criterion applied to one kernel. `message` is a sentence without the kernel and the full stop.

    `code` is that of the finding, or of the reason why it is unknown, see `base.codes`; `more_codes` are those of
    further reasons. It is suppressed only if all of them are.
    """

    outcome: Outcome
    kernel: str
    criterion: str
    message: str
    access: str = ""  # empty: all accesses together
    place: Place | None = None
    related: tuple[Place, ...] = ()  # lines that take part, such as that of the other access
    origin: str = ""  # what set the limit: an option or a file
    hint: str = ""  # what to type next
    actual: float | None = None
    limit: float | None = None
    code: str = ""  # empty for some that passed
    more_codes: tuple[str, ...] = ()
    provenance: str = ""  # of `actual`: measured, recorded or computed
    suppressions: tuple[Suppression, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        return (self.code, *self.more_codes) if self.code else ()

    @property
    def state(self) -> str:
        """The outcome, or "suppressed"."""
        return "suppressed" if self.suppressions else self.outcome

    @property
    def failed(self) -> bool:
        """Whether it failed, and is not suppressed."""
        return self.outcome is Outcome.failed and not self.suppressions

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
    """Lines of a file, the first from 1 on, and the text that replaces them; no line if `count` is 0."""

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
        """Return whether it fixes what a check found."""
        return check.criterion == MAX_DEGREE and check.failed and check.kernel in self.kernels


@dataclass(frozen=True)
class Change:
    """A kernel's accesses of one kind, before and now; None: unknown or absent."""

    kernel: str
    access: str
    wavefronts_before: int | None
    ideal_before: int | None
    wavefronts: int | None
    ideal: int | None


@dataclass(frozen=True, kw_only=True)
class UnknownNote:
    """Something that remained unknown about a kernel besides the checks: the reason's code, and the remedy."""

    kernel: str
    code: str
    reason: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All checks, with notes. The worst outcome wins: error, fail, inconclusive, pass. Suppressed checks do not count.

    `unknowns` are those of the notes that say what remained unknown. `changes` are what was
    compared with another commit, `corrections` what was proved to free kernels, if anything was.
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    unknowns: tuple[UnknownNote, ...] = ()
    changes: tuple[Change, ...] = ()
    corrections: tuple[Correction, ...] = ()

    @property
    def outcome(self) -> Outcome:
        outcomes = {check.outcome for check in self.checks if not check.suppressions} - {Outcome.warning}
        # Without any check the gate does not pass.
        otherwise = Outcome.passed if self.suppressed else Outcome.inconclusive
        return next((outcome for outcome in WORST_FIRST if outcome in outcomes), otherwise)

    @property
    def suppressed(self) -> tuple[Check, ...]:
        """The suppressed checks, which do not count."""
        return tuple(check for check in self.checks if check.suppressions)

    @property
    def deciding(self) -> tuple[Check, ...]:
        """The checks that decided the outcome."""
        return tuple(check for check in self.checks if check.outcome is self.outcome and not check.suppressions)

    @property
    def summary(self) -> str:
        """The number of checks per outcome, such as ``1 fail, 3 pass``, and how many are suppressed."""
        counts = Counter(check.outcome for check in self.checks if not check.suppressions)
        parts = [f"{counts[outcome]} {outcome}" for outcome in WORST_FIRST if counts[outcome]]
        if self.suppressed:
            unknown = sum(check.outcome in (Outcome.inconclusive, Outcome.error) for check in self.suppressed)
            parts.append(f"{len(self.suppressed)} suppressed{f' ({unknown} of them not judged)' if unknown else ''}")
        return ", ".join(parts) or "nothing to judge"


# Verdicts on wavefronts whose rule was measured on another architecture say so, line by line.

ABOUT_WAVEFRONTS = (MAX_EXCESSIVE, MAX_DEGREE, BASELINE)


def with_rule_origin(checks: Iterable[Check], profiles: Iterable[Profile]) -> Iterator[Check]:
    """Yield the checks of a kernel's profiles; those about wavefronts name where their rule was measured."""
    mark = next((profile.rule_from for profile in profiles if profile.rule_from), "")
    for check in checks:
        about = mark and check.criterion in ABOUT_WAVEFRONTS
        yield replace(check, message=f"{check.message} ({mark})") if about else check


PAGE = "docs/hopper.md, and docs/blackwell.md for tcgen05, show what fits: the modes, LBO, SBO and the base offset"
ORDER = "docs/races.md says what orders accesses"
# What compute-sanitizer checks: shared memory through the generic proxy, and barriers of a block.
RACECHECK = f"{ORDER}; on a GPU, compute-sanitizer --tool racecheck sees most of these"
SYNCCHECK = f"{ORDER}; on a GPU, compute-sanitizer --tool synccheck sees some of these"
RESULTS = "read each tile with the layout that it was written with; docs/results.md says what is compared"
RACE_HINTS = {
    **dict.fromkeys((codes.RACE, codes.LANES, codes.SAME_PLACE, codes.SAME_VALUE, codes.POLLED), RACECHECK),
    **dict.fromkeys((codes.BARRIER_COUNT, codes.DIVERGENT, codes.MBARRIER), SYNCCHECK),
}
SANITIZE = "check the index against the size; on a GPU, compute-sanitizer lists every such access"
MOST_THROUGH = 10  # lines of libraries that a place names


def worst(profile: Profile, access: str = "", here: Here = nowhere) -> Place:
    """Return the line with the most excessive wavefronts; without any, the line with the most stall samples.

    If no line is known, return the report's file.
    """
    excess: Counter[Location] = Counter()
    sites = [site for site in attribution.sites(profile, here) if access in ("", site.access.access)]
    for site in sites:
        excess[site.line] += site.access.excessive or 0
    if not any(excess.values()):
        return _slowest(profile, here)
    line = max(excess, key=lambda line: (excess[line], -line[1]))
    return of_sites(line, (site for site in sites if site.line == line))


def of_sites(line: Location, sites: Iterable[Site]) -> Place:
    """Return a line as a place, with the library lines that its accesses come from."""
    excess: Counter[Location] = Counter()
    for site in sites:
        for frame in site.through:
            excess[frame] += site.access.excessive or 0
    through = (Place(posixpath.normpath(file), number) for (file, number), _ in excess.most_common(MOST_THROUGH))
    return Place(*line, through=tuple(through))


def _slowest(profile: Profile, here: Here) -> Place:
    samples: Counter[Location] = Counter()
    ownership = FrameOwners(profile, here)
    for instruction in profile.instructions:
        if instruction.stack:
            samples[ownership.own(instruction.stack)[0]] += sum(instruction.samples.values())
    return Place(*samples.most_common(1)[0][0]) if samples else Place(profile.report)


def of_violations(name: str, profile: Profile) -> Iterator[Check]:
    """Yield a check for each access outside of the launch's buffers, tile that does not fit, and hazard."""
    for found in model.violations(profile):
        inlined = tuple(Place(*location) for location in found.through)
        place = Place(*found.line, through=inlined) if found.line else Place(profile.report)
        criterion, hint = {
            model.TILES_RULE: (TILES, PAGE),
            model.RACES_RULE: (RACES, RACE_HINTS.get(found.code, ORDER)),
            model.OUTPUT_RULE: (OUTPUT, RESULTS),
        }.get(found.rule, (BOUNDS, SANITIZE))
        known = codes.CATALOGUE.get(found.code)
        outcome = Outcome.warning if known and known.severity is Severity.warning else Outcome.failed
        yield Check(
            outcome=outcome, kernel=name, criterion=criterion, message=found.message, place=place, hint=hint,
            code=found.code, related=tuple(Place(*location) for location in found.related),
        )  # fmt: skip


def in_checkout(file: str, root: Path) -> str:
    """Return a profiled source's path relative to `root` if it exists there, else the path unchanged.

    The report may come from another machine: the longest tail of the path that exists below the root counts. Not for
    a library's header: a file of the same name is not a copy of it.
    """
    path = PurePosixPath(file)
    parts = [part for part in path.parts if part != "/"]
    elsewhere = path.is_absolute() and is_library(file) and not path.is_relative_to(root.as_posix())
    if ".." in parts or elsewhere:
        return file
    tails = (PurePosixPath(*parts[first:]) for first in range(len(parts)))
    return next((str(tail) for tail in tails if (root / tail).is_file()), file)


def moved(place: Place, root: Path, sources: Sequence[str] = ()) -> Place:
    """Return the place with its path in the checkout at `root`, if it is there.

    `sources`: the folders on this machine that the profile's relative paths are below.
    """
    place = replace(place, through=tuple(moved(inner, root, sources) for inner in place.through))
    for folder in sources:
        file = Path(folder, place.file)
        if file.is_file() and file.is_relative_to(root):
            return replace(place, file=file.relative_to(root).as_posix())
    return replace(place, file=in_checkout(place.file, root))


def files_in(root: Path) -> Here:
    """Return a function that returns whether a profiled source is in the checkout at `root`."""

    def here(file: str) -> bool:
        path = PurePosixPath(in_checkout(file, root))
        return not path.is_absolute() and ".." not in path.parts and (root / path).is_file()

    return here
