"""Assertions on profiles, for any test runner. A count that is not known never passes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ncu_swizzle.errors import UsageError
from ncu_swizzle.gate import policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.policy import Policy, Rule
from ncu_swizzle.gate.verdict import MAX_DEGREE, MAX_EXCESSIVE, Check, Outcome
from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.model import Profile

if TYPE_CHECKING:
    from ncu_swizzle.answers import Result

WORST_SHOWN = 5


class ConflictError(AssertionError):
    """A profile has more conflicts than a test allows, or it cannot be told (`inconclusive`)."""

    def __init__(self, message: str, profile: Profile, inconclusive: bool) -> None:
        super().__init__(message)
        self.profile = profile
        self.inconclusive = inconclusive


def assert_no_excess(profile: Profile | Result, access: str | None = None) -> None:
    """Assert that no shared-memory wavefront is excessive: of one access kind such as "LDSM", or of all.

    Raises ConflictError, an AssertionError that shows the worst lines, also where the counts are not known or the
    kernel has no such access; UsageError for an access kind that there is not.
    """
    __tracebackhide__ = True
    _hold(profile, policy.rule(MAX_EXCESSIVE, 0, "", access or "", "assert_no_excess"))


def assert_degree(profile: Profile | Result, at_most: float = 1.0, access: str | None = None) -> None:
    """Assert that actual over ideal wavefronts are at most so many, of one access kind or of all together.

    Raises what `assert_no_excess` does, and UsageError for a limit below 1.
    """
    __tracebackhide__ = True
    _hold(profile, policy.rule(MAX_DEGREE, at_most, "", access or "", "assert_degree"))


def _hold(given: Profile | Result, rule: Rule) -> None:
    __tracebackhide__ = True
    profile = given if isinstance(given, Profile) else given.profile
    if rule.access == policy.EACH:
        raise UsageError("'*' is no access kind", "leave it away for all together, or assert of one after the other")
    # Which figures to trust, measured ones or others, the test has decided by choosing the profile.
    verdict = judge([dataclasses.replace(profile, engine="ncu")], Policy((rule,)))
    if rule.access and rule.access not in profile.accesses:
        has = ", ".join(profile.accesses) or "none"
        message = f"{profile.kernel.name}: inconclusive, it has no {rule.access} accesses (it has: {has})"
        raise ConflictError(f"{message}\n{_origin(profile)}", profile, inconclusive=True)
    if verdict.outcome is not Outcome.passed:
        (check,) = verdict.checks
        raise ConflictError(explain(profile, check), profile, check.outcome is Outcome.inconclusive)


def explain(profile: Profile, check: Check) -> str:
    """Return why a check did not pass, with the worst lines: file and line, instruction, actual and ideal."""
    about = f"{profile.kernel.name}{f', {check.access} accesses' if check.access else ''}"
    if check.outcome is Outcome.inconclusive:
        return f"{about}: inconclusive, {check.message}\n{_origin(profile)}"
    lines = _worst(profile, check.access)
    return "\n".join([f"{about}: {check.message}", *(f"  {line}" for line in lines), _origin(profile)])


def _worst(profile: Profile, access: str) -> list[str]:
    places = {one.pc: f"{file}:{line}" for one, (file, line) in attribution.sites(profile)}
    found = [one for one in profile.shared() if access in ("", one.access) and one.excessive]
    found.sort(key=lambda one: -(one.excessive or 0))
    rows = [
        (places.get(one.pc, "no source line"), one.sass, f"{one.wavefronts:,} / {one.ideal:,}")
        for one in found[:WORST_SHOWN]
    ]
    if not rows:
        return []
    heads = ("line", "instruction", "actual / ideal wavefronts")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in (0, 1)]
    shown = [f"{place:<{widths[0]}}  {sass:<{widths[1]}}  {counts}".rstrip() for place, sass, counts in (heads, *rows)]
    more = len(found) - len(rows)
    return [*shown, *([f"and {more} more instructions"] if more else [])]


def _origin(profile: Profile) -> str:
    machine = profile.machine
    where = [f"engine {profile.engine}", machine.gpu, f"ncu {machine.ncu}" if machine.ncu else "", profile.when[:10]]
    return f"  ({', '.join(part for part in where if part)})"
