"""Which source line an access to shared memory is blamed on.

The innermost line is often an asm statement in a helper, the outermost one the call of the whole kernel: the line to
blame is the outermost one whose instructions are mostly accesses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile


def sites(profile: Profile) -> Iterator[tuple[Instruction, Location]]:
    """Yield each access that has a source line, and the line to blame for it."""
    totals, accesses = _executed(profile.instructions), _executed(profile.shared())
    for access in profile.shared():
        if access.stack:
            yield access, _site(access.stack, totals, accesses)


def _executed(instructions: Iterable[Instruction]) -> Counter[Location]:
    """Return how often instructions of each line ran, with all that was inlined there; what is unknown counts 0."""
    found: Counter[Location] = Counter()
    for one in instructions:
        for location in dict.fromkeys(one.stack):
            found[location] += one.executed or 0
    return found


def _site(stack: tuple[Location, ...], totals: Mapping[Location, int], accesses: Mapping[Location, int]) -> Location:
    site, *callers = stack
    for caller in callers:
        if 2 * accesses[caller] <= totals[caller]:
            break
        site = caller
    return site
