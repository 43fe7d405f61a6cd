"""What a launch gets wrong, kept as findings: the message, and the source line as the title.

Accesses outside of its buffers, and tiles that wgmma reads otherwise than TMA wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.profiles.model import Finding, Profile
from ncu_swizzle.validate import MOST_DIGITS

BOUNDS_RULE, TILES_RULE = "ncu-swizzle.bounds", "ncu-swizzle.tiles"
RULES = (BOUNDS_RULE, TILES_RULE)


class Violation(NamedTuple):
    """What is wrong, the own source line that does it, if known, and which rule says so."""

    message: str
    line: Location | None
    rule: str = BOUNDS_RULE


def finding(violation: Violation) -> Finding:
    """Return a violation as a finding."""
    title = f"{violation.line[0]}:{violation.line[1]}" if violation.line else ""
    return Finding(violation.rule, "warning", title, violation.message)


def violations(profile: Profile) -> Iterator[Violation]:
    """Yield a profile's violations."""
    for told in profile.findings:
        if told.rule in RULES:
            file, _, line = told.title.rpartition(":")
            located = file and line.isascii() and line.isdigit() and len(line) <= MOST_DIGITS
            yield Violation(told.message, (file, int(line)) if located else None, told.rule)


def warnings_about(label: str, profile: Profile) -> Iterator[str]:
    """Yield a sentence per violation, its source line first."""
    for message, line, _ in violations(profile):
        where = f"{line[0]}:{line[1]}: " if line else ""
        yield f"{label}: {where}{message}."
