"""What each profile counted on the lines of each file, before any of it is a text.

A line counts all that was inlined there, so a call counts what it calls and lines do not add up: what a file has is
counted by instruction. The worst lines are those that `blame` finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.counts import Total
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view.align import Pair, align

MINOR_FILE = 1.0  # percent of the samples; a file without excess and with less of them is only named
MOST_COLUMNS = 4  # profiles beside one text; more would leave no room for it


@dataclass
class Counts:
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
class File:
    """One text of one path, with the counts of the profiles built from it; None where no report has the text.

    Where `after` is another version of the text, `pairs` aligns the two, all counts are by row of `pairs`, and the
    counts of the last `newer` profiles are of `after`.
    """

    path: str
    text: str | None
    counts: tuple[Counts, ...]
    after: str | None = None
    pairs: tuple[Pair, ...] = ()
    newer: int = 0

    def shown(self, row: int) -> str:
        """Return what a reader calls a row: the line's number, or both where the two texts differ."""
        if not 1 <= row <= len(self.pairs):
            return str(row)
        old, new = self.pairs[row - 1]
        return str(old or new) if old is None or new is None or old == new else f"{old}→{new}"

    @property
    def badness(self) -> tuple[int, int, float]:
        """What files are sorted by: excess that arises in the file, that passes through it, share of samples."""
        sampled = max(c.share(c.samples) or 0.0 for c in self.counts)
        return sum(c.sites.total() for c in self.counts), sum(c.excessive for c in self.counts), sampled

    @property
    def matters(self) -> bool:
        _, excessive, sampled = self.badness
        return excessive > 0 or sampled >= MINOR_FILE or not any(c.all_samples for c in self.counts)


def files(comparison: Comparison) -> list[File]:
    groups: dict[tuple[str, str | None], list[Counts]] = {}
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        for path, counts in _count(label, profile).items():
            if counts.lines:
                groups.setdefault((path, profile.sources.get(path)), []).append(counts)
    return _aligned([File(path, source, tuple(counts)) for (path, source), counts in groups.items()])


def _aligned(files: Sequence[File]) -> list[File]:
    """Lay two versions of one path together; all other files stay as they are."""
    made: list[File] = []
    for path in dict.fromkeys(file.path for file in files):
        same = [file for file in files if file.path == path]
        together = _pair(*same) if len(same) == 2 else None
        made += [together] if together else same
    return made


def _pair(before: File, after: File) -> File | None:
    pairs = align(before.text, after.text) if before.text and after.text else None
    if pairs is None or len(before.counts) + len(after.counts) > MOST_COLUMNS:
        return None
    old = {number: row for row, (number, _) in enumerate(pairs, start=1) if number}
    new = {number: row for row, (_, number) in enumerate(pairs, start=1) if number}
    counts = (*(_moved(one, old) for one in before.counts), *(_moved(one, new) for one in after.counts))
    return File(before.path, before.text, counts, after.text, pairs, len(after.counts))


def _moved(counts: Counts, rows: Mapping[int, int]) -> Counts:
    """Return counts by row instead of by line; those of lines that the text does not have are left out."""
    return replace(
        counts,
        lines={rows[number]: total for number, total in counts.lines.items() if number in rows},
        sites=Counter({rows[number]: excess for number, excess in counts.sites.items() if number in rows}),
        own=Counter({rows[number]: samples for number, samples in counts.own.items() if number in rows}),
    )


def _count(label: str, profile: Profile) -> dict[str, Counts]:
    """Return one profile's counts by file."""
    files: dict[str, Counts] = {}
    all_samples = sum(sum(i.samples.values()) for i in profile.instructions)
    totals = profile.lines
    for (path, number), total in totals.items():
        counts = files.setdefault(path, Counts(label, all_samples))
        if total.samples or total.wavefronts is not None:
            counts.lines[number] = total
    for instruction in profile.instructions:
        if not instruction.stack:
            continue
        samples = sum(instruction.samples.values())
        for path in {path for path, _ in instruction.stack}:
            files[path].excessive += instruction.excessive or 0
            files[path].samples += samples
        files[instruction.file].own[instruction.line] += samples
    for access, (path, number) in attribution.sites(profile):
        if access.excessive:
            files[path].sites[number] += access.excessive
    return files
