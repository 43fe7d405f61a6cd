"""The source of a report, line by line with its counts.

A line counts all that was inlined there, so a call counts what it calls and lines do not add up: what a file has is
counted by instruction. The worst lines are the sites of the conflicts, see `_site`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ncu_swizzle.compare import Comparison
from ncu_swizzle.profile import Location, Profile, Total
from ncu_swizzle.view import text

MINOR_FILE = 1.0  # percent of the samples; a file without excess and with less of them is only named
WORST_LINES = 5


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a source line; `kind` is a CSS class, empty for plain text."""

    kind: str
    text: str


Line = tuple[Token, ...]
Stack = tuple[Location, ...]
Highlight = Callable[[str, str], Sequence[Line]]  # text, path → lines


@dataclass(frozen=True, slots=True)
class LineCounts:
    """What one profile counted on a line; the heats are shades from 0 to 1, or empty."""

    wavefronts: str
    excessive: str
    degree: str
    samples: str
    excess_heat: str
    sample_heat: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line; without counts, `counts` is empty, else it has one entry per profile of the panel."""

    number: int
    tokens: Line
    counts: tuple[LineCounts | None, ...] = ()


@dataclass(frozen=True)
class Jump:
    """A link to a line that stands out."""

    target: str
    path: str
    number: int
    why: str


@dataclass(frozen=True)
class Panel:
    """One text of one file, with the counts of every profile that was built from it."""

    key: str
    path: str
    labels: tuple[str, ...]
    lines: tuple[SourceLine, ...]
    worst: tuple[Jump, ...]
    summary: str
    embedded: bool
    open: bool


@dataclass
class _Counts:
    """One profile's counts of one file."""

    label: str
    all_samples: int  # of the profile, in any file
    lines: dict[int, Total] = field(default_factory=dict)
    excessive: int = 0
    samples: int = 0
    sites: Counter[int] = field(default_factory=Counter)  # excessive wavefronts by line
    own: Counter[int] = field(default_factory=Counter)  # samples by line, without what it calls

    def share(self, samples: int) -> float | None:
        return 100 * samples / self.all_samples if self.all_samples else None


@dataclass(frozen=True)
class _File:
    """One text of one path, with the counts of the profiles built from it; None where no report has the text."""

    path: str
    text: str | None
    counts: tuple[_Counts, ...]

    @property
    def badness(self) -> tuple[int, int, float]:
        """What files are sorted by: excess that arises in the file, that passes through it, share of samples."""
        sampled = max(c.share(c.samples) or 0.0 for c in self.counts)
        return sum(c.sites.total() for c in self.counts), sum(c.excessive for c in self.counts), sampled

    @property
    def matters(self) -> bool:
        _, excessive, sampled = self.badness
        return excessive > 0 or sampled >= MINOR_FILE or not any(c.all_samples for c in self.counts)


def panels(comparison: Comparison, highlight: Highlight) -> tuple[tuple[Panel, ...], tuple[str, ...]]:
    """Return the files that matter, worst first, and the paths of those that do not."""
    files = sorted(_files(comparison), key=lambda file: (*(-part for part in file.badness), file.path))
    shown = [file for file in files if file.matters]
    made = tuple(_panel(f"s{index}", file, highlight) for index, file in enumerate(shown, start=1))
    return made, tuple(file.path for file in files if not file.matters)


def _files(comparison: Comparison) -> list[_File]:
    groups: dict[tuple[str, str | None], list[_Counts]] = {}
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        for path, counts in _count(label, profile).items():
            if counts.lines:
                groups.setdefault((path, profile.sources.get(path)), []).append(counts)
    return [_File(path, source, tuple(counts)) for (path, source), counts in groups.items()]


def _count(label: str, profile: Profile) -> dict[str, _Counts]:
    """Return one profile's counts by file."""
    files: dict[str, _Counts] = {}
    all_samples = sum(sum(i.samples.values()) for i in profile.instructions)
    totals = profile.lines
    for (path, number), total in totals.items():
        counts = files.setdefault(path, _Counts(label, all_samples))
        if total.samples or total.wavefronts is not None:
            counts.lines[number] = total
    accesses = _executed_accesses(profile)
    for instruction in profile.instructions:
        if not instruction.stack:
            continue
        samples = sum(instruction.samples.values())
        for path in {path for path, _ in instruction.stack}:
            files[path].excessive += instruction.excessive or 0
            files[path].samples += samples
        files[instruction.file].own[instruction.line] += samples
        if instruction.excessive:
            path, number = _site(instruction.stack, totals, accesses)
            files[path].sites[number] += instruction.excessive
    return files


