"""Which line of the old source a line of the new one was, and so which access is which."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ncu_swizzle.cubin.location import Location

NOWHERE: Location = ("", 0)  # of an instruction without a source line
ALIKE = 0.5  # similarity of two lines from which on one is taken for a changed version of the other


@dataclass(frozen=True)
class Lines:
    """By file of the new sources: the old file, and its line for each line that is not new."""

    old: Mapping[str, tuple[str, Mapping[int, int]]]

    @classmethod
    def between(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Lines:
        """Pair the lines of sources, texts by path. A file that has moved is found by its name, if that is unique."""
        earlier = {file: _earlier(file, before) for file in after}
        return cls(
            {file: (earlier[file], dict(_paired(before.get(earlier[file], ""), text))) for file, text in after.items()}
        )

    @classmethod
    def same(cls, sources: Mapping[str, str]) -> Lines:
        """Return the lines of sources that have not changed."""
        return cls.between(sources, sources)

    def first(self, stack: Sequence[Location]) -> Location:
        """Return the innermost line of a stack that the old sources have, as a line there.

        Lines of libraries count only if there is no other, as they are the same in both.
        """
        own = (self._old(file, line) for file, line in stack if file in self.old)
        libraries = (at for at in stack if at[0] not in self.old)
        return next(filter(None, own), None) or next(libraries, NOWHERE)

    def mapped(self, stack: Sequence[Location]) -> tuple[Location, ...]:
        """Return a stack with the lines that the old sources have, as lines there, and those of libraries."""
        found = ((file, line) if file not in self.old else self._old(file, line) for file, line in stack)
        return tuple(at for at in found if at is not None)

    def _old(self, file: str, line: int) -> Location | None:
        old, lines = self.old[file]
        return (old, lines[line]) if line in lines else None


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[frozenset[Location], frozenset[Location]]:
    """Return the lines of the old sources and of the new ones that the other sources do not have."""
    sides: tuple[set[Location], set[Location]] = set(), set()
    for file, text in after.items():
        other = _earlier(file, before)
        matcher = difflib.SequenceMatcher(None, before.get(other, "").splitlines(), text.splitlines(), autojunk=False)
        for tag, first, end, start, stop in matcher.get_opcodes():
            if tag != "equal":
                sides[0].update((other, line + 1) for line in range(first, end))
                sides[1].update((file, line + 1) for line in range(start, stop))
    return frozenset(sides[0]), frozenset(sides[1])


def _earlier(file: str, before: Mapping[str, str]) -> str:
    """Return the old path of a file; the new one if it is unknown."""
    named = [other for other in before if PurePath(other).name == PurePath(file).name]
    return named[0] if file not in before and len(named) == 1 else file


def _paired(before: str, after: str) -> Iterator[tuple[int, int]]:
    """Yield line numbers, of the new text and of the old one."""
    old, new = before.splitlines(), after.splitlines()
    for tag, first, end, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from ((start + k + 1, first + k + 1) for k in range(end - first))
        elif tag == "replace":
            yield from _changed(old[first:end], new[start:stop], first, start)


def _changed(old: Sequence[str], new: Sequence[str], first: int, start: int) -> Iterator[tuple[int, int]]:
    """Pair changed lines in order: all of them if they are as many, otherwise those that are most alike."""
    if len(old) == len(new):
        yield from ((start + k + 1, first + k + 1) for k in range(len(old)))
        return
    taken = 0
    for k, line in enumerate(new):
        ratios = [difflib.SequenceMatcher(None, line.split(), other.split()).ratio() for other in old[taken:]]
        best = max(range(len(ratios)), key=ratios.__getitem__, default=None)
        if best is not None and ratios[best] >= ALIKE:
            yield start + k + 1, first + taken + best + 1
            taken += best + 1
