"""Blame each shared-memory access on a source line of the user's own.

The innermost line is often an asm statement in a helper, the outermost the call of the kernel's whole body: the line to
blame is the outermost own one whose instructions are mostly shared-memory accesses. Own lines are those in the user's
folders, see `ownership`: nobody can change the headers of CUDA that `load_matrix_sync` or `atomicAdd` is inlined from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.ownership import Here, Ownership, nowhere


class Site(NamedTuple):
    """An access, the line to blame, and the lines of others that were inlined there, innermost first."""

    access: Instruction
    line: Location
    through: tuple[Location, ...]

    @property
    def name(self) -> str:
        """The line to blame as ``my.cu:23``."""
        file, line = self.line
        return f"{file.rpartition('/')[2]}:{line}"


def sites(profile: Profile, here: Here = nowhere) -> Iterator[Site]:
    """Yield each access that has a source line, with the line to blame; `here` knows the files of the checkout."""
    totals, accesses = _executed(profile.instructions), _executed(profile.shared())
    ownership = Ownership(profile, here)
    for access in profile.shared():
        if access.stack:
            own = ownership.own(access.stack)
            line = _blamed(own, totals, accesses)
            inner = access.stack[: access.stack.index(line)]
            yield Site(access, line, tuple(frame for frame in inner if frame not in own))


def _executed(instructions: Iterable[Instruction]) -> Counter[Location]:
    """Return the warp instructions executed per line, inlined ones included; unknown counts are 0."""
    totals: Counter[Location] = Counter()
    for instruction in instructions:
        for location in dict.fromkeys(instruction.stack):
            totals[location] += instruction.executed or 0
    return totals


def _blamed(own: tuple[Location, ...], totals: Mapping[Location, int], accesses: Mapping[Location, int]) -> Location:
    line, *callers = own
    for caller in callers:
        if 2 * accesses[caller] <= totals[caller]:
            break
        line = caller
    return line
