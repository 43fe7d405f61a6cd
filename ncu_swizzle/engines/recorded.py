"""The recorded engine: profiles of shipped kernels, measured on another machine."""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking, Hint, Typed
from ncu_swizzle.base.files import read_bytes, write_atomically
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.engines.settings import Context, Engine, Request
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.origins import RECORDED


class RecordedEngine(Engine):
    """Reads the recordings that come with the package."""

    name = RECORDED
    compiles = False
    loads = ("ncu_swizzle.engines.reader",)

    @classmethod
    def lacking(cls, request: Request) -> str:  # noqa: ARG003 - whatever is asked for
        return ""

    def profile(self, target: Target, context: Context) -> Profile:
        """Return the recorded profile, and copy its files. Raises EnvironmentLacking if none matches."""
        self.refuse_compiled(target)
        return recall(target, context.folder)

    def has_library(self, target: Target) -> bool:
        return recording(target) is not None


def recall(target: Target, folder: Path) -> Profile:
    """Return the recorded profile and copy its files to the folder; raise EnvironmentLacking if none matches."""
    from ncu_swizzle.engines import reader  # only the process that reads needs these
    from ncu_swizzle.reports import container

    report = recording(target)
    if report is None:
        raise EnvironmentLacking(
            f"{target.name} was not recorded, and cannot be measured here",
            Hint(Typed("ncu-swizzle list"), " shows what was recorded"),
        )
    profile = reader.read(report)[0]
    if dict(profile.problem) != target.problem:
        raise EnvironmentLacking(
            f"{target.name} was recorded at {in_words(profile.problem)}, not at {in_words(target.problem)}",
            "leave out --problem, or measure on a machine with a GPU and ncu",
        )
    for file in (report, container.facts_path(report)):
        write_atomically(folder / file.name, read_bytes(file))
    return profile


def is_recorded(target: Target) -> bool:
    """Return whether there is a recording of this kernel at this size."""
    from ncu_swizzle.reports import container

    report = recording(target)
    return report is not None and dict(container.Facts.beside(report).content.get("problem", {})) == target.problem


def recording(target: Target) -> Path | None:
    """Return the recorded report of a shipped kernel; None for a user's, and for an architecture that was asked for."""
    recordable = target.family.shipped and not target.family.arch
    return paths.recording(target.family.name, target.name) if recordable else None
