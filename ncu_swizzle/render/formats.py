"""A comparison as Markdown that fits a pull-request comment and GitHub's step summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from ncu_swizzle.base.texts import in_code, in_csv, in_json, in_markdown
from ncu_swizzle.render import document, text
from ncu_swizzle.render.banks import TilesOf
from ncu_swizzle.render.colours import Coloured
from ncu_swizzle.render.document import InstructionRow, Report
from ncu_swizzle.render.mix import KINDS
from ncu_swizzle.render.source import Highlight
from ncu_swizzle.reports import frames, many_launches, pack
from ncu_swizzle.reports.comparison import Comparison, JobResult

# A result as JSON: everything that the terminal and the report show, and the profiles behind it.


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
        "mix": _mix_record(comparison),
        "lines": _rows(comparison.lines),
        "findings": pack.rows(pack.launch_findings(comparison)),
        "profiles": [json.loads(profile.to_json()) for profile in comparison.profiles],
    }


def _mix_record(comparison: Comparison) -> list[dict[str, Any]]:
    mixes = {
        label: frames.count(profile) for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
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


# Tables as CSV; of profiles, the table of instructions: every SASS instruction, every count, nothing rounded.


def to_csv(*comparisons: Comparison) -> str:
    """Return one row per instruction and profile: profile, engine, the columns of `frames.INSTRUCTIONS`, stall reasons.

    A count that the report lacks is empty. With several comparisons, a profile is named by its kernel's title, and by
    its label too if the kernel has several profiles.
    """
    return written(frames.of_comparisons(comparisons))


def written(table: pd.DataFrame) -> str:
    """Return a table as CSV that opens in a spreadsheet without running anything: see `texts.in_csv`."""
    cells = [_harmless(column).rename(number) for number, (_, column) in enumerate(table.items())]
    safe = pd.concat(cells, axis=1) if cells else table
    return str(safe.to_csv(index=False, header=[in_csv(str(name)) for name in table.columns], lineterminator="\n"))


def _harmless(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    return column.astype(object).map(lambda cell: in_csv(cell) if isinstance(cell, str) else cell)


MOST_BYTES = 60_000  # GitHub takes 65,536 characters in a comment
STALLS_SHOWN = 6
INSTRUCTIONS_SHOWN = 5
MOST_PARTS = 3  # kernels shown in full
MOST_ROWS = 100  # kernels listed
NO_SOURCE: Highlight = lambda text, path: Coloured(())  # noqa: E731 - Markdown shows no source
NO_TILES: TilesOf = lambda profile: ()  # noqa: E731 - nor bank maps
MOST_COLUMNS = 6  # profiles side by side; more do not fit a comment


def render(comparison: Comparison) -> str:
    """Return the report as Markdown, from the page's view data; the same comparison gives the same text."""
    return _joined(_parts(document.build(comparison, NO_SOURCE, NO_TILES)))


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "") -> str:
    """Return several comparisons as Markdown: a table of all and the worst in full; a single one as `render` does."""
    if len(comparisons) == 1:
        return render(comparisons[0])
    page = document.build_page(
        comparisons,
        notes,
        title=title or f"{len(comparisons)} kernels",
        highlight=NO_SOURCE,
        tiles_of=NO_TILES,
        most=MOST_PARTS,
    )
    parts = [f"### {in_markdown(page.title)}\n", f"**{in_markdown(page.verdict)}**\n"]
    parts += ["> Recorded, not measured now.\n"] if page.recorded else []
    parts += ["\n".join(f"> {in_markdown(note)}" for note in page.notes) + "\n"] if page.notes else []
    rows = [
        [r.number, in_markdown(", ".join([r.name, r.note] if r.note else [r.name])), r.grid, r.block, r.excessive,
         r.degree, r.duration, *([r.pace] if page.compares else [])]
        for r in page.rows[:MOST_ROWS]
    ]  # fmt: skip
    pace = ["speedup"] if page.compares else []
    parts.append(_table(["launch", "kernel", "grid", "block", "excessive", "degree", "duration", *pace], rows, words=4))
    if len(page.rows) > MOST_ROWS:
        parts.append(f"{len(page.rows) - MOST_ROWS} more in the HTML report.\n")
    for part in page.parts:
        parts.append(f"#### {in_markdown(part.name)}\n")
        parts += _parts(part.report)[1:]
    return _joined(parts)


def _parts(report: Report) -> list[str]:
    parts = [*_head(report), *_overview(report), *_accesses(report), *_stalls(report), *_mix(report), *_worst(report)]
    return [*parts, *_rules(report), *_origin(report)]


