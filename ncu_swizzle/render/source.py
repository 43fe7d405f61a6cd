"""A report's source files, in colours, line by line with their counts.

A line includes everything inlined into it, so a call counts what it calls and lines do not add up: file totals are
summed over instructions instead. The worst lines are those that `attribution` blames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from ncu_swizzle.base.bounds import OutOfTime, within
from ncu_swizzle.render import text
from ncu_swizzle.render.colours import Coloured, Line, Token
from ncu_swizzle.render.text import MINUS, shortened
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import Total
from ncu_swizzle.reports.model import Profile

# Align two versions of a file line by line, as a diff does.

MOST_LINES = 10_000  # of a file that is aligned, or shown whole
LIMIT_S = 2.0  # of processor time: texts of one family of lines in another order take quadratic time
ALIKE = 0.5  # minimum share of common lines; with less, two texts are not versions of one file

Pair = tuple[int | None, int | None]  # a line's number before and after; None if that version lacks it


def align(before: str, after: str) -> tuple[Pair, ...] | None:
    """Return the lines of both texts in one order, equal lines paired; None if they are too different or too long."""
    old, new = _split(before), _split(after)
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


def _split(content: str) -> list[str]:
    # Not splitlines: it also splits at form feeds, which compilers and highlighters do not count.
    lines = content.split("\n")
    return lines if lines[-1] else lines[:-1]


MINOR_FILE = 1.0  # percent of the samples; a file with fewer, and without excess, is only named
MOST_COLUMNS = 4  # profiles next to one source; more leave no room for the code


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


# The lines of a source file on a page: all, or as many of those with counts as fit.

MOST_CHARACTERS = 4_000_000  # of a file that is shown


Highlight = Callable[[str, str], Coloured]  # text, path → lines


class SourceLine(NamedTuple):
    """One line, or one row of two aligned versions; `counted` if some profile has counts for it."""

    number: int
    tokens: Line
    counted: bool


def _lines(file: File, highlight: Highlight, room: int) -> tuple[list[SourceLine], tuple[str, ...]]:
    """Return the lines of a file that a page with this much room shows, and notes on the rest."""
    content = file.text or ""
    notes: list[str] = []
    size = max(content.count("\n") + 1, len(file.pairs))
    weights: dict[int, tuple[int, int]] = {}  # of each line with counts: the most excess and samples of any profile
    for counts in file.counts:
        for number, total in counts.lines.items():
            excess, samples = weights.get(number, (0, 0))
            weights[number] = (max(excess, total.excessive or 0), max(samples, total.samples))
    lines: list[SourceLine] = []
    texts: Sequence[str] = ()
    if len(content) <= MOST_CHARACTERS and size <= min(MOST_LINES, room):
        tokens = _tokens(file, highlight, notes)
        lines = [SourceLine(n, line, n in weights) for n, line in enumerate(tokens, start=1)]
    else:
        notes.append(f"The file has {size:,} lines, more than a page shows: only lines with counts are listed.")
        if len(content) <= MOST_CHARACTERS:
            texts = content.split("\n")
        else:
            long = f"Its {len(content):,} characters are more than a page shows"
            notes.append(f"{long}: the lines are listed without text.")
    # Lines with counts beyond those: the worst that fit.
    beyond = [number for number in weights if not 1 <= number <= len(lines)]
    beyond.sort(key=lambda number: (*(-weight for weight in weights[number]), number))
    kept = sorted(beyond[: max(0, room - len(lines))])
    if len(kept) < len(beyond):
        notes.append(f"{len(beyond) - len(kept):,} more lines with counts are not shown.")
    if not file.pairs:
        shown = [(Token("", shortened(texts[n - 1])),) if 1 <= n <= len(texts) else () for n in kept]
        lines += [SourceLine(number, line, True) for number, line in zip(kept, shown, strict=True)]
    return lines, tuple(notes)


def _tokens(file: File, highlight: Highlight, notes: list[str]) -> Sequence[Line]:
    texts = ("\n".join(map(shortened, (text or "").split("\n"))) for text in (file.text, file.after))
    before, after = (highlight(text, file.path) if text else Coloured(()) for text in texts)
    notes += dict.fromkeys(note for note in (before.note, after.note) if note)
    if file.after is None:
        return before.lines
    rows = [(before.lines, old) if old else (after.lines, new) for old, new in file.pairs]
    return [lines[number - 1] if number and number <= len(lines) else () for lines, number in rows]


MINOR_LINE = 0.5  # percent of the samples; a line with fewer, and without shared-memory accesses, is folded
AROUND = 3  # lines of context around a line that matters
SHORTEST_FOLD = 8  # fewer lines are not worth hiding
WORST_LINES = 5
MOST_FILES = 50  # shown in full
MOST_NAMED = 100  # files that are only named
MOST_ROWS = 20_000  # lines of all files


class CodeBlock(NamedTuple):
    """Consecutive lines, all shown or all folded."""

    lines: tuple[SourceLine, ...]
    folded: bool


class Jump(NamedTuple):
    """A line that stands out, and why."""

    number: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One version of a file, or two aligned ones, with a column of counts for the first profiles built from it.

    Bars are relative to the `widest` line of the file, in wavefronts, and shades to `most_samples`, in percent.
    """

    key: str
    file: File
    columns: tuple[FileCounts, ...]
    blocks: tuple[CodeBlock, ...]
    worst: tuple[Jump, ...]
    open: bool
    notes: tuple[str, ...]  # what is not shown, and why
    widest: int
    most_samples: float

    @property
    def summary(self) -> str:
        return "; ".join(
            f"{c.label}: {text.count(c.excessive)} excessive, {text.percent(c.share(c.samples))} of its "
            + (f"{text.count(c.all_samples)} samples" if c.all_samples else "samples")
            for c in self.columns
        )

    def target(self, line: SourceLine | Jump) -> str:
        """Return the link target of a line."""
        return f"{self.key}-{line.number}"

    def bars(self, counts: FileCounts, number: int) -> str:
        """Return a line's bar and shade as CSS variables, without those that have nothing to show."""
        total = counts.lines[number].known
        ideal = text.width(min(total.ideal or 0, total.wavefronts or 0), self.widest) if total.wavefronts else ""
        excess = text.width(total.excessive, self.widest) if total.excessive else ""
        heat = text.shade(counts.share(counts.lines[number].samples), self.most_samples)
        variables = (("--i", ideal), ("--x", excess), ("--warm", heat))
        return ";".join(f"{name}:{value}" for name, value in variables if value)


