"""A command line's words, split as a shell would, in bounded time."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ncu_swizzle.errors import UsageError

# Characters, as many as Linux takes in one argument. shlex's time grows with the square of a word's length.
MOST = 1 << 17


def split(text: str, what: str, example: str) -> tuple[str, ...]:
    """Return the words of shell-quoted text; raise UsageError, whose hint is the `example`, if it cannot be split."""
    if len(text) > MOST:
        raise UsageError(f"{what} has {len(text):,} characters, and at most {MOST:,} are split into words", example)
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{what} cannot be split: {error}", example) from error


def split_all(texts: Iterable[str], what: str, example: str) -> tuple[str, ...]:
    """Return the words of several texts, one after another; see `split`."""
    return tuple(word for text in texts for word in split(text, what, example))
