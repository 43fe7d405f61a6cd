"""What a page shows of a source file: all lines, or as many of those with counts as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.render.view.counts import File
from ncu_swizzle.render.view.text import cut

MOST_LINES = 10_000  # of a file that is shown whole
MOST_CHARACTERS = 4_000_000  # of a file that is shown
LONGEST_LINE = 2_000  # characters


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a source line; `kind` is a CSS class, empty for plain text."""

    kind: str
    text: str


Line = tuple[Token, ...]


@dataclass(frozen=True)
class Coloured:
    """The lines of a source, and why they have no colours; the note is empty if they have."""

    lines: Sequence[Line]
    note: str = ""


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
