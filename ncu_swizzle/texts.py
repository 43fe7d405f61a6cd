"""Text helpers: one or several texts, problem sizes, and single printable lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Texts = str | Sequence[str]  # one text, or several

# C0 and C1 controls, lone surrogates, and characters that move or reorder text: none belongs in a log line.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]+")


def listed(texts: Texts) -> tuple[str, ...]:
    """Return the texts as a tuple."""
    return (texts,) if isinstance(texts, str) else tuple(map(str, texts))


def in_words(problem: Mapping[str, int]) -> str:
    """Return a problem as on the command line: ``batch=4 heads=16 seq=4096``."""
    return " ".join(f"{name}={size}" for name, size in problem.items())


def one_line(text: str) -> str:
    """Return possibly hostile text, such as a name from a report, as one printable line."""
    return _UNPRINTABLE.sub(" ", text)


def printable(text: str) -> str:
    """Return a text without what would move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
