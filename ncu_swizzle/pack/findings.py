"""The rule pack's findings of profiles, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles.comparison import Comparison

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding

SCHEMA = 1


@dataclass(frozen=True)
class Found:
    """What the rules say of one launch."""

    label: str
    findings: tuple[Finding, ...]


def of(comparison: Comparison) -> tuple[Found, ...]:
    """Return the findings of every profile of a comparison."""
    return tuple(
        Found(label, bridge.findings(profile))
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
    )


def rows(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Return the findings as plain data, one entry per finding."""
    return [{"label": one.label, **asdict(finding)} for one in found for finding in one.findings]


def to_json(found: Sequence[Found]) -> str:
    return json.dumps({"schema": SCHEMA, "findings": rows(found)}, ensure_ascii=False) + "\n"
