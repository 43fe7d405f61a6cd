"""A report's source files, in colours, line by line with their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from ncu_swizzle.render import text
from ncu_swizzle.render.colours import Coloured, Line, Token
from ncu_swizzle.render.counts import MOST_COLUMNS, File, FileCounts
from ncu_swizzle.render.counts import files as count_files
from ncu_swizzle.render.text import cut
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import Total

# What a page shows of a source file: all lines, or as many of those with counts as there is room for.

MOST_LINES = 10_000  # of a file that is shown whole
MOST_CHARACTERS = 4_000_000  # of a file that is shown
LONGEST_LINE = 2_000  # characters


Highlight = Callable[[str, str], Coloured]  # text, path → lines


class SourceLine(NamedTuple):
    """One line, or one row of two aligned versions; `counted` if some profile has counts of it."""

    number: int
    tokens: Line
    counted: bool


def _lines(file: File, highlight: Highlight, room: int) -> tuple[list[SourceLine], tuple[str, ...]]:
    """Return what a page with room for this many lines shows of a file, and notes on what it does not show."""
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
        lines = [SourceLine(n, _shortened(line), n in weights) for n, line in enumerate(tokens, start=1)]
    else:
        notes.append(f"The file has {size:,} lines, more than a page shows: only lines with counts are listed.")
        if len(content) <= MOST_CHARACTERS:
            texts = content.split("\n")
        else:
            long = f"Its {len(content):,} characters are more than a page shows"
            notes.append(f"{long}: the lines are listed without text.")
    # Lines with counts beyond those: the worst, as there is room.
    beyond = [number for number in weights if not 1 <= number <= len(lines)]
    beyond.sort(key=lambda number: (*(-weight for weight in weights[number]), number))
    kept = sorted(beyond[: max(0, room - len(lines))])
    if len(kept) < len(beyond):
        notes.append(f"{len(beyond) - len(kept):,} more lines with counts are not shown.")
    if not file.pairs:
        shown = [(Token("", cut(texts[n - 1])),) if 1 <= n <= len(texts) else () for n in kept]
        lines += [SourceLine(number, line, True) for number, line in zip(kept, shown, strict=True)]
    return lines, tuple(notes)


def _shortened(line: Line) -> Line:
    """Return a line of at most LONGEST_LINE characters."""
    if sum(len(token.text) for token in line) <= LONGEST_LINE:
        return line
    left = LONGEST_LINE
    short: list[Token] = []
    for token in line:
        if left < len(token.text):
            return (*short, Token(token.kind, cut(token.text, left)))
        short.append(token)
        left -= len(token.text)
    return tuple(short)


def _tokens(file: File, highlight: Highlight, notes: list[str]) -> Sequence[Line]:
    before = highlight(file.text, file.path) if file.text else Coloured(())
    after = highlight(file.after, file.path) if file.after is not None else Coloured(())
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


class Block(NamedTuple):
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
    blocks: tuple[Block, ...]
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
    known = total.known.excessive
    return f"≥ {text.short(known)}" if total.excessive is None and known else text.short(total.excessive)


def panels(comparison: Comparison, highlight: Highlight, prefix: str = "") -> tuple[tuple[Panel, ...], tuple[str, ...]]:
    """Return the files that matter and the paths of the others; `prefix` starts every link target.

    Files whose text is known come first, and of those the worst.
    """
    files = sorted(count_files(comparison), key=lambda file: (not file.text, *(-n for n in file.badness), file.path))
    shown = [file for file in files if file.matters]
    in_full: list[Panel] = []
    room = MOST_ROWS
    for number, file in enumerate(shown[:MOST_FILES], 1):
        in_full.append(_panel(f"{prefix}s{number}", file, highlight, number == 1, room))
        room -= sum(len(block.lines) for block in in_full[-1].blocks)
    others = [file.path for file in (*shown[MOST_FILES:], *(file for file in files if not file.matters))]
    more = [f"{len(others) - MOST_NAMED:,} more files"] if len(others) > MOST_NAMED else []
    return tuple(in_full), (*(cut(path) for path in others[:MOST_NAMED]), *more)


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


def _blocks(file: File, lines: Sequence[SourceLine], linked: set[int]) -> tuple[Block, ...]:
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
        Block(tuple(line for _, run in group for line in run), folded=not shown)
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
        """Return the largest value of each line over the profiles, and what to say of it."""
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
