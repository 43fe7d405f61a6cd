"""What the functions of `api` return, and assertions on profiles.

`Profile` and `Comparison` are those of `reports`, plain data, plus methods for notebooks and scripts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, overload

import pandas as pd

from ncu_swizzle.base.errors import UnknownKernel, UsageError
from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.base.texts import on_terminal, one_line
from ncu_swizzle.gate import baseline
from ncu_swizzle.gate.baseline import Policy, Rule
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.verdict import MAX_DEGREE, MAX_EXCESSIVE, Check, Outcome
from ncu_swizzle.render import page
from ncu_swizzle.reports import attribution, comparison, frames, model, run_folder
from ncu_swizzle.reports.frames import Kind
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.plan import Sweep

# Data that displays itself in a notebook and writes its own report.


class WithPage:
    """An answer with its own page."""

    def html(self) -> str:
        """Return the report, one HTML document."""
        raise NotImplementedError

    def to_html(self, path: str | Path) -> None:
        """Write the report."""
        write_atomically(Path(path), self.html().encode())


def _fields(data: Any) -> dict[str, Any]:
    return {field.name: getattr(data, field.name) for field in fields(data)}


@dataclass(frozen=True, kw_only=True)
class Profile(WithPage, model.Profile):
    """One profiled launch."""

    @classmethod
    def of(cls, profile: model.Profile) -> Profile:
        """Return a profile with the methods for notebooks."""
        return profile if isinstance(profile, cls) else cls(**_fields(profile))

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Return the profile that `save` wrote; raise BadFile or DamagedFile."""
        return cls.of(run_folder.load_profile(Path(path)))

    def to_frame(self, kind: Kind = "instructions") -> pd.DataFrame:
        """Return a table as a DataFrame: instructions, lines, accesses, stalls or metrics; see `frames.COLUMNS`."""
        return frames.profile_table(self, kind)

    def html(self) -> str:
        """Return the report of just this profile, one HTML document."""
        return page.render(comparison.compare([self]))

    def _repr_html_(self) -> str:
        return page.render_card([self])


@dataclass(frozen=True, kw_only=True)
class Comparison(WithPage, comparison.Comparison):
    """Profiles side by side, the baseline first."""

    profiles: tuple[Profile, ...]

    @classmethod
    def of(cls, compared: comparison.Comparison) -> Comparison:
        """Return a comparison with the methods for notebooks."""
        return cls(**{**_fields(compared), "profiles": tuple(map(Profile.of, compared.profiles))})

    def to_frame(self, kind: Kind = "instructions") -> pd.DataFrame:
        """Return a table of all profiles, one below the other, with their labels; see `frames.comparison_table`."""
        return frames.comparison_table(self, kind)

    def html(self) -> str:
        """Return the report, one HTML document."""
        return page.render(self)

    def _repr_html_(self) -> str:
        return page.render_card(self.profiles, self)