def _joined(parts: Iterable[str]) -> str:
    text = ""
    for part in parts:
        if len((text + part).encode()) > MOST_BYTES:
            return f"{text}Truncated to fit; the HTML report has everything.\n"
        text += f"{part}\n"
    return text


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a table; all columns but the first `words` are numbers, right-aligned."""
    marks = [" --- " if column < words else " ---: " for column in range(len(heads))]
    lines = [f"|{'|'.join(marks)}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([f"| {' | '.join(heads)} |", *lines]) + "\n"


def _head(report: Report) -> list[str]:
    parts = [f"### {in_markdown(report.title)}\n", f"**{in_markdown(report.verdict)}**\n"]
    if report.computed:
        parts.append(f"> Computed, not measured: wavefronts of {in_markdown('; '.join(report.computed))}.\n")
    if report.recorded:
        parts.append(f"> Recorded, not measured now: {in_markdown('; '.join(report.recorded))}.\n")
    if report.warnings:
        parts.append("\n".join(f"> **Warning:** {in_markdown(warning)}" for warning in report.warnings) + "\n")
    rows = [
        [figure.title, in_markdown(figure.before), in_markdown(figure.after), figure.note] for figure in report.figures
    ]
    if report.compares:
        before, after = (in_markdown(label) for label in report.judged)
        parts.append(_table(["", before, after, ""], rows))
    else:
        parts.append(
            _table(["", in_markdown(report.labels[0]), ""], [[title, after, note] for title, _, after, note in rows])
        )
    return parts


def _overview(report: Report) -> list[str]:
    rows = [[in_markdown(r.label), r.excessive, r.degree, r.duration, r.pace, r.pipe] for r in report.overview]
    return [_table(["profile", "excessive", "degree", "duration", "speed", "shared pipe"], rows)] if rows else []


def _accesses(report: Report) -> list[str]:
    rows = [
        [
            in_markdown(kind.name),
            kind.transfer,
            in_markdown(row.label),
            row.actual,
            row.ideal,
            row.excessive,
            row.degree,
        ]
        for kind in report.accesses
        for row in kind.rows[:MOST_COLUMNS]
    ]
    if not rows:
        return ["No shared-memory accesses were counted.\n"]
    heads = ["access", "transfer", "profile", "actual", "ideal", "excessive", "degree"]
    parts = ["#### Wavefronts by access\n", _table(heads, rows, words=3)]
    if report.phantoms:
        counters = "; ".join(f"{in_markdown(phantom.label)}: {phantom.counters}" for phantom in report.phantoms)
        parts.append(f"Phantom conflicts (hardware counters above zero without any excessive wavefront): {counters}.\n")
    return parts


def _columns(report: Report) -> list[str]:
    """Return the heads of a table with one column per profile and a change column after the second."""
    heads = [in_markdown(label) for label in report.labels[:MOST_COLUMNS]]
    return [*heads[:2], "change", *heads[2:]] if report.compares else heads


def _cells(values: Sequence[str], change: str, compares: bool) -> list[str]:
    shown = list(values[:MOST_COLUMNS])
    return [*shown[:2], change, *shown[2:]] if compares else shown


def _stalls(report: Report) -> list[str]:
    rows = [
        [in_code(row.reason), *_cells([share.text for share in row.shares], row.change, report.compares)]
        for row in report.stalls.major[:STALLS_SHOWN]
    ]
    if not rows:
        return []
    total = ["all warp samples", *_cells([text.count(n.samples) for n in report.stalls.sampled], "", report.compares)]
    sentences = [in_markdown(" ".join(report.stalls.sentences)) + "\n"] if report.stalls.sentences else []
    return ["#### Stalls, share of samples\n", *sentences, _table(["reason", *_columns(report)], [*rows, total])]


def _mix(report: Report) -> list[str]:
    if report.mix is None:
        return []
    rows = [
        [in_markdown(row.name), *_cells([share.text for share in row.shares], row.change, report.compares)]
        for row in (*report.mix.rows, report.mix.total)
    ]
    rows += [
        [
            in_markdown(row.title),
            *_cells([f"{value} {row.unit}".strip() for value in row.values], row.change, report.compares),
        ]
        for row in report.mix.resources
    ]
    sentence = f"{in_markdown(report.mix.sentence)}\n\n" if report.mix.sentence else ""
    table = _table(["warp instructions", *_columns(report)], rows)
    return [f"{sentence}<details><summary>Instruction mix</summary>\n\n{table}\n</details>\n"]


def _worst(report: Report) -> list[str]:
    """Return the instructions with most excess, of the first profiles that have any."""
    rows = [
        [
            in_markdown(table.label),
            in_code(row.sass),
            *([in_code(row.source)] if row.source else [""]),
            row.excessive,
            row.degree,
        ]
        for table in report.instructions[:MOST_COLUMNS]
        for row in _excessive(table.rows)[:INSTRUCTIONS_SHOWN]
    ]
    if not rows:
        return []
    table = _table(["profile", "instruction", "source", "excessive", "degree"], rows, words=3)
    return [f"<details><summary>Worst instructions</summary>\n\n{table}\n</details>\n"]


def _rules(report: Report) -> list[str]:
    """Return the rule pack's optimizations and warnings, profile by profile."""
    items = [
        f"- **{in_markdown(group.label)}**, {in_markdown(card.title)}: {in_markdown(card.message)}"
        for group in report.findings[:MOST_COLUMNS]
        for card in group.cards
        if card.kind != KINDS["ok"]
    ]
    if not items:
        return []
    return ["<details><summary>Rule findings</summary>\n\n" + "\n".join(items) + "\n\n</details>\n"]


def _excessive(rows: Sequence[InstructionRow]) -> list[InstructionRow]:
    return [row for row in rows if row.heat]


def _origin(report: Report) -> list[str]:
    return [f"<sub>{in_markdown(report.conditions)} · made with ncu-swizzle</sub>\n"]
