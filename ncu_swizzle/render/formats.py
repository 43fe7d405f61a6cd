"""A result as JSON, CSV and Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from ncu_swizzle.base.texts import in_csv, in_json
from ncu_swizzle.render import mix, summary, tables, templates, text
from ncu_swizzle.render.templates import Markdown
from ncu_swizzle.reports import frames, pack, pairing
from ncu_swizzle.reports.comparison import Comparison, JobResult
from ncu_swizzle.reports.counts import Instruction

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding

# A result as JSON: everything that the terminal and the report show, and the profiles behind it.

SCHEMA = 1


def to_json(result: JobResult) -> str:
    """Return the result as one JSON object; ``docs/profile.md`` and ``docs/programs.md`` describe it."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "engine": result.engine,
        "engine_reason": result.reason,
    }
    if len(result.comparisons) == 1:
        content |= _comparison(result.comparison)
    else:
        content |= {
            "verdict": pairing.verdict(result.comparisons),
            "warnings": list(result.notes),
            "kernels": [_kernel(comparison) for comparison in result.comparisons],
            "comparisons": [
                {"title": comparison.title, **_comparison(comparison)} for comparison in result.comparisons
            ],
        }
    content["files"] = [str(file) for file in result.files]
    return in_json(content)


def _kernel(comparison: Comparison) -> dict[str, Any]:
    """Return a launch or a pair in brief: each list has one value per profile."""
    return {
        "title": comparison.title,
        "function": comparison.profiles[-1].kernel.function,
        "labels": list(comparison.labels),
        "provenance": [p.provenance for p in comparison.profiles],
        "launch": [p.launch.index for p in comparison.profiles],
        "grid": [list(p.grid) for p in comparison.profiles],
        "block": [list(p.block) for p in comparison.profiles],
        "duration_ns": [p.duration_ns for p in comparison.profiles],
        "excessive": [pairing.excess(p) for p in comparison.profiles],
        "degree": [p.total.degree for p in comparison.profiles],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "provenance": {label: profile.provenance for label, profile in comparison.named},
        "verdict": comparison.verdict,
        "speedup": comparison.speedup,
        "saves": asdict(comparison.saves) if comparison.saves else None,
        "warnings": list(comparison.warnings),
        "labels": list(comparison.labels),
        "metrics": records(comparison.metrics.reset_index()),
        "accesses": records(comparison.accesses),
        "memory": records(comparison.memory),
        "stalls": records(comparison.stalls.reset_index()),
        "unknowns": [
            {"label": label, **asdict(why)} for label, profile in comparison.named for why in profile.unknowns
        ],
        "unknown_traffic": [
            {"label": label, **asdict(why)} for label, profile in comparison.named for why in profile.unknown_traffic
        ],
        "samples": [profile.all_samples for profile in comparison.profiles],
        "mix": _mix_record(comparison),
        "lines": records(comparison.lines),
        "findings": pack.rows(pack.launch_findings(comparison)),
        "profiles": [json.loads(profile.to_json()) for profile in comparison.profiles],
    }


def _mix_record(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "label": label,
            "class": key[0],
            "opcode": key[1] or None,
            "executed": None if counted.uncounted_classes[key] else executed,  # a lower bound is not a count
        }
        for label, profile in comparison.named
        for counted in [frames.count(profile)]
        for key, executed in sorted(counted.classes.items())
    ]


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows for JSON; unknown values are null."""
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


# Tables as CSV; of profiles, the table of instructions: every SASS instruction, every count, nothing rounded.


def to_csv(*comparisons: Comparison) -> str:
    """Return one row per instruction and profile: profile, engine, the columns of `frames.INSTRUCTIONS`, stall reasons.

    A count that the report lacks is empty. With several comparisons, a profile is named by its kernel's title, and by
    its label too if the kernel has several profiles.
    """
    return written(frames.comparisons_table(comparisons))


def written(table: pd.DataFrame) -> str:
    """Return a table as CSV that opens in a spreadsheet without running anything: see `texts.in_csv`."""
    cells = [_harmless(column).rename(number) for number, (_, column) in enumerate(table.items())]
    safe = pd.concat(cells, axis=1) if cells else table
    return str(safe.to_csv(index=False, header=[in_csv(str(name)) for name in table.columns], lineterminator="\n"))


def _harmless(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    return column.astype(object).map(lambda cell: in_csv(cell) if isinstance(cell, str) else cell)


# Comparisons as Markdown that fits a pull-request comment and GitHub's step summary: templates in reports/markdown.

MOST_BYTES = 60_000  # GitHub takes 65,536 characters in a comment
INSTRUCTIONS_SHOWN = 5
MOST_COLUMNS = 6  # profiles side by side; more do not fit a comment
LIMITS = {"most_stalls": 6, "most_columns": MOST_COLUMNS, "most_parts": 3, "most_rows": 100}  # kernels in full, listed
PART = Markdown("\f")  # between parts: no value has this character, see `texts.visible`


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "") -> str:
    """Return comparisons as Markdown: a single one in full, several as a table of all with the worst in full.

    The same comparisons give the same text.
    """
    if len(comparisons) == 1:
        return _joined(templates.markdown("comparison", **_CALLED, comparison=comparisons[0]))
    profiles = [profile for comparison in comparisons for profile in comparison.profiles]
    return _joined(
        templates.markdown(
            "kernels",
            **_CALLED,
            comparisons=comparisons,
            rows=summary.rows(comparisons),
            notes=notes,
            title=title,
            recorded=any(profile.origin.recorded for profile in profiles),
            paired=len(profiles) > len(comparisons),
        )
    )


def _joined(markdown: str) -> str:
    """Return the parts, as many as fit."""
    joined = ""
    for part in markdown.split(PART)[:-1]:
        if len((joined + part).encode()) > MOST_BYTES:
            return f"{joined}Truncated to fit; the HTML report has everything.\n"
        joined += f"{part}\n"
    return joined


def worst_instructions(comparison: Comparison) -> list[tuple[str, Instruction]]:
    """Return the instructions with most excess, of the first profiles that have any, with the profiles' labels."""
    return [
        (table.label, instruction)
        for table in tables.instructions(comparison)[:MOST_COLUMNS]
        for instruction in [i for i in table.rows if i.excessive][:INSTRUCTIONS_SHOWN]
    ]


def findings_worth_reading(comparison: Comparison) -> list[tuple[str, Finding]]:
    """Return the rule pack's optimizations and warnings about the first profiles, with the profiles' labels."""
    groups = summary.groups(comparison)[:MOST_COLUMNS]
    return [(label, finding) for label, told in groups for finding in told if finding.kind != "ok"]


# What the templates know.
_CALLED: dict[str, Any] = {
    **LIMITS,
    "part": PART,
    "mix": mix,
    "pairing": pairing,
    "summary": summary,
    "tables": tables,
    "text": text,
    "worst_instructions": worst_instructions,
    "findings_worth_reading": findings_worth_reading,
}
