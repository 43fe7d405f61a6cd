"""The rules that profiles must meet: each is one limit for some kernels and some accesses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ncu_swizzle.bounds.patterns import NamePattern
from ncu_swizzle.cubin.kernel_filter import KernelFilter
from ncu_swizzle.errors import UsageError, did_you_mean
from ncu_swizzle.gate.verdict import MAX_DEGREE, MAX_EXCESSIVE, MAX_REGRESSION
from ncu_swizzle.profiles.counts import TRANSFERS
from ncu_swizzle.validate import whole

LIMITS = (MAX_EXCESSIVE, MAX_DEGREE, MAX_REGRESSION)
LEAST = {MAX_EXCESSIVE: 0, MAX_DEGREE: 1, MAX_REGRESSION: 0}
EACH = "*"  # as an access: each kind separately
FORM = "write [KERNEL:][ACCESS=]NUMBER, for example 0, LDSM=0, 'gemm.*:1000' or 'gemm.*:STS=1000'"


@dataclass(frozen=True)
class Rule:
    """A limit: in wavefronts (max-excessive), a ratio (max-degree), or percent (max-regression)."""

    criterion: str
    limit: float
    kernel: str = ""  # regular expression that matches the whole name; empty: every kernel
    access: str = ""  # an access kind, EACH, or empty: all accesses together
    origin: str = "the default"

    def applies_to(self, names: Iterable[str]) -> bool:
        """Return whether the rule applies to a kernel with these names."""
        return not self.kernel or kernel_pattern(self.kernel, self.origin).is_one_of(names)


@dataclass(frozen=True)
class Policy:
    """All rules; later ones override earlier ones. Without rules, baseline and history, no excess is allowed."""

    rules: tuple[Rule, ...] = ()
    baseline: Path | None = None
    allow_recorded: bool = False
    only: KernelFilter = KernelFilter()  # the kernels to judge
    history: Path | None = None  # a folder

    def limits(self, names: Sequence[str], accesses: Iterable[str]) -> dict[tuple[str, str], Rule]:
        """Return the rule in effect for each criterion and access kind of a kernel ("": all accesses together)."""
        chosen: dict[tuple[str, str], Rule] = {}
        for rule in self.effective:
            if rule.applies_to(names):
                for access in accesses if rule.access == EACH else (rule.access,):
                    chosen[rule.criterion, access] = rule
        return chosen

    @property
    def effective(self) -> tuple[Rule, ...]:
        return self.rules if self.rules or self.baseline or self.history else (Rule(MAX_EXCESSIVE, 0),)

    def concerns(self, names: Iterable[str]) -> bool:
        return self.only.passes(names)


def parse_rule(criterion: str, text: str) -> Rule:
    """Return the rule of an option: ``[KERNEL:][ACCESS=]NUMBER``; raise UsageError."""
    kernel, _, rest = text.rpartition(":")
    access, _, number = rest.rpartition("=")
    digits = number.strip().removesuffix("%") if criterion == MAX_REGRESSION else number.strip()
    try:
        limit = whole(digits) if digits.isdecimal() else float(digits)
    except ValueError as error:
        why = "has more than 64 bits" if digits.isdecimal() else "is not a number"
        raise UsageError(f"--{criterion} {text}: {number!r} {why}", FORM) from error
    return rule(criterion, limit, kernel, access, f"--{criterion}")


def rule(criterion: str, limit: Any, kernel: Any, access: Any, origin: str) -> Rule:
    """Return a rule with valid values, or raise UsageError."""
    whole = criterion == MAX_EXCESSIVE
    least = LEAST[criterion]
    if isinstance(limit, bool) or not isinstance(limit, int if whole else int | float) or not math.isfinite(limit):
        raise UsageError(f"{origin}: {criterion} is {limit!r}", f"give a {'whole ' if whole else ''}number")
    if limit < least:
        raise UsageError(f"{origin}: {criterion} is {limit:g}", f"the minimum is {least}")
    if not isinstance(kernel, str) or not isinstance(access, str):
        raise UsageError(
            f"{origin}: kernel and access must be strings", 'for example kernel = "gemm-.*" and access = "LDSM"'
        )
    if criterion == MAX_REGRESSION and access:
        raise UsageError(
            f"{origin}: max-regression for {access} accesses", "a duration is that of the whole kernel: omit the access"
        )
    return Rule(criterion, limit, pattern(kernel, origin), access, origin)


def pattern(text: str, origin: str) -> str:
    """Return a regular expression that compiles, or raise UsageError."""
    return kernel_pattern(text, origin).compiled.pattern


@cache
def kernel_pattern(text: str, origin: str) -> NamePattern:
    """Return the expression of a rule's kernels, which matches whole names."""
    return NamePattern(text, origin, "for example gemm-.*")


def check_baseline(policy: Policy) -> None:
    """Raise UsageError for a limit on regressions without a baseline and a history."""
    regression = next((rule for rule in policy.rules if rule.criterion == MAX_REGRESSION), None)
    if regression and policy.baseline is None and policy.history is None:
        raise UsageError(f"{regression.origin}: max-regression needs a baseline", "ncu-swizzle baseline save PROFILE…")


def check_accesses(rules: Iterable[Rule], seen: Iterable[str]) -> None:
    """Raise UsageError for an unknown access kind that no profile has either: its limit would never apply."""
    kinds = sorted({*TRANSFERS, *seen})
    for rule in rules:
        if rule.access not in ("", EACH, *kinds):
            raise UsageError(f"{rule.origin}: {unknown('access kind', rule.access, kinds)}", FORM)


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """Return a message that the name is unknown, with the closest choice."""
    return f"unknown {what} {name!r}{did_you_mean(name, choices)}"