def brief(total: Total) -> str:
    """Return a line's excess in a few digits."""
    excess = total.known.excessive
    return f"≥ {text.short(excess)}" if total.excessive is None and excess else text.short(total.excessive)


def panels(comparison: Comparison, highlight: Highlight, prefix: str = "") -> tuple[tuple[Panel, ...], tuple[str, ...]]:
    """Return the files that matter and the paths of the others; `prefix` starts every link target.

    Files with known text come first, the worst of them leading.
    """
    counted = sorted(files(comparison), key=lambda file: (not file.text, *(-n for n in file.badness), file.path))
    shown = [file for file in counted if file.matters]
    in_full: list[Panel] = []
    room = MOST_ROWS
    for number, file in enumerate(shown[:MOST_FILES], 1):
        in_full.append(_panel(f"{prefix}s{number}", file, highlight, number == 1, room))
        room -= sum(len(block.lines) for block in in_full[-1].blocks)
    others = [file.path for file in (*shown[MOST_FILES:], *(file for file in counted if not file.matters))]
    more = [f"{len(others) - MOST_NAMED:,} more files"] if len(others) > MOST_NAMED else []
    return tuple(in_full), (*(shortened(path) for path in others[:MOST_NAMED]), *more)


def _panel(key: str, file: File, highlight: Highlight, first: bool, room: int) -> Panel:
    blamed, *_ = file.badness
    lines, notes = _lines(file, highlight, room)
    worst = _worst(file)
    totals = [(counts, total) for counts in file.counts for total in counts.lines.values()]
    return Panel(
        key=key,
        file=file,
        columns=file.counts[:MOST_COLUMNS],
        blocks=_blocks(file, lines, {jump.number for jump in worst}),
        worst=worst,
        open=first or blamed > 0,
        notes=notes,
        widest=max((total.known.wavefronts or 0 for _, total in totals), default=0),
        most_samples=max((counts.share(total.samples) or 0 for counts, total in totals), default=0),
    )


def _blocks(file: File, lines: Sequence[SourceLine], linked: set[int]) -> tuple[CodeBlock, ...]:
    """Split the lines into those near one that matters, shown, and the long stretches between, folded."""
    mattering = linked | {
        number
        for counts in file.counts
        for number, total in counts.lines.items()
        if counts.accesses(number) or (counts.share(total.samples) or 0.0) >= MINOR_LINE
    }
    near = {
        around
        for line in lines
        if line.number in mattering or file.mark(line.number)
        for around in range(line.number - AROUND, line.number + AROUND + 1)
    }
    runs = [(shown, tuple(run)) for shown, run in groupby(lines, key=lambda line: line.number in near)]
    joined = [(shown or len(run) < SHORTEST_FOLD or len(runs) == 1, run) for shown, run in runs]
    return tuple(
        CodeBlock(tuple(line for _, run in group for line in run), folded=not shown)
        for shown, group in groupby(joined, key=lambda entry: entry[0])
    )


def _worst(file: File) -> tuple[Jump, ...]:
    """Return the worst lines in any one profile: by blamed excess, else by inlined excess, else by samples."""
    labelled = len(file.counts) > 1

    def excess(counts: FileCounts, value: float) -> str:
        return f"{text.count(value)} excessive" + (f" in {counts.label}" if labelled else "")

    def share(counts: FileCounts, value: float) -> str:
        whose = f" of {counts.label}" if labelled else ""
        return f"{text.percent(value)} of {text.count(counts.all_samples)} samples{whose}"

    def peaks(
        values: Callable[[FileCounts], Iterable[tuple[int, float]]], why: Callable[[FileCounts, float], str]
    ) -> dict[int, tuple[float, str]]:
        """Return the largest value of each line over the profiles, and its caption."""
        largest: dict[int, tuple[float, str]] = {}
        for counts in file.counts:
            for number, value in values(counts):
                if value > largest.get(number, (0.0, ""))[0]:
                    largest[number] = (value, why(counts, value))
        return largest

    ranked = (
        peaks(lambda c: c.sites.items(), excess)
        or peaks(lambda c: ((n, total.known.excessive or 0) for n, total in c.lines.items()), excess)
        or peaks(lambda c: ((n, c.share(c.own[n]) or 0.0) for n in c.lines), share)
    )
    order = sorted(ranked, key=lambda number: (-ranked[number][0], number))
    return tuple(Jump(number, ranked[number][1]) for number in order[:WORST_LINES])
