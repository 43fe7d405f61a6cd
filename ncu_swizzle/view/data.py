"""The profiles themselves, as a page carries them along."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ncu_swizzle.compare import Comparison
from ncu_swizzle.files import slug

MOST_BYTES = 4_000_000  # of all profiles together: a page has to stay small enough for a mail


@dataclass(frozen=True)
class Stored:
    """One profile, as it is saved."""

    label: str
    file: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Section:
    """The profiles that the page holds, and the labels of those that would make it too large."""

    stored: tuple[Stored, ...]
    left_out: tuple[str, ...]


def section(comparison: Comparison) -> Section:
    """Return the profiles in their order, for as long as they fit."""
    stored: list[Stored] = []
    left = MOST_BYTES
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        saved = profile.to_json()
        left -= len(saved)
        if left < 0:
            break
        stored.append(Stored(label, f"{slug(label)}.json", json.loads(saved)))
    return Section(tuple(stored), comparison.labels[len(stored) :])
