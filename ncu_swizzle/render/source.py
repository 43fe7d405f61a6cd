"""A report's source files, line by line with their counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ncu_swizzle.render import text
from ncu_swizzle.render.colours import Coloured, Line, Token
from ncu_swizzle.render.counts import MOST_COLUMNS, File, FileCounts
from ncu_swizzle.render.counts import files as count_files
from ncu_swizzle.render.text import cut
from ncu_swizzle.reports.comparison import Comparison

# What a page shows of a source file: all lines, or as many of those with counts as there is room for.


MOST_LINES = 10_000  # of a file that is shown whole
MOST_CHARACTERS = 4_000_000  # of a file that is shown
LONGEST_LINE = 2_000  # characters


Highlight = Callable[[str, str], Coloured]  # text, path → lines


@dataclass(frozen=True)
class Excerpt:
    """What is shown of a file: all its lines, or only some with counts, and notes on what is not."""

    lines: Sequence[Line]
    counted: Mapping[int, Line]  # lines with counts beyond those, and their texts if they are known
    notes: tuple[str, ...]


def excerpt_of(file: File, highlight: Highlight, room: int) -> Excerpt:
    """Return what is shown of a file on a page that has room for so many more lines."""
    whole = file.text or ""
    size = max(whole.count("\n") + 1, len(file.pairs))
    all_fit = len(whole) <= MOST_CHARACTERS and size <= min(MOST_LINES, room)
    notes: list[str] = []
    lines = _tokens(file, highlight, notes) if all_fit else ()
    texts: tuple[str, ...] = ()
    if not all_fit:
        notes.append(f"The file has {size:,} lines, more than a page shows: only lines with counts are listed.")
        if len(whole) <= MOST_CHARACTERS:
            texts = tuple(whole.split("\n"))
        else:
            notes.append(
                f"Its {len(whole):,} characters are more than a page shows: the lines are listed without text."
            )
    beyond = _worst_first(file, len(lines))
    kept = sorted(beyond[: max(0, room - len(lines))])
    if len(kept) < len(beyond):
        notes.append(f"{len(beyond) - len(kept):,} more lines with counts are not shown.")
    counted = {n: (Token("", cut(texts[n - 1])),) if 1 <= n <= len(texts) else () for n in kept}
    return Excerpt([_shortened(line) for line in lines], counted, tuple(notes))


def _worst_first(file: File, known: int) -> list[int]:
    """Return the lines with counts that are not among the first `known`, the most excessive and sampled first."""
    weights: dict[int, tuple[int, int]] = {}
    for counts in file.counts:
        for number, total in counts.lines.items():
            if not 1 <= number <= known:
                excess, samples = weights.get(number, (0, 0))
                weights[number] = (max(excess, total.excessive or 0), max(samples, total.samples))
    return sorted(weights, key=lambda number: (*(-weight for weight in weights[number]), number))


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
    return [_at(before.lines, old) if old else _at(after.lines, new) for old, new in file.pairs]


def _at(lines: Sequence[Line], number: int | None) -> Line:
    return lines[number - 1] if number and number <= len(lines) else ()


MINOR_LINE = 0.5  # percent of the samples; a line with fewer, and without shared-memory accesses, is folded
AROUND = 3  # lines of context around a line that matters
SHORTEST_FOLD = 8  # fewer lines are not worth hiding
WORST_LINES = 5
MOST_FILES = 50  # shown in full
MOST_NAMED = 100  # files that are only named
MOST_ROWS = 20_000  # lines of all files


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """One profile's counts of a line, formatted, and its heat bar.

    `few` if the profile has too few samples for the line's share to count.
    `brief` is the excess in a few digits. The bar's widths are relative to the file's worst line, and so is
    `sample_heat`, a shade from 0 to 1; they are empty if there is nothing to show.
    """

    brief: str
    wavefronts: str
    excessive: str
    degree: str
    samples: str
    ideal_width: str
    excess_width: str
    sample_heat: str
    few: bool

    @property
    def style(self) -> str:
        """The bar and the shade as CSS variables."""
        variables = (("--i", self.ideal_width), ("--x", self.excess_width), ("--warm", self.sample_heat))
        return ";".join(f"{name}:{value}" for name, value in variables if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line; `counts` is empty, or has one entry per profile of the panel.

    If two versions are aligned, `number` is the row, `shown` the line number to print, `mark` says that only one
    version has the line (− the first, + the second), and `numbers` holds the line's number for each profile.
    """

    number: int
    tokens: Line
    counts: tuple[LineCounts | None, ...] = ()
    shown: str = ""
    mark: str = ""
    numbers: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines, all shown or all folded."""

    lines: tuple[SourceLine, ...]
    folded: bool


@dataclass(frozen=True, kw_only=True)
class Jump:
    """A link to a line that stands out."""

    target: str
    number: int
    why: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One version of a file, or two aligned ones, with the counts of every profile built from it."""

    key: str
    path: str
    labels: tuple[str, ...]
    sampled: tuple[text.Sampled, ...]  # one per label
    left_out: tuple[str, ...]  # profiles built from this version that have no column
    blocks: tuple[Block, ...]
    worst: tuple[Jump, ...]
    summary: str
    embedded: bool
    open: bool
    notes: tuple[str, ...] = ()  # what is not shown, and why
    aligned: bool = False


