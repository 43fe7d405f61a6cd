"""Align two versions of a file line by line, as a diff does."""

from __future__ import annotations

from difflib import SequenceMatcher

from ncu_swizzle.bounds.deadline import OutOfTime, within

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
