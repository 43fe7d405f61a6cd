"""A comparison, and the times of kernels, on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ncu_swizzle.profiles import many_launches
from ncu_swizzle.profiles.comparison import Comparison, compare
from ncu_swizzle.profiles.counts import TRANSFERS
from ncu_swizzle.profiles.result import JobResult
from ncu_swizzle.render.terminal_tables import known, new_table, value_text
from ncu_swizzle.render.view import kernels, mix, overview, text
from ncu_swizzle.render.view.findings import gains
from ncu_swizzle.render.view.summary import computed

STALLS_SHOWN = 6
MOST_COLUMNS = 3  # profiles beside each other on 80 columns; of more there is an overview
KERNELS_SHOWN = 3  # in full, of many
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
    """Print origin, tables, warnings, the verdict and the files written; of many kernels, a list and the worst."""
    console.print(_origin(result))
    if len(result.comparisons) == 1:
        _show(result.comparison, console)
    else:
        _show_all(result, console)
    if result.folder:
        console.print(f"\nWritten to [bold]{escape(str(result.folder))}/[/]:")
        for file in result.files:
            console.print(f"  {escape(file.name)}", highlight=False)


def _show(comparison: Comparison, console: Console) -> None:
    everything, comparison = comparison, _first(comparison)
    left_out = len(everything.labels) - len(comparison.labels)
    if left_out:
        console.print(_overview(everything))
    console.print(_accesses(comparison))
    if not comparison.stalls.empty:
        console.print(_stalls(comparison))
    mixed = mix.section(comparison)
    if mixed and any(share.text != text.UNKNOWN for share in mixed.total.shares[:2]):
        console.print(_mix(mixed, comparison))
    console.print(_metrics(comparison))
    if left_out:
        console.print(f"[dim]{left_out} more profiles stand beside them in the report, in --json and in --csv.[/]")
    for warning in everything.warnings:
        console.print(f"[yellow]Warning:[/] {escape(warning)}")
    for card in gains(comparison.profiles[min(1, len(comparison.profiles) - 1)]):
        console.print(f"\n[bold]{card.title}[/]: {escape(card.message)}", highlight=False)
    console.print(f"\n[bold]{escape(comparison.verdict)}[/]")


def _first(comparison: Comparison) -> Comparison:
    """Return the comparison of the first profiles: no more columns than a terminal has room for."""
    if len(comparison.labels) <= MOST_COLUMNS:
        return comparison
    return compare(comparison.profiles[:MOST_COLUMNS], labels=comparison.labels[:MOST_COLUMNS])


def _overview(comparison: Comparison) -> Table:
    table = new_table(f"{len(comparison.labels)} profiles", "profile")
    for title in ("excessive", "degree", "ms", "speed", "shared pipe"):
        table.add_column(title, justify="right")
    for row in overview.rows(comparison):
        table.add_row(
            escape(row.label), row.excessive, row.degree, row.duration.removesuffix(" ms"), row.pace, row.pipe
        )
    return table


def _mix(mixed: mix.Section, comparison: Comparison) -> Table:
    table = new_table("Warp instructions executed", "class")
    for label in comparison.labels:
        table.add_column(escape(label), justify="right")
    compared = len(comparison.labels) > 1
    if compared:
        table.add_column("change", justify="right")
    for row in (*mixed.rows, mixed.total):
        table.add_row(escape(row.name), *(share.text for share in row.shares), *([row.change] if compared else []))
    return table


def _show_all(result: JobResult, console: Console) -> None:
    console.print(kernel_list(result.comparisons))
    for note in result.notes:
        console.print(f"[yellow]Note:[/] {escape(note)}")
    bad = [place for place in many_launches.worst(result.comparisons, KERNELS_SHOWN)
           if many_launches.excessive(result.comparisons[place])]  # fmt: skip
    for place in bad:
        comparison = result.comparisons[place]
        console.print(f"\n[bold]── {escape(comparison.title)}[/]")
        _show(comparison, console)
    console.print(f"\n[bold]{escape(many_launches.verdict(result.comparisons))}[/]")
    if len(bad) < len(result.comparisons):
        console.print("[dim]--launch N or --kernel-name NAME of ncu-swizzle report shows others in full.[/]")


def kernel_list(comparisons: Sequence[Comparison]) -> Table:
    """Return a row per kernel or pair of kernels: number, name, sizes, duration, excess and degree."""
    rows = kernels.rows(comparisons)
    paired = any(len(one.profiles) > 1 for one in comparisons)
    what = "pairs and launches" if paired else "launches"
    table = new_table(f"{len(rows)} {what}", "#", "kernel", "grid", *([] if paired else ["block"]))
    for title in ("ms", "excessive", "degree", *(["speed-up"] if paired else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        note = f" [dim]{escape(row.note)}[/]" if row.note else ""
        sizes = [row.grid] if paired else [row.grid, row.block]
        cells = [*sizes, row.duration, row.excessive, row.degree, *([row.pace] if paired else [])]
        lines = [cell.replace(kernels.ARROW, "\n→ ") for cell in (row.number, *cells)]
        style = "red" if row.bad else ""
        table.add_row(lines[0], f"{escape(row.name)}{note}", *lines[1:], style=style)
    return table


def _origin(result: JobResult) -> str:
    said = [
        f"[bold yellow]Computed, not measured[/]: wavefronts of {escape(one)}." for one in computed(result.comparison)
    ]
    if said and result.engine.reason:
        said.append(f"Nothing can be measured here: {escape(result.engine.reason)}.")
    recorded = sorted(
        {
            (p.machine.gpu, p.machine.ncu, p.when[:10])
            for comparison in result.comparisons
            for p in comparison.profiles
            if p.engine == "recorded"
        }
    )
    if said and recorded:
        labels = [
            label
            for label, p in zip(result.comparison.labels, result.comparison.profiles, strict=True)
            if p.engine == "recorded"
        ]
        said.append(f"Recorded, all of it: {escape(', '.join(labels))}.")
    if said:
        return " ".join(said)
    if not recorded:
        first = result.comparison.profiles[-1]
        gpu, ncu = escape(first.machine.gpu or "an unknown GPU"), escape(first.machine.ncu or "of unknown version")
        return f"Measured on {gpu} with ncu {ncu}, {first.when[:10] or 'date unknown'}."
    reason = f" Nothing can be measured here: {escape(result.engine.reason)}." if result.engine.reason else ""
    where = "; ".join(f"{gpu}, ncu {ncu}, {day}" for gpu, ncu, day in recorded)
    return f"[bold yellow]Recorded, not measured now[/]: {escape(where)}.{reason}"


def _accesses(comparison: Comparison) -> Table:
    table = new_table("Shared-memory wavefronts by access kind", "access", "kernel")
    for title in ("actual", "ideal", "excessive", "degree"):
        table.add_column(title, justify="right")
    rows = comparison.accesses
    for access in dict.fromkeys(rows["access"]):
        table.add_section()
        heads = [escape(str(access)), f"[dim]{TRANSFERS.get(str(access), '')}[/]"]
        for position, (_, row) in enumerate(rows[rows["access"] == access].iterrows()):
            head = heads[position] if position < len(heads) else ""
            excess = row["excessive"]
            style = "red" if not pd.isna(excess) and excess > 0 else ""
            cells = [known(row[count], "{:,.0f}") for count in ("wavefronts", "ideal", "excessive")]
            nothing = not pd.isna(row["ideal"]) and row["ideal"] == 0
            cells.append("-" if nothing else known(row["degree"], "{:.2f}"))
            table.add_row(head, escape(str(row["label"])), *cells, style=style)
    return table


def _stalls(comparison: Comparison) -> Table:
    compared = len(comparison.labels) > 1
    changed = " that changed most" if compared else ""
    table = new_table(f"Warp stalls{changed}, share of samples{_borrowed(comparison)}", "reason")
    for label in comparison.labels:
        table.add_column(escape(label), justify="right")
    if compared:
        table.add_column("change", justify="right")
    for reason, row in comparison.stalls.head(STALLS_SHOWN).iterrows():
        shares = [row[label] for label in comparison.labels]
        change = [known(shares[1] - shares[0], "{:+.1f}")] if compared else []
        table.add_row(escape(str(reason)), *(known(share, "{:.1f} %") for share in shares), *change)
    return table


def _borrowed(comparison: Comparison) -> str:
    """Say that a table was recorded where the wavefronts above it are computed."""
    return " (recorded)" if any(profile.beside for profile in comparison.profiles) else ""


def _metrics(comparison: Comparison) -> Table:
    table = new_table(f"Metrics{_borrowed(comparison)}", "metric")
    for label in comparison.labels:
        table.add_column(escape(label), justify="right")
    for name in KEY_METRICS:
        if name in comparison.metrics.index:
            row = comparison.metrics.loc[name]
            table.add_row(name, *(value_text(row[label], str(row["unit"])) for label in comparison.labels))
    if comparison.speedup:
        table.add_row("Speed-up", "", f"{comparison.speedup:.2f} x")
    return table