def panels(comparison: Comparison, highlight: Highlight, prefix: str = "") -> tuple[tuple[Panel, ...], tuple[str, ...]]:
    """Return the files that matter and the paths of the others; `prefix` starts every link target.

    Files whose text is known come first, and of those the worst.
    """
    files = sorted(count_files(comparison), key=_order)
    shown = [file for file in files if file.matters]
    in_full: list[Panel] = []
    room = MOST_ROWS
    for number, file in enumerate(shown[:MOST_FILES], 1):
        in_full.append(_panel(f"{prefix}s{number}", file, highlight, number == 1, room))
        room -= sum(len(block.lines) for block in in_full[-1].blocks)
    others = [file.path for file in (*shown[MOST_FILES:], *(file for file in files if not file.matters))]
    more = [f"{len(others) - MOST_NAMED:,} more files"] if len(others) > MOST_NAMED else []
    return tuple(in_full), (*(cut(path) for path in others[:MOST_NAMED]), *more)


def _order(file: File) -> tuple[float | str, ...]:
    return (not file.text, *(-part for part in file.badness), file.path)


def _panel(key: str, file: File, highlight: Highlight, first: bool, room: int) -> Panel:
    arises, *_ = file.badness
    excerpt = excerpt_of(file, highlight, room)
    lines = _lines(file, excerpt)
    labels = tuple(counts.label for counts in file.counts)
    worst = _worst(key, file)
    return Panel(
        key=key,
        path=file.path,
        labels=labels[:MOST_COLUMNS],
        sampled=tuple(_sampled(counts) for counts in file.counts[:MOST_COLUMNS]),
        left_out=labels[MOST_COLUMNS:],
        blocks=_blocks(file, lines, {jump.number for jump in worst}),
        worst=worst,
        summary="; ".join(_summary(counts) for counts in file.counts[:MOST_COLUMNS]),
        embedded=bool(file.text),
        notes=excerpt.notes,
        open=first or arises > 0,
        aligned=bool(file.pairs),
    )


def _sampled(counts: FileCounts) -> text.Sampled:
    return text.Sampled(counts.label, counts.all_samples, text.few(counts.all_samples))


def _summary(counts: FileCounts) -> str:
    share = text.percent(counts.share(counts.samples))
    of = f"{text.count(counts.all_samples)} samples" if counts.all_samples else "samples"
    return f"{counts.label}: {text.count(counts.excessive)} excessive, {share} of its {of}"


def _lines(file: File, excerpt: Excerpt) -> tuple[SourceLine, ...]:
    """Return every line of the excerpt, then lines with counts beyond its end."""
    tokens = excerpt.lines
    counted = {number for counts in file.counts for number in counts.lines}
    totals = [(c, total) for c in file.counts for total in c.lines.values()]
    widest = max((total.known.wavefronts or 0 for _, total in totals), default=0)
    most_samples = max((c.share(total.samples) or 0 for c, total in totals), default=0)

    def cells(number: int) -> tuple[LineCounts | None, ...]:
        if number not in counted:
            return ()
        return tuple(_cells(c, number, widest, most_samples) for c in file.counts[:MOST_COLUMNS])

    if file.pairs:
        return tuple(_row(file, number, line, cells(number)) for number, line in enumerate(tokens, start=1))
    within = [
        SourceLine(number=number, tokens=line, counts=cells(number)) for number, line in enumerate(tokens, start=1)
    ]
    return (
        *within,
        *(SourceLine(number=number, tokens=line, counts=cells(number)) for number, line in excerpt.counted.items()),
    )


