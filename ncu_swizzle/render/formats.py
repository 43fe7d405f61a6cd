"""A result as JSON, CSV and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from ncu_swizzle.base.texts import in_code, in_csv, in_json, in_markdown
from ncu_swizzle.render import findings, mix, summary, tables, text
from ncu_swizzle.reports import frames, pack, pairing
from ncu_swizzle.reports.comparison import Comparison, JobResult

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
        "metrics": _rows(comparison.metrics.reset_index()),
        "accesses": _rows(comparison.accesses),
        "memory": _rows(comparison.memory),
        "stalls": _rows(comparison.stalls.reset_index()),
        "unknowns": [
            {"label": label, **asdict(why)} for label, profile in comparison.named for why in profile.unknowns
        ],
        "unknown_traffic": [
            {"label": label, **asdict(why)} for label, profile in comparison.named for why in profile.unknown_traffic
        ],
        "samples": [profile.all_samples for profile in comparison.profiles],
        "mix": _mix_record(comparison),
        "lines": _rows(comparison.lines),
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


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
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


# A comparison as Markdown that fits a pull-request comment and GitHub's step summary.

MOST_BYTES = 60_000  # GitHub takes 65,536 characters in a comment
STALLS_SHOWN = 6
INSTRUCTIONS_SHOWN = 5
MOST_PARTS = 3  # kernels shown in full
MOST_ROWS = 100  # kernels listed
MOST_COLUMNS = 6  # profiles side by side; more do not fit a comment


def render(comparison: Comparison) -> str:
    """Return the report as Markdown; the same comparison gives the same text."""
    judged = [comparison.labels[number] for number in comparison.judged]
    return _joined([*_head(" → ".join(judged), comparison.verdict), *_parts(comparison)])


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "") -> str:
    """Return several comparisons as Markdown: a table of all and the worst in full; a single one as `render` does."""
    if len(comparisons) == 1:
        return render(comparisons[0])
    rows = summary.rows(comparisons)
    profiles = [profile for comparison in comparisons for profile in comparison.profiles]
    parts = _head(title or f"{len(comparisons)} kernels", pairing.verdict(comparisons))
    parts += ["> Recorded, not measured now.\n"] * any(profile.origin.recorded for profile in profiles)
    parts += ["\n".join(f"> {in_markdown(note)}" for note in notes) + "\n"] if notes else []
    paces = ["speedup"] if len(profiles) > len(comparisons) else []
    cells = [
        [
            *(r.number, in_markdown(", ".join(filter(None, [r.name, r.note]))), r.grid, r.block, r.excessive),
            *(r.degree, r.duration, *([r.pace] if paces else [])),
        ]
        for r in rows[:MOST_ROWS]
    ]
    heads = ["launch", "kernel", "grid", "block", "excessive", "degree", "duration", *paces]
    parts.append(markdown_table(heads, cells, words=4))
    parts += [f"{len(rows) - MOST_ROWS} more in the HTML report.\n"] * (len(rows) > MOST_ROWS)
    for index in pairing.worst(comparisons, MOST_PARTS):
        comparison = comparisons[index]
        parts += [f"#### {in_markdown(rows[index].name)}\n", f"**{in_markdown(comparison.verdict)}**\n"]
        parts += _parts(comparison)
    return _joined(parts)


def _head(title: str, verdict: str) -> list[str]:
    return [f"### {in_markdown(title)}\n", f"**{in_markdown(verdict)}**\n"]


def _joined(parts: Iterable[str]) -> str:
    joined = ""
    for part in parts:
        if len((joined + part).encode()) > MOST_BYTES:
            return f"{joined}Truncated to fit; the HTML report has everything.\n"
        joined += f"{part}\n"
    return joined


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a table; all columns but the first `words` are numbers, right-aligned."""
    marks = [" --- " if column < words else " ---: " for column in range(len(heads))]
    lines = [f"|{'|'.join(marks)}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([f"| {' | '.join(heads)} |", *lines]) + "\n"


def _parts(comparison: Comparison) -> Iterator[str]:
    """Yield the sections of a comparison, from the figures to its origin."""
    if computed := summary.computed(comparison):
        yield f"> Computed, not measured: wavefronts of {in_markdown('; '.join(computed))}.\n"
    if recorded := summary.recorded(comparison):
        yield f"> Recorded, not measured now: {in_markdown('; '.join(recorded))}.\n"
    if comparison.warnings:
        yield "\n".join(f"> **Warning:** {in_markdown(warning)}" for warning in comparison.warnings) + "\n"
    yield _figures(comparison)
    if overview := summary.overview(comparison):
        rows = [[in_markdown(r.label), r.excessive, r.degree, r.duration, r.pace, r.pipe] for r in overview]
        yield markdown_table(["profile", "excessive", "degree", "duration", "speed", "shared pipe"], rows)
    yield from _accesses(comparison)
    yield from _stalls(comparison)
    yield from _mix(comparison)
    if worst := _worst(comparison):
        heads = ["profile", "instruction", "source", "excessive", "degree"]
        yield f"<details><summary>Worst instructions</summary>\n\n{markdown_table(heads, worst, words=3)}\n</details>\n"
    bullets = [
        f"- **{in_markdown(label)}**, {in_markdown(finding.title)} ({finding.code}): {in_markdown(finding.message)}"
        for label, told in findings.groups(comparison)[:MOST_COLUMNS]
        for finding in told
        if finding.kind != "ok"
    ]
    if bullets:
        yield "<details><summary>Rule findings</summary>\n\n" + "\n".join(bullets) + "\n\n</details>\n"
    yield f"<sub>{in_markdown(summary.conditions(comparison))} · made with ncu-swizzle</sub>\n"


def _figures(comparison: Comparison) -> str:
    figures = summary.figures(comparison)
    *before, after = [in_markdown(comparison.labels[number]) for number in comparison.judged]
    if not before:
        return markdown_table(
            ["", after, ""], [[figure.title, in_markdown(figure.after), figure.note] for figure in figures]
        )
    rows = [[figure.title, in_markdown(figure.before), in_markdown(figure.after), figure.note] for figure in figures]
    return markdown_table(["", *before, after, ""], rows)


def _accesses(comparison: Comparison) -> Iterator[str]:
    rows = [
        [
            *(in_markdown(kind.name), kind.transfer, in_markdown(label)),
            *(text.summed(total, name) for name in ("wavefronts", "ideal", "excessive")),
            text.degree(total.degree),
        ]
        for kind in tables.accesses(comparison)
        for label, total, _ in kind.rows[:MOST_COLUMNS]
    ]
    if not rows:
        yield "No shared-memory accesses were counted.\n"
        return
    yield "#### Wavefronts by access\n"
    yield markdown_table(["access", "transfer", "profile", "actual", "ideal", "excessive", "degree"], rows, words=3)
    if phantoms := tables.phantoms(comparison):
        counters = "; ".join(f"{in_markdown(label)}: {counts}" for label, counts in phantoms.items())
        yield f"Phantom conflicts (hardware counters above zero without any excessive wavefront): {counters}.\n"


def _columns(comparison: Comparison) -> list[str]:
    """Return the heads of a table with one column per profile and a change column after the second."""
    return _cells([in_markdown(label) for label in comparison.labels], "change")


def _cells(values: Sequence[str], change: str) -> list[str]:
    shown = list(values[:MOST_COLUMNS])
    return [*shown[:2], change, *shown[2:]] if len(values) > 1 else shown


def _stalls(comparison: Comparison) -> Iterator[str]:
    stalls = tables.stalls(comparison)
    rows = [
        [
            in_code(row.reason),
            *_cells([*map(text.percent, row.shares)], text.points(*row.shares[:2]) if len(row.shares) > 1 else ""),
        ]
        for row in stalls.major[:STALLS_SHOWN]
    ]
    if rows:
        total = ["all warp samples", *_cells([text.count(p.all_samples) for p in comparison.profiles], "")]
        sentences = [in_markdown(" ".join(stalls.sentences)) + "\n"] if stalls.sentences else []
        yield "#### Stalls, share of samples\n"
        yield from sentences
        yield markdown_table(["reason", *_columns(comparison)], [*rows, total])


def _mix(comparison: Comparison) -> Iterator[str]:
    section = mix.section(comparison)
    if section is None:
        return
    rows = [
        [in_markdown(row.name), *_cells([*map(str, row.counts)], row.change)] for row in (*section.rows, section.total)
    ]
    rows += [
        [in_markdown(row.title), *_cells([f"{value} {row.unit}".strip() for value in row.values], row.change)]
        for row in tables.metrics(comparison, mix.RESOURCES)
    ]
    sentence = f"{in_markdown(section.sentence)}\n\n" if section.sentence else ""
    table = markdown_table(["warp instructions", *_columns(comparison)], rows)
    yield f"{sentence}<details><summary>Instruction mix</summary>\n\n{table}\n</details>\n"


def _worst(comparison: Comparison) -> list[list[str]]:
    """Return the rows of the instructions with most excess, of the first profiles that have any."""
    return [
        [
            *(in_markdown(table.label), in_code(text.shortened(i.sass)), in_code(source) if source else ""),
            *(text.count(i.excessive), text.degree(i.degree)),
        ]
        for table in tables.instructions(comparison)[:MOST_COLUMNS]
        for i in [i for i in table.rows if i.excessive][:INSTRUCTIONS_SHOWN]
        for source in [tables.source_of(i)]
    ]
