"""The profiles embedded in a page: compressed, as they are most of it otherwise."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass

from ncu_swizzle.files import slug
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile

MOST_BYTES = 1_200_000  # all profiles together, packed: a page should stay small enough to e-mail


@dataclass(frozen=True)
class Stored:
    """One profile as saved; `key` is its label, behind its section's prefix on a page of several kernels.

    `packed` is Base64 of gzip of the saved JSON, which the page's script unpacks.
    """

    key: str
    file: str
    packed: str


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
        packed = _packed(profile)
        room -= len(packed)
        if room < 0:
            break
        stored.append(Stored(f"{prefix}{label}", f"{slug(name)}.json", packed))
    return DataSection(tuple(stored), tuple(name for _, name, _, _ in named[len(stored) :]))


def _packed(profile: Profile) -> str:
    """Return the saved profile, packed; without a time stamp, so that the same profile gives the same text."""
    return base64.b64encode(gzip.compress(profile.to_json().encode(), mtime=0)).decode()
