"""Blame each shared-memory access on a source line.

The innermost line is often an asm statement in a helper, the outermost the call of the kernel's whole body: the line to
blame is the outermost one whose instructions are mostly shared-memory accesses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile


def sites(profile: Profile) -> Iterator[tuple[Instruction, Location]]:
    """Yield each access that has a source line, with the line to blame."""
    totals, accesses = _executed(profile.instructions), _executed(profile.shared())
    for access in profile.shared():
        if access.stack:
            yield access, _site(access.stack, totals, accesses)


def _executed(instructions: Iterable[Instruction]) -> Counter[Location]:
    """Return the warp instructions executed per line, inlined ones included; unknown counts are 0."""
    totals: Counter[Location] = Counter()
    for instruction in instructions:
        for location in dict.fromkeys(instruction.stack):
            totals[location] += instruction.executed or 0
    return totals


def _site(stack: tuple[Location, ...], totals: Mapping[Location, int], accesses: Mapping[Location, int]) -> Location:
    site, *callers = stack
    for caller in callers:
        if 2 * accesses[caller] <= totals[caller]:
            break
        site = caller
    return site
