"""A result on an 80-column terminal: one comparison in full, or a list of kernels and the worst in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncu_swizzle.render import mix, summary, text
from ncu_swizzle.render.listing import plain_table, table_line
from ncu_swizzle.render.summary import computed
from ncu_swizzle.reports import pairing
from ncu_swizzle.reports.comparison import Comparison, JobResult, compare
from ncu_swizzle.reports.counts import TRANSFERS
from ncu_swizzle.reports.memory import LOCAL_OPCODES

STALLS_SHOWN = 6
MOST_COLUMNS = 3  # profiles side by side in 80 columns; with more, an overview comes first
KERNELS_SHOWN = 3  # of many kernels, those shown in full
FORMATS = {"ms": "{:,.3f}"}  # by unit; other fractions have one decimal
KEY_METRICS = (
    "Duration",
    "Shared pipe, share of peak",
    "Tensor pipe, share of peak",
    "L2, share of peak",
    "DRAM, share of peak",
    "Hardware conflict counter, loads",
    "Hardware conflict counter, stores",
    "Registers per thread",
    "Achieved occupancy",
)


def show(result: JobResult, console: Console) -> None:
    """Print provenance, tables, warnings, verdict and the files written; of many kernels, a list and the worst."""
    console.print(_origin(result))
    if len(result.comparisons) == 1:
        _show_comparison(result.comparison, console)
    else:
        _show_kernels(result, console)
    if result.folder:
        console.print()
        console.print(table_line("Written to ", (f"{result.folder}/", "bold"), ":"))
        for file in result.files:
            console.print(table_line(f"  {file.name}"))


def _show_comparison(comparison: Comparison, console: Console) -> None:
    everything, left_out = comparison, len(comparison.labels) - MOST_COLUMNS
    if left_out > 0:
        comparison = compare(comparison.profiles[:MOST_COLUMNS], labels=comparison.labels[:MOST_COLUMNS])
        console.print(_overview(everything))
    console.print(_accesses(comparison))
    if not comparison.memory.empty:
        console.print(_memory(comparison))
    if not comparison.stalls.empty:
        console.print(_stalls(comparison))
        if caution := text.few_samples_caution(comparison):
            console.print(table_line(caution, style="dim"))
    instructions = mix.section(comparison)
    if instructions and any(str(count) != text.UNKNOWN for count in instructions.total.counts[:2]):
        console.print(_mix(instructions, comparison))
    console.print(_metrics(comparison))
    if left_out > 0:
        console.print(table_line(f"{left_out} more profiles are in the report, --json and --csv.", style="dim"))
    for label, profile in zip(everything.labels, everything.profiles, strict=True):
        for output in profile.checked if not any(output.wrong for output in profile.checked) else ():
            console.print(table_line(f"{label}: {output}."))
    for warning in everything.warnings:
        console.print(table_line(("Warning:", "yellow"), f" {warning}"))
    for finding in summary.gains(comparison.profiles[min(1, len(comparison.profiles) - 1)]):
        console.print()
        console.print(table_line((finding.title, "bold"), f" ({finding.code}): {finding.message}"))
    console.print()
    console.print(table_line(everything.verdict, style="bold"))


def _overview(comparison: Comparison) -> Table:
    table = plain_table(f"{len(comparison.labels)} profiles", "profile")
    for title in ("excessive", "degree", "duration", "speed", "shared pipe"):
        table.add_column(title, justify="right")
    for row in summary.overview(comparison):
        table.add_row(row.label, row.excessive, row.degree, row.duration, row.pace, row.pipe)
    return table


def _beside(comparison: Comparison, title: str, head: str, changes: bool = True) -> Table:
    """Return an empty table with a column per profile and, between two or more, one for the change."""
    table = plain_table(title, head)
    for label in comparison.labels:
        table.add_column(label, justify="right")
    if changes and len(comparison.labels) > 1:
        table.add_column("change", justify="right")
    return table


def _mix(section: mix.MixSection, comparison: Comparison) -> Table:
    table = _beside(comparison, "Warp instructions executed", "class")
    for row in (*section.rows, section.total):
        counts = (str(count).replace(text.AT_LEAST, "≥ ") for count in row.counts)  # 80 columns are few
        table.add_row(row.name, *counts, *[row.change] * (len(comparison.labels) > 1))
    return table


def _show_kernels(result: JobResult, console: Console) -> None:
    console.print(kernel_list(result.comparisons))
    for note in result.notes:
        console.print(table_line(("Note:", "yellow"), f" {note}"))
    for line in pairing.outputs(result.comparisons):
        console.print(table_line(line))
    worst = [result.comparisons[index] for index in pairing.worst(result.comparisons, KERNELS_SHOWN)]
    conflicting = [comparison for comparison in worst if pairing.excessive(comparison)]
    for comparison in conflicting:
        console.print()
        console.print(table_line(f"── {comparison.title}", style="bold"))
        _show_comparison(comparison, console)
    console.print()
    console.print(table_line(pairing.verdict(result.comparisons), style="bold"))
    if len(conflicting) < len(result.comparisons):
        console.print(
            table_line("ncu-swizzle report --launch N or --kernel-name NAME shows others in full.", style="dim")
        )


def kernel_list(comparisons: Sequence[Comparison]) -> Table:
    """Return one row per launch or pair of launches: number, name, sizes, duration, excess and degree."""
    rows = summary.rows(comparisons)
    paired = any(len(comparison.profiles) > 1 for comparison in comparisons)
    noun = "pairs and launches" if paired else "launches"
    table = plain_table(f"{len(rows)} {noun}", "#", "kernel", "grid", *([] if paired else ["block"]))
    for title in ("duration", "excessive", "degree", *(["speedup"] if paired else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        name = table_line(row.name, (f" {row.note}", "dim")) if row.note else table_line(row.name)
        sizes = [row.grid] if paired else [row.grid, row.block]
        cells = [*sizes, row.duration, row.excessive, row.degree, *([row.pace] if paired else [])]
        lines = [Text(cell.replace(summary.ARROW, "\n→ ")) for cell in (row.number, *cells)]
        table.add_row(lines[0], name, *lines[1:], style="red" if pairing.excess(row.last) else "")
    return table


def _origin(result: JobResult) -> Text:
    """Print where the numbers come from: computed, recorded earlier, or measured now."""
    reason = f"Measuring is not possible here: {result.reason}." if result.reason else ""
    comparison = result.comparison
    profiles = [profile for comparison in result.comparisons for profile in comparison.profiles]
    runs = sorted({(p.machine.gpu, p.machine.ncu, p.when[:10]) for p in profiles if p.origin.recorded})
    if emulated := computed(comparison):
        labels = [label for label, profile in comparison.named if profile.origin.recorded]
        recorded = f" Recorded entirely: {', '.join(labels)}." if runs else ""
        what = [part for run in emulated
                for part in (("Computed, not measured", "bold yellow"), f": wavefronts of {run}. ")]  # fmt: skip
        shown = table_line(*what, f"{reason}{recorded}".strip())
    elif runs:
        machines = "; ".join(f"{gpu}, ncu {ncu}, {day}" for gpu, ncu, day in runs)
        shown = table_line(("Recorded, not measured now", "bold yellow"), f": {machines}. {reason}")
    else:
        last = comparison.profiles[-1]
        gpu, ncu = last.machine.gpu or "an unknown GPU", last.machine.ncu or "of unknown version"
        shown = table_line(f"Measured on {gpu} with ncu {ncu}, {last.when[:10] or 'date unknown'}.")
    shown.rstrip()
    return shown


def _accesses(comparison: Comparison) -> Table:
    table = plain_table("Shared-memory wavefronts by access kind", "access", "kernel")
    for title in ("actual", "ideal", "excessive", "degree"):
        table.add_column(title, justify="right")
    for access in dict.fromkeys(map(str, comparison.accesses["access"])):
        table.add_section()
        heads: list[Text | str] = [table_line(access), table_line(TRANSFERS.get(access, ""), style="dim")]
        totals = [(label, p.accesses[access]) for label, p in comparison.named if access in p.accesses]
        for head, (label, total) in zip([*heads, *[""] * len(totals)], totals, strict=False):
            counts = (number(count, "{:,.0f}") for count in (total.wavefronts, total.ideal, total.excessive))
            degree = "-" if total.ideal == 0 else number(total.degree, "{:.2f}")
            table.add_row(head, label, *counts, degree, style="red" if total.excessive else "")
    return table


def _memory(comparison: Comparison) -> Table:
    """Return the sectors of each opcode per request of a warp, in which ideal accesses are usually stated."""
    table = plain_table("Sectors of global and local memory per request", "access", "kernel")
    for title in ("requests", "sectors", "ideal", "excessive bytes"):
        table.add_column(title, justify="right")
    for access, rows in comparison.memory.groupby("access", sort=False):
        table.add_section()
        for position, (_, row) in enumerate(rows.iterrows()):
            requests, local = row["executed"], access in LOCAL_OPCODES
            counts = (row["local_sectors" if local else "sectors"], row["ideal"])
            none = not pd.isna(requests) and requests == 0
            per_request = ["-" if none else number(count / requests, "{:.4g}") for count in counts]
            ideal, excess = ("", "") if local else (per_request[1], number(row["excessive_bytes"], "{:,.0f}"))
            excessive = not pd.isna(row["excessive"]) and row["excessive"] > 0
            cells = (str(row["label"]), number(requests, "{:,.0f}"), per_request[0], ideal, excess)
            table.add_row("" if position else table_line(str(access)), *cells, style="yellow" if excessive else "")
    return table


def _stalls(comparison: Comparison) -> Table:
    compared = len(comparison.labels) > 1
    style = "dim" if text.few_samples_caution(comparison) else ""
    changed = " that changed most" if compared else ""
    table = _beside(comparison, f"Warp stalls{changed}, share of samples{_borrowed(comparison)}", "reason")
    for reason, row in comparison.stalls.head(STALLS_SHOWN).iterrows():
        shares = [row[label] for label in comparison.labels]
        change = [number(shares[1] - shares[0], "{:+.1f}")] if compared else []
        table.add_row(str(reason), *(number(share, "{:.1f} %") for share in shares), *change, style=style)
    samples = (text.count(profile.all_samples) for profile in comparison.profiles)
    table.add_row("all warp samples", *samples, *[""] * compared)
    return table


def _borrowed(comparison: Comparison) -> str:
    """Return " (recorded)" if the wavefronts are computed but this table was recorded."""
    return " (recorded)" if any(profile.beside for profile in comparison.profiles) else ""


def _metrics(comparison: Comparison) -> Table:
    table = _beside(comparison, f"Metrics{_borrowed(comparison)}", "metric", changes=False)
    for name in KEY_METRICS:
        if name in comparison.metrics.index:
            row = comparison.metrics.loc[name]
            table.add_row(name, *(quantity(row[label], str(row["unit"])) for label in comparison.labels))
    if comparison.speedup:
        table.add_row("Speedup", "", f"{comparison.speedup:.2f} x")
    return table


def number(value: Any, form: str) -> str:
    """Return a number in this format; "unknown" for NaN and NA."""
    return "unknown" if pd.isna(value) else form.format(value)


def quantity(value: Any, unit: str) -> str:
    """Return a number with its unit, whole numbers without decimals; "unknown" for NaN and NA."""
    integer = not pd.isna(value) and float(value).is_integer()
    return f"{number(value, '{:,.0f}' if integer else FORMATS.get(unit, '{:,.1f}'))} {unit}".strip()
