"""What the functions of `api` return, for a notebook to show and for a test to look into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import pandas as pd

from ncu_swizzle import page
from ncu_swizzle.compare import Comparison
from ncu_swizzle.compare import compare as lay_out
from ncu_swizzle.errors import UnknownKernel, UsageError
from ncu_swizzle.files import write_atomically
from ncu_swizzle.frames import Kind
from ncu_swizzle.profile import Profile


class Profiles(Sequence[Profile]):
    """The profiles of a file or a run, by number or by the kernel's name."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._profiles = tuple(profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    @overload
    def __getitem__(self, which: int | str) -> Profile: ...

    @overload
    def __getitem__(self, which: slice) -> Profiles: ...

    def __getitem__(self, which: int | str | slice) -> Profile | Profiles:
        """Return a profile; raise UnknownKernel for a name that none has, UsageError for one that several have."""
        if isinstance(which, slice):
            return Profiles(self._profiles[which])
        return self._profiles[which] if isinstance(which, int) else self._named(which)

    def _named(self, name: str) -> Profile:
        found = [one for one in self._profiles if name in (one.kernel.name, one.kernel.function)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(dict.fromkeys(one.kernel.name for one in self._profiles))
        if found:
            raise UsageError(f"{len(found)} profiles are of {name!r}", "take one by its number")
        raise UnknownKernel(f"there is no profile of {name!r}", f"there are: {names}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profiles) and self._profiles == other._profiles

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return f"Profiles({', '.join(one.kernel.name for one in self._profiles)})"

    def _repr_html_(self) -> str:
        return page.render_card(self._profiles)

    def to_frame(self, kind: Kind = "accesses") -> pd.DataFrame:
        """Return a table of all profiles, one below the other; see `Comparison.to_frame`."""
        return lay_out(self._profiles).to_frame(kind)


@dataclass(frozen=True)
class Result:
    """What `profile` found: the kernel's profile, and its comparison with the baseline before and others after it.

    `engine` says where the figures come from, `reason` why not from ncu where "auto" was asked for, `folder` where
    the run was kept.
    """

    profile: Profile
    comparison: Comparison
    engine: str
    reason: str = ""
    folder: Path | None = None

    @property
    def profiles(self) -> Profiles:
        """All profiles, the one before first."""
        return Profiles(self.comparison.profiles)

    @property
    def verdict(self) -> str:
        """The comparison in one sentence."""
        return self.comparison.verdict

    def html(self) -> str:
        """Return the report, one HTML document."""
        return self.comparison.html()

    def to_html(self, path: str | Path) -> None:
        """Write the report."""
        self.comparison.to_html(path)

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_()


@dataclass(frozen=True)
class ProgramResult:
    """What `profile_program` found: every launch's profile, and a comparison for each kernel or pair of kernels.

    `notes` are about all of them together, `folder` is where the run was kept.
    """

    profiles: Profiles
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()
    title: str = ""
    folder: Path | None = None

    def html(self) -> str:
        """Return the report, one HTML document."""
        return page.render_all(self.comparisons, self.notes, self.title)

    def to_html(self, path: str | Path) -> None:
        """Write the report."""
        write_atomically(Path(path), self.html().encode())

    def to_frame(self, kind: Kind = "accesses") -> pd.DataFrame:
        """Return a table of all launches; see `Profiles.to_frame`."""
        return self.profiles.to_frame(kind)

    def _repr_html_(self) -> str:
        return self.profiles._repr_html_()
