"""Profiles side by side: their tables and a verdict; and the results of jobs, comparisons or times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base.errors import Hint, NotComparable, Typed
from ncu_swizzle.cycles.simulated import Span, saved_by
from ncu_swizzle.kernels.family import Family, Kernel
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.remarks import best, speedup, verdict, warnings_of

if TYPE_CHECKING:
    import pandas as pd

# Several profiles side by side: their tables, and a verdict in one sentence.
#
# The first profile is "before"; the verdict is about the best of the others, and tables show the change to the
# second.


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Profiles and their tables, made when they are read: of many launches, a page has those of the worst.

    `labels` are distinct; `notes` are the caller's warnings, such as a missing reference; `title` is the kernel's short
    name if this is one of several comparisons. In the tables unknown values are NA.
    """

    profiles: tuple[Profile, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()
    title: str = ""

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Index: title; columns: "unit", then one per label."""
        from ncu_swizzle.reports import side_by_side  # pandas

        return side_by_side.metrics(self.named)

    @cached_property
    def accesses(self) -> pd.DataFrame:
        """One row per access kind and profile: access, label, executed, wavefronts, ideal, excessive, degree."""
        from ncu_swizzle.reports import side_by_side  # pandas

        return side_by_side.accesses(self.named)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row per opcode that accesses global memory and profile, and one for LDL and STL each.

        Columns: access, label, executed, sectors, ideal, excessive, excessive_bytes, tags; local_sectors for those two.
        """
        from ncu_swizzle.reports import side_by_side  # pandas

        return side_by_side.memory(self.named)

    @cached_property
    def stalls(self) -> pd.DataFrame:
        """Index: reason, by the change from first to second, largest first; one column per label.

        In percent of that profile's samples, NaN for a profile without samples.
        """
        from ncu_swizzle.reports import side_by_side  # pandas

        return side_by_side.stalls(self.named)

    @cached_property
    def lines(self) -> pd.DataFrame:
        """One row per source line and profile that has samples or wavefronts.

        Columns: label, file, line, executed, wavefronts, ideal, excessive, degree, samples.
        """
        from ncu_swizzle.reports import side_by_side  # pandas

        return side_by_side.lines(self.named)

    @cached_property
    def verdict(self) -> str:
        """What the profiles show, in one sentence."""
        return verdict(self.named)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The caller's notes, and what casts doubt on the comparison."""
        return (*self.notes, *warnings_of(self.named))

    @property
    def speedup(self) -> float | None:
        """Duration before over duration after; None if either is unknown or there is no second profile."""
        return speedup(self.profiles)

    @property
    def judged(self) -> tuple[int, ...]:
        """The indices of the profiles in the verdict: the first, and the best of the others."""
        return (0,) if len(self.profiles) == 1 else (0, best(self.profiles))

    @property
    def saves(self) -> Span | None:
        """The share of an H100's cycles that the best of the others saves; None unless both are simulated."""
        judged = [self.profiles[number].simulated for number in self.judged]
        return saved_by(*judged) if len(judged) == 2 else None

    @property
    def headline(self) -> str:
        """The verdict without its counts and times."""
        return verdict(self.named, counts=False)

    @property
    def asides(self) -> tuple[str, ...]:
        """The warnings that cast no doubt on the tables."""
        return tuple(f"{label}: {aside}." for label, profile in self.named for aside in remarks.asides(profile))

    @cached_property
    def named(self) -> list[tuple[str, Profile]]:
        """The profiles with their labels."""
        return list(zip(self.labels, self.profiles, strict=True))


def compare(
    profiles: Sequence[Profile], notes: Sequence[str] = (), labels: Sequence[str] = (), title: str = ""
) -> Comparison:
    """Put the profiles side by side, labelled by their kernels by default; raise NotComparable if there are none."""
    if not profiles:
        raise NotComparable(
            "there are no profiles to compare", Hint(Typed("ncu-swizzle list"), " shows what can be profiled")
        )
    labels = tuple(labels) or distinct([profile.kernel.name for profile in profiles])
    return Comparison(profiles=tuple(profiles), labels=labels, notes=tuple(notes), title=title)


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, repeated ones with a number."""
    return tuple(
        name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        for index, name in enumerate(names)
    )


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """One comparison per kernel or pair of kernels; `notes` apply to all of them, `title` is the page's.

    `engine` is the name of the chosen engine, empty without one; `reason` says why `auto` did not choose ncu.
    """

    comparisons: tuple[Comparison, ...]
    engine: str = ""
    reason: str = ""
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def comparison(self) -> Comparison:
        """The first comparison, usually the only one."""
        return self.comparisons[0]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.iterdir())) if self.folder else ()


@dataclass(frozen=True)
class TimedFamily:
    """Kernels of one family, timed in turn in one process; `facts` are those of the launching program."""

    family: Family
    kernels: tuple[Kernel, ...]
    facts: dict[str, Any]
