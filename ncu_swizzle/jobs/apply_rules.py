"""Apply the rule pack to finished reports."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.jobs.compare import reopen
from ncu_swizzle.pack import findings
from ncu_swizzle.pack.findings import Found


def apply(entries: Sequence[str]) -> tuple[Found, ...]:
    """Return the findings of saved reports, profiles and runs; raise BadFile or DamagedFile."""
    return tuple(finding for comparison in reopen(entries).comparisons for finding in findings.of(comparison))
