"""Texts where a caller from Python may give one alone, or several."""

from __future__ import annotations

from collections.abc import Sequence

Texts = str | Sequence[str]


def listed(texts: Texts) -> tuple[str, ...]:
    """Return the texts, one alone as the only one."""
    return (texts,) if isinstance(texts, str) else tuple(map(str, texts))
