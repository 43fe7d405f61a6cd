"""Quotations of what other programs printed: a few lines of bounded length, whatever the program printed."""

from __future__ import annotations

from collections.abc import Iterable

LINES = 5
CHARACTERS = 300  # of a line
CUT = "…"


def shortened(line: str, most: int = CHARACTERS) -> str:
    """Return a line of at most `most` characters; "…" stands for the rest."""
    return line if len(line) <= most else line[: most - len(CUT)] + CUT


def quoted(lines: Iterable[str]) -> str:
    """Return the first few of these lines, each shortened."""
    return "\n".join(shortened(line) for line, _ in zip(lines, range(LINES), strict=False))


def last_lines(text: str) -> str:
    """Return the last few lines of a program's output, each shortened: enough to see why it failed."""
    return quoted(text.strip().splitlines()[-LINES:])


def some(names: Iterable[str], most: int = 8) -> str:
    """Return names in a sentence, the first few of many."""
    every = list(names)
    more = [f"{len(every) - most} more"] if len(every) > most else []
    return ", ".join([*(shortened(name) for name in every[:most]), *more])
