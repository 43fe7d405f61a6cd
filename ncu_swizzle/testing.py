"""Assertions on profiles, for any test runner. An unknown count never passes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ncu_swizzle.errors import UsageError
from ncu_swizzle.gate import policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.policy import Policy, Rule
from ncu_swizzle.gate.verdict import MAX_DEGREE, MAX_EXCESSIVE, Check, Outcome
from ncu_swizzle.profiles import attribution, model
from ncu_swizzle.texts import on_terminal, one_line

if TYPE_CHECKING:
    from ncu_swizzle.answers import Result

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
    _assert_rule(profile, policy.rule(MAX_EXCESSIVE, 0, "", access or "", "assert_no_excess"))


def assert_degree(profile: model.Profile | Result, at_most: float = 1.0, access: str | None = None) -> None:
    """Assert that actual over ideal wavefronts do not exceed `at_most`, for one access kind or all together.

    Raises what `assert_no_excess` does, and UsageError for a limit below 1.
    """
    __tracebackhide__ = True
    _assert_rule(profile, policy.rule(MAX_DEGREE, at_most, "", access or "", "assert_degree"))


def _assert_rule(given: model.Profile | Result, rule: Rule) -> None:
    __tracebackhide__ = True
    profile = given if isinstance(given, model.Profile) else given.profile
    if rule.access == policy.EACH:
        raise UsageError("'*' is not an access kind", "omit it for all together, or assert on one kind at a time")
    # The test chose the profile, and so decided whether to trust values that were not measured.
    verdict = judge([dataclasses.replace(profile, engine="ncu")], Policy((rule,)))
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
