"""Recorded: the profile of a shipped kernel from another machine."""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import EnvironmentLacking
from ncu_swizzle.files import read_bytes, write_atomically
from ncu_swizzle.ncurep import launch_facts
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.texts import in_words


def recall(target: Target, folder: Path) -> Profile:
    """Return the recorded profile and copy its files to the folder; raise EnvironmentLacking if none matches."""
    from ncu_swizzle.ncurep import reader

    report = _recording(target)
    if report is None:
        raise EnvironmentLacking(
            f"{target.name} was not recorded, and cannot be measured here",
            "ncu-swizzle list shows what was recorded",
        )
    profile = reader.read(report)[0]
    if dict(profile.problem) != target.problem:
        raise EnvironmentLacking(
            f"{target.name} was recorded at {in_words(profile.problem)}, not at {in_words(target.problem)}",
            "leave out --problem, or measure on a machine with a GPU and ncu",
        )
    for file in (report, launch_facts.facts_path(report)):
        write_atomically(folder / file.name, read_bytes(file))
    return profile


def is_recorded(target: Target) -> bool:
    """Return whether there is a recording of this kernel at this size."""
    report = _recording(target)
    return report is not None and dict(launch_facts.Facts.beside(report).content.get("problem", {})) == target.problem


def _recording(target: Target) -> Path | None:
    """Return the recorded report of a shipped kernel; None for a user's, and for an architecture that was asked for."""
    own = target.family.shipped and not target.family.arch
    return paths.recording(target.family.name, target.name) if own else None
