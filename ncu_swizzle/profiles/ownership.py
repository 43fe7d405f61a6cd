"""Whose code a source line is: of the lines that an instruction was inlined through, which are the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath

from ncu_swizzle.cubin.libraries import is_library
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile

Stack = tuple[Location, ...]
Here = Callable[[str], bool]  # whether a file is in the checkout that is being worked on


def nowhere(_: str) -> bool:
    """Say that no file is known to be in the checkout."""
    return False


class Ownership:
    """Tells the user's own frames of a profile's call stacks from those of libraries.

    A file in the checkout beats one below the profile's source folders or with a text in the profile, that beats one
    elsewhere, and anything beats a library's. If all frames are alike, all are own: somebody works on that library.
    """

    def __init__(self, profile: Profile, here: Here = nowhere) -> None:
        self._sources = profile.sources
        self._here = here
        self._ranks: dict[str, int] = {}

    def own(self, stack: Stack) -> Stack:
        """Return the stack without the frames of others, innermost first; empty only if the stack is."""
        ranks = [self._rank(file) for file, _ in stack]
        best = max(ranks, default=0)
        return tuple(frame for frame, rank in zip(stack, ranks, strict=True) if rank == best)

    def named(self, instruction: Instruction) -> Location | None:
        """Return the line that ncu shows for an instruction.

        If that is in a library outside the profile's source folders, return the nearest own one.
        """
        named = instruction.named
        if named is None or _relative(named[0]) or not is_library(named[0]):
            return named
        callers = instruction.stack[instruction.stack.index(named) :]
        return self.own(callers)[0]

    def _rank(self, file: str) -> int:
        rank = self._ranks.get(file)
        if rank is None:
            rank = self._ranks[file] = self._ranked(file)
        return rank

    def _ranked(self, file: str) -> int:
        relative = _relative(file)
        if is_library(file) and not (relative and file in self._sources):
            return 0
        if self._here(file):
            return 3
        return 2 if relative or file in self._sources else 1


def _relative(file: str) -> bool:
    """Return whether a path is below one of the folders that the profile's sources come from."""
    return not (PurePosixPath(file).is_absolute() or PureWindowsPath(file).is_absolute())
