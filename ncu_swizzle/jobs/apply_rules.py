"""Apply the rule pack to finished reports."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.jobs.compare import reopen
from ncu_swizzle.pack import findings
from ncu_swizzle.pack.findings import LaunchFindings


def apply(entries: Sequence[str]) -> tuple[LaunchFindings, ...]:
    """Return the findings of saved reports, profiles and runs; raise BadFile or DamagedFile."""
    return tuple(
        launch for comparison in reopen(entries).comparisons for launch in findings.launch_findings(comparison)
    )
