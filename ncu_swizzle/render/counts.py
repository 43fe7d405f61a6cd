"""Per-line and per-file counts of each profile, before they become text.

A line includes everything inlined into it, so a call counts what it calls and lines do not add up: file totals are
summed over instructions instead. The worst lines are those that `attribution` blames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from ncu_swizzle.base.bounds import OutOfTime, within
from ncu_swizzle.render.text import MINUS
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import Total
from ncu_swizzle.reports.model import Profile

# Align two versions of a file line by line, as a diff does.

MOST_LINES = 10_000
LIMIT_S = 2.0  # of processor time: texts of one family of lines in another order take quadratic time
ALIKE = 0.5  # minimum share of common lines; with less, two texts are not versions of one file

Pair = tuple[int | None, int | None]  # a line's number before and after; None if that version lacks it


def align(before: str, after: str) -> tuple[Pair, ...] | None:
    """Return the lines of both texts in one order, equal lines paired; None if they are too different or too long."""
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > MOST_LINES:
        return None
    matcher = SequenceMatcher(None, old, new)
    try:
        with within(LIMIT_S):
            blocks = matcher.get_matching_blocks()
    except OutOfTime:
        return None
    # difflib's ratio: twice the lines in common over all lines.
    if 2 * sum(block.size for block in blocks) < ALIKE * (len(old) + len(new)):
        return None
    pairs: list[Pair] = []
    done_old = done_new = 0
    for block in blocks:
        pairs += [(number, None) for number in range(done_old + 1, block.a + 1)]
        pairs += [(None, number) for number in range(done_new + 1, block.b + 1)]
        pairs += [(block.a + step, block.b + step) for step in range(1, block.size + 1)]
        done_old, done_new = block.a + block.size, block.b + block.size
    return tuple(pairs)


def _lines(text: str) -> list[str]:
    # Not splitlines: it also splits at form feeds, which compilers and highlighters do not count.
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


MINOR_FILE = 1.0  # percent of the samples; a file with fewer, and without excess, is only named
MOST_COLUMNS = 4  # profiles beside one source; more leave no room for the code


@dataclass(kw_only=True)
class FileCounts:
    """One profile's counts of one file."""

    label: str
    all_samples: int  # of the whole profile
    lines: dict[int, Total] = field(default_factory=dict)
    excessive: int = 0
    samples: int = 0
    sites: Counter[int] = field(default_factory=Counter)  # excessive wavefronts by blamed line
    own: Counter[int] = field(default_factory=Counter)  # samples by line, callees excluded
    unknown: frozenset[int] = frozenset()  # lines with an access whose wavefronts are unknown

    def share(self, samples: int) -> float | None:
        """Return these samples in percent of the profile's; None if it has none."""
        return 100 * samples / self.all_samples if self.all_samples else None

    def accesses(self, line: int) -> bool:
        """Return whether the line accesses shared memory."""
        return line in self.unknown or self.lines[line].wavefronts is not None


@dataclass(frozen=True, kw_only=True)
class File:
    """One version of a source file, with the counts of the profiles built from it; `text` is None if no report has it.

    If `after` is another version of the text, `pairs` aligns the two, all counts are by row of `pairs`, and the
    counts of the last `newer` profiles belong to `after`.
    """

    path: str
    text: str | None
    counts: tuple[FileCounts, ...]
    after: str | None = None
    pairs: tuple[Pair, ...] = ()
    newer: int = 0

    def pair(self, row: int) -> Pair:
        """Return the line numbers of a row of two aligned versions; the row's own number for a single text."""
        return self.pairs[row - 1] if 1 <= row <= len(self.pairs) else (row, row)

    def mark(self, row: int) -> str:
        """Return "−" or "+" if only the first or the second version has the row's line."""
        old, new = self.pair(row)
        return "+" if old is None else MINUS if new is None else ""

    def numbers(self, row: int) -> tuple[int | None, ...]:
        """Return the row's line number in each profile's version."""
        old, new = self.pair(row)
        return (old,) * (len(self.counts) - self.newer) + (new,) * self.newer

    def shown(self, row: int) -> str:
        """Return a row's line number; both numbers if they differ between the two versions."""
        old, new = self.pair(row)
        return str(old or new) if old is None or new is None or old == new else f"{old}→{new}"

    @property
    def badness(self) -> tuple[int, int, float]:
        """The sort key of files: the most that a profile blames on the file, inlines through it, and samples there."""
        sampled = max(c.share(c.samples) or 0.0 for c in self.counts)
        return max(c.sites.total() for c in self.counts), max(c.excessive for c in self.counts), sampled

    @property
    def matters(self) -> bool:
        """Whether the file is shown in full: it has excess or enough samples, or nothing was sampled."""
        _, excessive, sampled = self.badness
        return excessive > 0 or sampled >= MINOR_FILE or not any(c.all_samples for c in self.counts)


