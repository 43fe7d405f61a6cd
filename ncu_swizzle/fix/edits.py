"""Edits of a text by byte range, and what they look like as a patch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Edit:
    """The bytes from `start` to `end` are replaced; both are equal if something is inserted."""

    start: int
    end: int
    text: str


class Overlap(ValueError):
    """Two different edits of the same bytes."""


def edited(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the text with all edits made; raise Overlap if two of them overlap."""
    parts, reached = [], 0
    for edit in sorted(set(edits)):
        if edit.start < reached:
            raise Overlap(f"two edits of byte {edit.start}")
        parts += [text[reached : edit.start], edit.text.encode("utf-8", "surrogateescape")]
        reached = edit.end
    return b"".join([*parts, text[reached:]])


def composition(start: int, end: int, prefix: str, swizzle: object) -> tuple[Edit, Edit]:
    """Return the edits that compose the layout between two bytes with a swizzle; `prefix` qualifies CuTe's names."""
    return Edit(start, start, f"{prefix}composition({prefix}{swizzle}{{}}, "), Edit(end, end, ")")


def line_end(text: bytes, at: int) -> str:
    """Return how the line that a byte is in ends; of the last one, how the one before it does."""
    end = text.find(b"\n", at)
    end = end if end >= 0 else text.rfind(b"\n")
    return "\r\n" if text[max(0, end - 1) : end] == b"\r" else "\n"


def unified(before: bytes, after: bytes, name: str) -> str:
    """Return the difference as a patch that ``git apply`` and ``patch -p1`` take."""
    old, new = (text.decode("utf-8", "surrogateescape").splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(_split(old), _split(new), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(lines: list[str]) -> list[str]:
    """Return lines as ``\\n`` ends them: a form feed within a line is part of it."""
    return "".join(lines).replace("\n", "\n\0").removesuffix("\0").split("\0") if lines else []
