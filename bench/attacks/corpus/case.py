"""One case: files in a folder, a command, and what must not happen to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

WHOLE = "w.json"  # an intact profile beside a damaged file


@dataclass(frozen=True)
class Draft:
    """The files of a case by their paths, the command that reads them, and which damage was done to what.

    `must_refuse`: a digest covers what was changed, so that success means that it was not looked at. `outputs` are the
    files that the command was told to write; they exist already, and are replaced wholly or not at all.
    """

    damage: str
    source: str
    files: Mapping[str, bytes] = field(repr=False)
    command: tuple[str, ...]
    must_refuse: bool = False
    outputs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    cache: str = ""  # the damage done to the cache: the output must be that of a clean one
    seed: str = ""  # what that damage is drawn from
    largest_file: int = 0  # bytes: a file that grows beyond cannot be written, as on a full disk


@dataclass(frozen=True)
class Kind:
    """A kind of file or of folder, how many cases of all it gets, and how one is made."""

    name: str
    share: int
    draft: Callable[[Random], Draft]


@dataclass(frozen=True)
class Case:
    """A numbered draft."""

    number: int
    kind: str
    draft: Draft