def _executed_accesses(profile: Profile) -> Counter[Location]:
    executed: Counter[Location] = Counter()
    for instruction in profile.shared():
        for location in dict.fromkeys(instruction.stack):
            executed[location] += instruction.executed or 0
    return executed


def _site(stack: Stack, totals: Mapping[Location, Total], accesses: Mapping[Location, int]) -> Location:
    """Return the line to blame for an access: the outermost one that is mostly shared-memory accesses.

    The innermost line is often an asm statement in a helper, the outermost one the call of the whole kernel.
    """
    site, *callers = stack
    for caller in callers:
        if 2 * accesses[caller] <= (totals[caller].executed or 0):
            break
        site = caller
    return site


def _panel(key: str, file: _File, highlight: Highlight) -> Panel:
    arises, *_ = file.badness
    return Panel(
        key=key,
        path=file.path,
        labels=tuple(counts.label for counts in file.counts),
        lines=_lines(file, highlight(file.text, file.path) if file.text else ()),
        worst=_worst(key, file),
        summary="; ".join(_summary(counts) for counts in file.counts),
        embedded=bool(file.text),
        open=key == "s1" or arises > 0,
    )


def _summary(counts: _Counts) -> str:
    share = text.percent(counts.share(counts.samples))
    return f"{counts.label}: {text.count(counts.excessive)} excessive, {share} of its samples"


def _lines(file: _File, tokens: Sequence[Line]) -> tuple[SourceLine, ...]:
    """Return every line of the text, and the lines with counts that the text does not reach."""
    counted = {number for counts in file.counts for number in counts.lines}
    most_excess = max((t.excessive or 0 for c in file.counts for t in c.lines.values()), default=0)
    most_samples = max((c.share(t.samples) or 0 for c in file.counts for t in c.lines.values()), default=0)

    def cells(number: int) -> tuple[LineCounts | None, ...]:
        if number not in counted:
            return ()
        return tuple(_cells(c, c.lines.get(number), most_excess, most_samples) for c in file.counts)

    within = [SourceLine(number, line, cells(number)) for number, line in enumerate(tokens, start=1)]
    beyond = sorted(number for number in counted if not 1 <= number <= len(tokens))
    return (*within, *(SourceLine(number, (), cells(number)) for number in beyond))


def _cells(counts: _Counts, total: Total | None, most_excess: int, most_samples: float) -> LineCounts | None:
    if total is None:
        return None
    accesses = total.wavefronts is not None
    share = counts.share(total.samples)
    return LineCounts(
        wavefronts=text.count(total.wavefronts) if accesses else "",
        excessive=text.count(total.excessive) if accesses else "",
        degree=text.degree(total.degree) if total.wavefronts and total.ideal != 0 else "",
        samples=text.percent(share),
        excess_heat=text.shade(total.excessive, most_excess),
        sample_heat=text.shade(share, most_samples),
    )


def _worst(key: str, file: _File) -> tuple[Jump, ...]:
    """Return links to the sites of most excess; where there are none, to the lines that it or the time passes."""
    sites = sum((counts.sites for counts in file.counts), Counter[int]())
    passing: Counter[int] = Counter()
    sampled: dict[int, float] = {}
    for counts in file.counts:
        for number, total in counts.lines.items():
            passing[number] += total.excessive or 0
            sampled[number] = max(sampled.get(number, 0.0), counts.share(counts.own[number]) or 0.0)
    ranked = sites or +passing or Counter(sampled)
    order = sorted(ranked, key=lambda number: (-ranked[number], number))[:WORST_LINES]
    return tuple(Jump(f"{key}-{number}", file.path, number, _why(number, passing, sampled)) for number in order)


def _why(number: int, excess: Counter[int], sampled: dict[int, float]) -> str:
    return f"{text.count(excess[number])} excessive" if excess[number] else f"{sampled[number]:.1f} % of the samples"
