"""Fixes of the corpus written by hand (tests/data/fix/fixes.toml), with where every element has gone."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncu_swizzle.fix.excess import Moved
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.smem.operations import Ints
from tests.support.fix_corpus import CORPUS, specs, with_text

BASE = 1024  # where a kernel's shared memory starts on sm_90
Place = Callable[[Ints], Ints]  # from the number of an element to that of its place


@dataclass(frozen=True)
class Fix:
    """What to write in place of what, and the arrays that move; `shared` is the new dynamic shared memory."""

    edits: tuple[tuple[str, str], ...]
    moved: tuple[Moved, ...]
    shared: str = ""

    def text(self, target: Target) -> str:
        """Return the new source."""
        text = target.source.read_text(encoding="utf-8")
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def apply(name: str, folder: Path) -> tuple[Target, Target]:
    """Return a kernel of the corpus, and its fixed version in a folder of its own."""
    target, fix = specs()[name], FIXES[name]
    return target, with_text(target, fix.text(target), folder, fix.shared)


def array(name: str, elements: int, size: int, place: Place, start: int = 0, after: int = 0, at: int = -1) -> Moved:
    """Return an array of elements of some bytes that starts at a byte and has as many elements `after`."""
    first, new = BASE + start, BASE + (start if at < 0 else at)
    places = place(np.arange(elements)) * size
    return Moved(
        name=name,
        before=range(first, first + elements * size),
        after=range(new, new + (after or elements) * size),
        element_bytes=size,
        places=places,
    )


def padded(width: int, pad: int = 1) -> Place:
    """Return where elements go whose rows get longer."""
    return lambda i: i // width * (width + pad) + i % width


def swizzled(width: int, mask: int = -1) -> Place:
    """Return where elements go whose column is XORed with their row."""
    return lambda i: i // width * width + (i % width ^ i // width & (width - 1 if mask < 0 else mask))


def _moved(name: str, elements: int, bytes: int, row: int, pad: int = 0, mask: int = -1, start: int = 0) -> Moved:  # noqa: A002
    place = padded(row, pad) if pad else swizzled(row, mask)
    return array(name, elements, bytes, place, start, after=elements // row * (row + pad))


FIXES: dict[str, Fix] = {
    name: Fix(
        edits=tuple((old, new) for old, new in fix["edits"]),
        moved=tuple(_moved(**moved) for moved in fix["moved"]),
        shared=fix.get("shared", ""),
    )
    for name, fix in tomllib.loads((CORPUS / "fixes.toml").read_text(encoding="utf-8")).items()
}