def files(comparison: Comparison) -> list[File]:
    """Return every source file with counts, two versions of one path aligned if they are alike."""
    groups: dict[tuple[str, str | None], list[FileCounts]] = {}
    for label, profile in comparison.named:
        for path, counts in _count(label, profile).items():
            if counts.lines:
                groups.setdefault((path, profile.sources.get(path)), []).append(counts)
    by_path: dict[str, list[File]] = {}
    for (path, source), group in groups.items():
        by_path.setdefault(path, []).append(File(path=path, text=source, counts=tuple(group)))
    aligned = [_pair(*versions) if len(versions) == 2 else None for versions in by_path.values()]
    merged = zip(aligned, by_path.values(), strict=True)
    return [file for both, versions in merged for file in ([both] if both else versions)]


def _pair(before: File, after: File) -> File | None:
    pairs = align(before.text, after.text) if before.text and after.text else None
    if pairs is None or len(before.counts) + len(after.counts) > MOST_COLUMNS:
        return None
    old = {number: row for row, (number, _) in enumerate(pairs, start=1) if number}
    new = {number: row for row, (_, number) in enumerate(pairs, start=1) if number}
    counts = (*(_moved(c, old) for c in before.counts), *(_moved(c, new) for c in after.counts))
    return File(
        path=before.path, text=before.text, counts=counts, after=after.text, pairs=pairs, newer=len(after.counts)
    )


def _moved(counts: FileCounts, rows: Mapping[int, int]) -> FileCounts:
    """Return counts keyed by row instead of line; lines that the text lacks are dropped."""
    return replace(
        counts,
        lines={rows[number]: total for number, total in counts.lines.items() if number in rows},
        sites=Counter({rows[number]: excess for number, excess in counts.sites.items() if number in rows}),
        own=Counter({rows[number]: samples for number, samples in counts.own.items() if number in rows}),
        unknown=frozenset(rows[number] for number in counts.unknown if number in rows),
    )


def _count(label: str, profile: Profile) -> dict[str, FileCounts]:
    """Return one profile's counts for each file."""
    files: dict[str, FileCounts] = {}
    all_samples = sum(i.all_samples for i in profile.instructions)
    unknown = {location for access in profile.shared() if access.wavefronts is None for location in access.stack}
    for (path, number), total in profile.lines.items():
        counts = files.setdefault(path, FileCounts(label=label, all_samples=all_samples))
        if (path, number) in unknown:
            counts.unknown |= {number}
        if total.samples or total.wavefronts is not None or (path, number) in unknown:
            counts.lines[number] = total
    for instruction in profile.instructions:
        if not instruction.stack:
            continue
        for path in {path for path, _ in instruction.stack}:
            files[path].excessive += instruction.excessive or 0
            files[path].samples += instruction.all_samples
        files[instruction.file].own[instruction.line] += instruction.all_samples
    for access, (path, number), _ in attribution.sites(profile):
        if access.excessive:
            files[path].sites[number] += access.excessive
    return files