class Profiles(Sequence[Profile]):
    """The profiles in a file or a run, by index or by kernel name."""

    def __init__(self, profiles: Iterable[model.Profile]) -> None:
        self._profiles = tuple(map(Profile.of, profiles))

    def __len__(self) -> int:
        return len(self._profiles)

    @overload
    def __getitem__(self, which: int | str) -> Profile: ...

    @overload
    def __getitem__(self, which: slice) -> Profiles: ...

    def __getitem__(self, which: int | str | slice) -> Profile | Profiles:
        """Return a profile; raise UnknownKernel for an unknown name, UsageError for an ambiguous one."""
        if isinstance(which, slice):
            return Profiles(self._profiles[which])
        return self._profiles[which] if isinstance(which, int) else self._named(which)

    def _named(self, name: str) -> Profile:
        named = [profile for profile in self._profiles if name in (profile.kernel.name, profile.kernel.function)]
        if len(named) == 1:
            return named[0]
        if named:
            raise UsageError(f"{len(named)} profiles are of {name!r}", "select one by its index")
        names = ", ".join(dict.fromkeys(profile.kernel.name for profile in self._profiles))
        raise UnknownKernel(f"there is no profile of {name!r}", f"there are profiles of {names}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profiles) and self._profiles == other._profiles

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return one_line(f"Profiles({', '.join(profile.kernel.name for profile in self._profiles)})")

    def _repr_html_(self) -> str:
        return page.render_card(self._profiles)

    def to_frame(self, kind: Kind = "accesses") -> pd.DataFrame:
        """Return a table of all profiles, one below the other; see `Comparison.to_frame`."""
        return frames.comparison_table(comparison.compare(self._profiles), kind)


@dataclass(frozen=True, kw_only=True)
class Result(WithPage):
    """The result of `profile`: the kernel's profile, and its comparison with the baseline and the reference.

    `engine` is the source of the values, `reason` is why "auto" did not choose ncu, and `folder` is where the run was
    saved.
    """

    profile: Profile
    comparison: Comparison
    engine: str
    reason: str = ""
    folder: Path | None = None

    @property
    def profiles(self) -> Profiles:
        """All profiles, the baseline first."""
        return Profiles(self.comparison.profiles)

    @property
    def verdict(self) -> str:
        """The comparison in one sentence."""
        return self.comparison.verdict

    def html(self) -> str:
        """Return the report, one HTML document."""
        return self.comparison.html()

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_()


@dataclass(frozen=True, kw_only=True)
class ProgramResult(WithPage):
    """The result of `profile_program`: a profile per launch, and a comparison per kernel or pair of kernels.

    `notes` apply to all of them, and `folder` is where the run was saved.
    """

    profiles: Profiles
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()
    title: str = ""
    folder: Path | None = None

    def html(self) -> str:
        """Return the report, one HTML document."""
        return page.render_all(self.comparisons, self.notes, self.title)

    def to_frame(self, kind: Kind = "accesses") -> pd.DataFrame:
        """Return a table of all launches; see `Profiles.to_frame`."""
        return self.profiles.to_frame(kind)

    def _repr_html_(self) -> str:
        return self.profiles._repr_html_()


@dataclass(frozen=True, kw_only=True)
class SweepResult(WithPage, Sweep):
    """All points of a sweep: a profile each, or the error it ended with. `folder` is where they were saved."""

    def to_frame(self) -> pd.DataFrame:
        """Return a row per point; docs/sweep.md has the columns."""
        return table.to_frame(self)

    def html(self) -> str:
        """Return the page, one HTML document."""
        return table.to_html(self)

    def _repr_html_(self) -> str:
        return table.to_card(self)


class BankMaps(tuple[BankMap, ...]):
    """Bank maps before and after a mapping, drawn in a notebook."""

    title: str

    def __new__(cls, maps: Iterable[BankMap], title: str) -> BankMaps:
        """Return the maps; `title` names their subject."""
        drawn = super().__new__(cls, maps)
        drawn.title = title
        return drawn

    def svg(self) -> str:
        """Return the picture, one SVG."""
        return page.render_banks_svg(self, self.title)

    def _repr_html_(self) -> str:
        return page.render_banks_card(self, self.title)


# Assertions on profiles, for any test runner. An unknown count never passes.

WORST_SHOWN = 5


class ConflictError(AssertionError):
    """A profile has more conflicts than a test allows, or the counts are unknown (`inconclusive`)."""

    def __init__(self, message: str, profile: model.Profile, inconclusive: bool) -> None:
        super().__init__(on_terminal(message))
        self.profile = profile
        self.inconclusive = inconclusive


def assert_no_excess(profile: model.Profile | Result, access: str | None = None) -> None:
    """Assert that no shared-memory wavefront is excessive, for one access kind such as "LDSM" or for all.

    Raises ConflictError, an AssertionError that shows the worst lines, also if the counts are unknown or the kernel
    has no such access; raises UsageError for an unknown access kind.
    """
    __tracebackhide__ = True
    _assert_rule(profile, baseline.rule(MAX_EXCESSIVE, 0, "", access or "", "assert_no_excess"))


def assert_degree(profile: model.Profile | Result, at_most: float = 1.0, access: str | None = None) -> None:
    """Assert that actual over ideal wavefronts do not exceed `at_most`, for one access kind or all together.

    Raises what `assert_no_excess` does, and UsageError for a limit below 1.
    """
    __tracebackhide__ = True
    _assert_rule(profile, baseline.rule(MAX_DEGREE, at_most, "", access or "", "assert_degree"))


def _assert_rule(given: model.Profile | Result, rule: Rule) -> None:
    __tracebackhide__ = True
    profile = given if isinstance(given, model.Profile) else given.profile
    if rule.access == baseline.EACH:
        raise UsageError("'*' is not an access kind", "omit it for all together, or assert on one kind at a time")
    # The test chose the profile, and so decided whether to trust values that were not measured.
    verdict = judge([dataclasses.replace(profile, engine="ncu")], Policy(rules=(rule,)))
    if rule.access and rule.access not in profile.accesses:
        has = ", ".join(profile.accesses) or "none"
        message = f"{profile.kernel.name}: inconclusive, it has no {rule.access} accesses (it has: {has})"
        raise ConflictError(f"{one_line(message)}\n{_origin(profile)}", profile, inconclusive=True)
    if verdict.outcome is not Outcome.passed:
        (check,) = verdict.checks
        raise ConflictError(explain(profile, check), profile, check.outcome is Outcome.inconclusive)


def explain(profile: model.Profile, check: Check) -> str:
    """Return why a check did not pass, with the worst lines: location, instruction, actual and ideal wavefronts."""
    about = f"{profile.kernel.name}{f', {check.access} accesses' if check.access else ''}"
    if check.outcome is Outcome.inconclusive:
        return "\n".join([one_line(f"{about}: inconclusive, {check.message}"), _origin(profile)])
    lines = _worst(profile, check.access)
    return "\n".join([one_line(f"{about}: {check.message}"), *(f"  {line}" for line in lines), _origin(profile)])


def _worst(profile: model.Profile, access: str) -> list[str]:
    lines = {access.pc: f"{file}:{line}" for access, (file, line), _ in attribution.sites(profile)}
    worst = [each for each in profile.shared() if access in ("", each.access) and each.excessive]
    worst.sort(key=lambda instruction: -(instruction.excessive or 0))
    rows = [
        (one_line(lines.get(each.pc, "no source line")), one_line(each.sass), f"{each.wavefronts:,} / {each.ideal:,}")
        for each in worst[:WORST_SHOWN]
    ]
    if not rows:
        return []
    heads = ("line", "instruction", "actual / ideal wavefronts")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in (0, 1)]
    shown = [f"{line:<{widths[0]}}  {sass:<{widths[1]}}  {counts}".rstrip() for line, sass, counts in (heads, *rows)]
    more = len(worst) - len(rows)
    return [*shown, *([f"and {more} more instructions"] if more else [])]


def _origin(profile: model.Profile) -> str:
    machine = profile.machine
    parts = [f"engine {profile.engine}", machine.gpu, f"ncu {machine.ncu}" if machine.ncu else "", profile.when[:10]]
    return one_line(f"  ({', '.join(part for part in parts if part)})")
