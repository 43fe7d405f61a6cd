"""A comparison as Markdown that fits a pull-request comment and GitHub's step summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.render.view import document, text
from ncu_swizzle.render.view.banks import TilesOf
from ncu_swizzle.render.view.document import Report
from ncu_swizzle.render.view.excerpt import Coloured, Highlight
from ncu_swizzle.render.view.findings import KINDS
from ncu_swizzle.render.view.instructions import InstructionRow
from ncu_swizzle.texts import in_code, in_markdown

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
        comparisons, notes, title or f"{len(comparisons)} kernels", NO_SOURCE, NO_TILES, MOST_PARTS
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
