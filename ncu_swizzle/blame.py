"""Which source line an access to shared memory is blamed on.

The innermost line is often an asm statement in a helper, the outermost one the call of the whole kernel: the line to
blame is the outermost one whose instructions are mostly accesses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ncu_swizzle.profile import Instruction, Location, Profile, Total


def sites(profile: Profile) -> Iterator[tuple[Instruction, Location]]:
    """Yield each access that has a source line, and the line to blame for it."""
    totals = profile.lines
    accesses: Counter[Location] = Counter()
    for access in profile.shared():
        for location in dict.fromkeys(access.stack):
            accesses[location] += access.executed or 0
    for access in profile.shared():
        if access.stack:
            yield access, _site(access.stack, totals, accesses)


def _site(stack: tuple[Location, ...], totals: Mapping[Location, Total], accesses: Mapping[Location, int]) -> Location:
    site, *callers = stack
    for caller in callers:
        if 2 * accesses[caller] <= (totals[caller].executed or 0):
            break
        site = caller
    return site
