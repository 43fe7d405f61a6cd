"""A result as JSON: what the terminal and the report show, and the profiles that it was made from."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from ncu_swizzle import applying, mix
from ncu_swizzle.compare import Comparison
from ncu_swizzle.experiment import Result

SCHEMA = 1


def to_json(result: Result) -> str:
    """Return the result as one JSON object; ``docs/profile.md`` describes it."""
    comparison = result.comparison
    content = {
        "schema": SCHEMA,
        "engine": result.engine.name,
        "engine_reason": result.engine.reason,
        "verdict": comparison.verdict,
        "speedup": comparison.speedup,
        "warnings": list(comparison.warnings),
        "labels": list(comparison.labels),
        "metrics": _rows(comparison.metrics.reset_index()),
        "accesses": _rows(comparison.accesses),
        "stalls": _rows(comparison.stalls.reset_index()),
        "mix": _mix(comparison),
        "lines": _rows(comparison.lines),
        "findings": applying.rows(applying.of(comparison)),
        "files": [str(file) for file in result.files],
        "profiles": [json.loads(profile.to_json()) for profile in comparison.profiles],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _mix(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {"label": label, "class": kind, "opcode": word or None, "executed": executed}
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
        for (kind, word), executed in sorted(mix.count(profile).classes.items())
    ]


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]
