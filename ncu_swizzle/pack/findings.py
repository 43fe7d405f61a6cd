"""The rule pack's findings, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.texts import in_json

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding

SCHEMA = 1


@dataclass(frozen=True)
class LaunchFindings:
    """The findings for one launch."""

    label: str
    findings: tuple[Finding, ...]


def launch_findings(comparison: Comparison) -> tuple[LaunchFindings, ...]:
    """Return the findings for every profile of a comparison."""
    return tuple(
        LaunchFindings(label, bridge.findings(profile))
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
    )


def rows(launches: Sequence[LaunchFindings]) -> list[dict[str, Any]]:
    """Return the findings as plain data, one entry per finding."""
    return [{"label": launch.label, **asdict(finding)} for launch in launches for finding in launch.findings]


def to_json(launches: Sequence[LaunchFindings]) -> str:
    """Return the findings as one JSON object."""
    return in_json({"schema": SCHEMA, "findings": rows(launches)})