def _row(file: File, number: int, tokens: Line, counts: tuple[LineCounts | None, ...]) -> SourceLine:
    old, new = file.pairs[number - 1]
    mark = "+" if old is None else text.MINUS if new is None else ""
    numbers = (old,) * (len(file.counts) - file.newer) + (new,) * file.newer
    return SourceLine(number=number, tokens=tokens, counts=counts, shown=file.shown(number), mark=mark, numbers=numbers)


def _blocks(file: File, lines: Sequence[SourceLine], linked: set[int]) -> tuple[Block, ...]:
    """Split the lines into those near one that matters, shown, and the long stretches between, folded."""
    near = {
        around
        for line in lines
        if line.number in linked or line.mark or any(_matters(counts, line.number) for counts in file.counts)
        for around in range(line.number - AROUND, line.number + AROUND + 1)
    }
    runs = [(shown, tuple(run)) for shown, run in groupby(lines, key=lambda line: line.number in near)]
    joined = [(shown or len(run) < SHORTEST_FOLD or len(runs) == 1, run) for shown, run in runs]
    return tuple(
        Block(tuple(line for _, run in group for line in run), folded=not shown)
        for shown, group in groupby(joined, key=lambda entry: entry[0])
    )


def _matters(counts: FileCounts, number: int) -> bool:
    total = counts.lines.get(number)
    if total is None:
        return False
    return counts.accesses(number) or (counts.share(total.samples) or 0.0) >= MINOR_LINE


def _cells(counts: FileCounts, number: int, widest: int, most_samples: float) -> LineCounts | None:
    total = counts.lines.get(number)
    if total is None:
        return None
    known = total.known
    share = counts.share(total.samples)
    shown = counts.accesses(number)
    at_least = "≥ " if total.excessive is None and known.excessive else ""
    return LineCounts(
        brief=at_least + text.short(known.excessive if at_least else total.excessive) if shown else "",
        wavefronts=text.counted(total.wavefronts, known.wavefronts) if shown else "",
        excessive=text.counted(total.excessive, known.excessive) if shown else "",
        degree=text.degree(total.degree) if total.wavefronts and total.ideal != 0 else "",
        samples=text.percent(share) if counts.all_samples else "",
        ideal_width=text.width(min(known.ideal or 0, known.wavefronts or 0), widest) if known.wavefronts else "",
        excess_width=text.width(known.excessive, widest) if known.excessive else "",
        sample_heat=text.shade(share, most_samples),
        few=text.few(counts.all_samples),
    )


def _worst(key: str, file: File) -> tuple[Jump, ...]:
    """Return links to the worst lines in any one profile: by blamed excess, else by inlined excess, else by samples."""
    labelled = len(file.counts) > 1
    blamed, passing, sampled = _Worst(), _Worst(), _Worst()
    for counts in file.counts:
        for number, excess in counts.sites.items():
            blamed.see(number, excess, counts.label)
        for number, total in counts.lines.items():
            passing.see(number, total.known.excessive or 0, counts.label)
            sampled.see(number, counts.share(counts.own[number]) or 0.0, counts.label, counts.all_samples)
    ranked = next(worst for worst in (blamed, passing, sampled) if worst.values or worst is sampled)
    return tuple(
        Jump(target=f"{key}-{number}", number=number, why=ranked.values[number].why(labelled), shown=file.shown(number))
        for number in sorted(ranked.values, key=lambda number: (-ranked.values[number].value, number))[:WORST_LINES]
    )


@dataclass(frozen=True)
class _Peak:
    """A line's largest excess or, if there are `samples`, its largest share of them, and the profile that has it."""

    value: float
    label: str
    samples: int = 0

    def why(self, labelled: bool) -> str:
        if self.samples:
            whose = f" of {self.label}" if labelled else ""
            return f"{text.percent(self.value)} of {text.count(self.samples)} samples{whose}"
        return f"{text.count(self.value)} excessive" + (f" in {self.label}" if labelled else "")


class _Worst:
    """The peak of each line over the profiles."""

    def __init__(self) -> None:
        self.values: dict[int, _Peak] = {}

    def see(self, number: int, value: float, label: str, samples: int = 0) -> None:
        if value > (self.values[number].value if number in self.values else 0):
            self.values[number] = _Peak(value, label, samples)
