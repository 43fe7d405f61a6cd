"""A result as JSON: everything that the terminal and the report show, and the profiles behind it."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from ncu_swizzle.pack import findings
from ncu_swizzle.profiles import instruction_mix, many_launches
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.result import JobResult
from ncu_swizzle.texts import in_json

SCHEMA = 1


def to_json(result: JobResult) -> str:
    """Return the result as one JSON object; ``docs/profile.md`` and ``docs/programs.md`` describe it."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "engine": result.engine.name,
        "engine_reason": result.engine.reason,
    }
    if len(result.comparisons) == 1:
        content |= _comparison(result.comparison)
    else:
        content |= {
            "verdict": many_launches.verdict(result.comparisons),
            "warnings": list(result.notes),
            "kernels": [_kernel(comparison) for comparison in result.comparisons],
            "comparisons": [{"title": each.title, **_comparison(each)} for each in result.comparisons],
        }
    content["files"] = [str(file) for file in result.files]
    return in_json(content)


def _kernel(comparison: Comparison) -> dict[str, Any]:
    """Return a launch or a pair in brief: each list has one value per profile."""
    return {
        "title": comparison.title,
        "function": comparison.profiles[-1].kernel.function,
        "labels": list(comparison.labels),
        "launch": [p.launch.index for p in comparison.profiles],
        "grid": [list(p.grid) for p in comparison.profiles],
        "block": [list(p.block) for p in comparison.profiles],
        "duration_ns": [p.duration_ns for p in comparison.profiles],
        "excessive": [many_launches.excess(p) for p in comparison.profiles],
        "degree": [p.total.degree for p in comparison.profiles],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "verdict": comparison.verdict,
        "speedup": comparison.speedup,
        "warnings": list(comparison.warnings),
        "labels": list(comparison.labels),
        "metrics": _rows(comparison.metrics.reset_index()),
        "accesses": _rows(comparison.accesses),
        "stalls": _rows(comparison.stalls.reset_index()),
        "samples": [sum(profile.stalls.values()) for profile in comparison.profiles],
        "mix": _mix(comparison),
        "lines": _rows(comparison.lines),
        "findings": findings.rows(findings.launch_findings(comparison)),
        "profiles": [json.loads(profile.to_json()) for profile in comparison.profiles],
    }


def _mix(comparison: Comparison) -> list[dict[str, Any]]:
    mixes = {
        label: instruction_mix.count(profile)
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
    }
    return [
        {
            "label": label,
            "class": key[0],
            "opcode": key[1] or None,
            "executed": None if mix.uncounted_classes[key] else executed,  # a lower bound is not a count
        }
        for label, mix in mixes.items()
        for key, executed in sorted(mix.classes.items())
    ]


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]
