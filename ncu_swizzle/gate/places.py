"""Where to point at: the source line of the worst conflict, and its path in the user's checkout."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.gate.verdict import Place
from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.model import Profile


def worst(profile: Profile, access: str = "") -> Place:
    """Return the line that most excessive wavefronts arise at, or where there are none, most stall samples.

    Where no line is known, that is the report's file.
    """
    excess: Counter[Location] = Counter()
    for one, site in attribution.sites(profile):
        if access in ("", one.access):
            excess[site] += one.excessive or 0
    if not any(excess.values()):
        return _slowest(profile)
    return Place(*max(excess, key=lambda site: (excess[site], -site[1])))


def _slowest(profile: Profile) -> Place:
    samples: Counter[Location] = Counter()
    for one in profile.instructions:
        if one.stack:
            samples[one.stack[0]] += sum(one.samples.values())
    return Place(*samples.most_common(1)[0][0]) if samples else Place(profile.report)


def in_checkout(file: str, root: Path) -> str:
    """Return the path below `root` that a profiled source has there, where it is there; else the path as it is.

    A report may come from another machine: the longest end of its path that exists below the root is taken.
    """
    parts = [part for part in PurePosixPath(file).parts if part != "/"]
    if ".." in parts:
        return file
    ends = (PurePosixPath(*parts[first:]) for first in range(len(parts)))
    return next((str(end) for end in ends if (root / end).is_file()), file)
