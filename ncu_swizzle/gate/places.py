"""Where a check points: the source line of the worst conflict, with its path in the user's checkout."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.gate.verdict import Place
from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.model import Profile


def worst(profile: Profile, access: str = "") -> Place:
    """Return the line with the most excessive wavefronts; without any, the line with the most stall samples.

    If no line is known, return the report's file.
    """
    excess: Counter[Location] = Counter()
    for instruction, line in attribution.sites(profile):
        if access in ("", instruction.access):
            excess[line] += instruction.excessive or 0
    if not any(excess.values()):
        return _slowest(profile)
    return Place(*max(excess, key=lambda line: (excess[line], -line[1])))


def _slowest(profile: Profile) -> Place:
    samples: Counter[Location] = Counter()
    for instruction in profile.instructions:
        if instruction.stack:
            samples[instruction.stack[0]] += sum(instruction.samples.values())
    return Place(*samples.most_common(1)[0][0]) if samples else Place(profile.report)


def in_checkout(file: str, root: Path) -> str:
    """Return a profiled source's path relative to `root` if it exists there, else the path unchanged.

    The report may come from another machine: the longest tail of the path that exists below the root counts.
    """
    parts = [part for part in PurePosixPath(file).parts if part != "/"]
    if ".." in parts:
        return file
    tails = (PurePosixPath(*parts[first:]) for first in range(len(parts)))
    return next((str(tail) for tail in tails if (root / tail).is_file()), file)
