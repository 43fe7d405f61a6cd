"""The profiles themselves, as a page carries them along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ncu_swizzle.files import slug
from ncu_swizzle.profiles.comparison import Comparison

MOST_BYTES = 4_000_000  # of all profiles together: a page has to stay small enough for a mail


@dataclass(frozen=True)
class Stored:
    """One profile, as it is saved; `key` is its label, after the prefix of its section on a page of several."""

    key: str
    file: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Section:
    """The profiles that the page holds, and the labels of those that would make it too large."""

    stored: tuple[Stored, ...]
    left_out: tuple[str, ...]


def section(comparisons: Mapping[str, Comparison]) -> Section:
    """Return the profiles of comparisons, by prefix, in their order, for as long as they fit."""
    named = [
        (prefix, f"{one.title} {label}" if one.title not in ("", label) else label, label, profile)
        for prefix, one in comparisons.items()
        for label, profile in zip(one.labels, one.profiles, strict=True)
    ]
    stored: list[Stored] = []
    left = MOST_BYTES
    for prefix, name, label, profile in named:
        saved = profile.to_json()
        left -= len(saved)
        if left < 0:
            break
        stored.append(Stored(f"{prefix}{label}", f"{slug(name)}.json", json.loads(saved)))
    return Section(tuple(stored), tuple(name for _, name, _, _ in named[len(stored) :]))
