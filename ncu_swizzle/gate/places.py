"""Where a check points: the source line of the worst conflict, with its path in the user's checkout."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ncu_swizzle.cubin.libraries import is_library
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.gate.verdict import BOUNDS, TILES, Check, Outcome, Place
from ncu_swizzle.profiles import attribution, violations
from ncu_swizzle.profiles.attribution import Site
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.ownership import Here, Ownership, nowhere

PAGE = "docs/hopper.md shows what fits: the modes, LBO, SBO and the base offset"
SANITIZE = "check the index against the size; on a GPU, compute-sanitizer lists every such access"
MOST_THROUGH = 10  # lines of libraries that a place names


def worst(profile: Profile, access: str = "", here: Here = nowhere) -> Place:
    """Return the line with the most excessive wavefronts; without any, the line with the most stall samples.

    If no line is known, return the report's file.
    """
    excess: Counter[Location] = Counter()
    sites = [site for site in attribution.sites(profile, here) if access in ("", site.access.access)]
    for site in sites:
        excess[site.line] += site.access.excessive or 0
    if not any(excess.values()):
        return _slowest(profile, here)
    line = max(excess, key=lambda line: (excess[line], -line[1]))
    return of_sites(line, (site for site in sites if site.line == line))


def of_sites(line: Location, sites: Iterable[Site]) -> Place:
    """Return a line as a place, with the lines of libraries that the accesses blamed on it come from."""
    excess: Counter[Location] = Counter()
    for site in sites:
        for frame in site.through:
            excess[frame] += site.access.excessive or 0
    through = (Place(posixpath.normpath(file), number) for (file, number), _ in excess.most_common(MOST_THROUGH))
    return Place(*line, through=tuple(through))


def _slowest(profile: Profile, here: Here) -> Place:
    samples: Counter[Location] = Counter()
    ownership = Ownership(profile, here)
    for instruction in profile.instructions:
        if instruction.stack:
            samples[ownership.own(instruction.stack)[0]] += sum(instruction.samples.values())
    return Place(*samples.most_common(1)[0][0]) if samples else Place(profile.report)


def of_violations(name: str, profile: Profile) -> Iterator[Check]:
    """Yield a failed check for each access outside of the launch's buffers, and for each tile that does not fit."""
    for message, line, rule in violations.violations(profile):
        place = Place(*line) if line else Place(profile.report)
        criterion, hint = (TILES, PAGE) if rule == violations.TILES_RULE else (BOUNDS, SANITIZE)
        yield Check(Outcome.failed, name, criterion, message, place=place, hint=hint)


def in_checkout(file: str, root: Path) -> str:
    """Return a profiled source's path relative to `root` if it exists there, else the path unchanged.

    The report may come from another machine: the longest tail of the path that exists below the root counts. Not so for
    a library's header, of which a file of the same name is no copy.
    """
    path = PurePosixPath(file)
    parts = [part for part in path.parts if part != "/"]
    elsewhere = path.is_absolute() and is_library(file) and not path.is_relative_to(root.as_posix())
    if ".." in parts or elsewhere:
        return file
    tails = (PurePosixPath(*parts[first:]) for first in range(len(parts)))
    return next((str(tail) for tail in tails if (root / tail).is_file()), file)


def moved(place: Place, root: Path, sources: Sequence[str] = ()) -> Place:
    """Return the place with its path in the checkout at `root`, if it is there.

    `sources`: the folders on this machine that the profile's relative paths are below.
    """
    for folder in sources:
        file = Path(folder, place.file)
        if file.is_file() and file.is_relative_to(root):
            return replace(place, file=file.relative_to(root).as_posix())
    return replace(place, file=in_checkout(place.file, root))


def files_in(root: Path) -> Here:
    """Return a function that says whether a profiled source is in the checkout at `root`."""

    def here(file: str) -> bool:
        path = PurePosixPath(in_checkout(file, root))
        return not path.is_absolute() and ".." not in path.parts and (root / path).is_file()

    return here
