"""Edits that turn one text into another, hunk by hunk: an editor keeps its cursor and folds elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from lsprotocol import types


def edits(before: str, after: str) -> Iterator[types.TextEdit]:
    """Yield an edit of whole lines for each part that differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for tag, first, last, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            where = types.Range(types.Position(first, 0), types.Position(last, 0))
            yield types.TextEdit(where, "".join(new[start:stop]))
