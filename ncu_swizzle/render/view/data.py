"""The profiles embedded in a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ncu_swizzle.files import slug
from ncu_swizzle.profiles.comparison import Comparison

MOST_BYTES = 4_000_000  # all profiles together: a page should stay small enough to e-mail


@dataclass(frozen=True)
class Stored:
    """One profile as saved; `key` is its label, behind its section's prefix on a page of several kernels."""

    key: str
    file: str
    content: dict[str, Any]


@dataclass(frozen=True)
class DataSection:
    """The profiles that the page embeds, and the names of those left out because of their size."""

    stored: tuple[Stored, ...]
    left_out: tuple[str, ...]


def section(comparisons: Mapping[str, Comparison]) -> DataSection:
    """Return the profiles of the comparisons (keyed by section prefix), in order, as long as they fit."""
    named = [
        (prefix, label if each.title in ("", label) else f"{each.title} {label}", label, profile)
        for prefix, each in comparisons.items()
        for label, profile in zip(each.labels, each.profiles, strict=True)
    ]
    stored: list[Stored] = []
    room = MOST_BYTES
    for prefix, name, label, profile in named:
        saved = profile.to_json()
        room -= len(saved)
        if room < 0:
            break
        stored.append(Stored(f"{prefix}{label}", f"{slug(name)}.json", json.loads(saved)))
    return DataSection(tuple(stored), tuple(name for _, name, _, _ in named[len(stored) :]))
