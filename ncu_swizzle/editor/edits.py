"""Edits that turn one text into another, hunk by hunk: an editor keeps its cursor and folds elsewhere."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from lsprotocol import types

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")  # a form feed, say, ends no line of the protocol's


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with its end."""
    return LINE.findall(text)


def edits(before: str, after: str) -> Iterator[types.TextEdit]:
    """Yield an edit of whole lines for each part that differs."""
    old, new = lines_of(before), lines_of(after)
    for tag, first, last, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            where = types.Range(types.Position(first, 0), types.Position(last, 0))
            yield types.TextEdit(where, "".join(new[start:stop]))
