"""Verdicts on wavefronts whose rule was measured on another architecture say so, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ncu_swizzle.gate.verdict import BASELINE, MAX_DEGREE, MAX_EXCESSIVE, Check
from ncu_swizzle.profiles.model import Profile

ABOUT_WAVEFRONTS = (MAX_EXCESSIVE, MAX_DEGREE, BASELINE)


def marked(checks: Iterable[Check], profiles: Iterable[Profile]) -> Iterator[Check]:
    """Yield the checks of a kernel's profiles, those about wavefronts with where their rule was measured."""
    mark = next((profile.rule_from for profile in profiles if profile.rule_from), "")
    for check in checks:
        about = mark and check.criterion in ABOUT_WAVEFRONTS
        yield replace(check, message=f"{check.message} ({mark})") if about else check
