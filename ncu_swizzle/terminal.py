"""A comparison, and the times of kernels, on a terminal of 80 columns."""

from __future__ import annotations

from statistics import median
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ncu_swizzle.catalog import Family, Problem, in_words
from ncu_swizzle.compare import Comparison
from ncu_swizzle.experiment import Result, Timing
from ncu_swizzle.expressions import evaluate
from ncu_swizzle.profile import TRANSFERS
from ncu_swizzle.view.summary import computed

STALLS_SHOWN = 6
UNITS = {"ms": "{:,.3f}"}
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


def show(result: Result, console: Console) -> None:
    """Print origin, tables, warnings, the verdict and the files written."""
    comparison = result.comparison
    console.print(_origin(result))
    console.print(_accesses(comparison))
    console.print(_stalls(comparison))
    console.print(_metrics(comparison))
    for warning in comparison.warnings:
        console.print(f"[yellow]Warning:[/] {escape(warning)}")
    console.print(f"\n[bold]{escape(comparison.verdict)}[/]")
    if result.folder:
        console.print(f"\nWritten to [bold]{escape(str(result.folder))}/[/]:")
        for file in result.files:
            console.print(f"  {escape(file.name)}", highlight=False)


def _origin(result: Result) -> str:
    said = [
        f"[bold yellow]Computed, not measured[/]: wavefronts of {escape(one)}." for one in computed(result.comparison)
    ]
    if said and result.engine.reason:
        said.append(f"Nothing can be measured here: {escape(result.engine.reason)}.")
    recorded = sorted(
        {(p.machine.gpu, p.machine.ncu, p.when[:10]) for p in result.comparison.profiles if p.engine == "recorded"}
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
        first = result.comparison.profiles[0]
        gpu, ncu = escape(first.machine.gpu or "an unknown GPU"), escape(first.machine.ncu or "of unknown version")
        return f"Measured on {gpu} with ncu {ncu}, {first.when[:10] or 'date unknown'}."
    reason = f" Nothing can be measured here: {escape(result.engine.reason)}." if result.engine.reason else ""
    where = "; ".join(f"{gpu}, ncu {ncu}, {day}" for gpu, ncu, day in recorded)
    return f"[bold yellow]Recorded, not measured now[/]: {escape(where)}.{reason}"


def _accesses(comparison: Comparison) -> Table:
    table = _table("Shared-memory wavefronts by access kind", "access", "kernel")
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
            cells = [_known(row[count], "{:,.0f}") for count in ("wavefronts", "ideal", "excessive")]
            cells.append(_known(row["degree"], "{:.2f}") if row["ideal"] else "-")
            table.add_row(head, escape(str(row["label"])), *cells, style=style)
    return table


def _stalls(comparison: Comparison) -> Table:
    compared = len(comparison.labels) > 1
    changed = " that changed most" if compared else ""
    table = _table(f"Warp stalls{changed}, share of samples{_borrowed(comparison)}", "reason")
    for label in comparison.labels:
        table.add_column(escape(label), justify="right")
    if compared:
        table.add_column("change", justify="right")
    for reason, row in comparison.stalls.head(STALLS_SHOWN).iterrows():
        shares = [row[label] for label in comparison.labels]
        change = [_known(shares[1] - shares[0], "{:+.1f}")] if compared else []
        table.add_row(escape(str(reason)), *(_known(share, "{:.1f} %") for share in shares), *change)
    return table


def _borrowed(comparison: Comparison) -> str:
    """Say that a table was recorded where the wavefronts above it are computed."""
    return " (recorded)" if any(profile.beside for profile in comparison.profiles) else ""


def _metrics(comparison: Comparison) -> Table:
    table = _table(f"Metrics{_borrowed(comparison)}", "metric")
    for label in comparison.labels:
        table.add_column(escape(label), justify="right")
    for name in KEY_METRICS:
        if name in comparison.metrics.index:
            row = comparison.metrics.loc[name]
            table.add_row(name, *(_value(row[label], str(row["unit"])) for label in comparison.labels))
    if comparison.speedup:
        table.add_row("Speed-up", "", f"{comparison.speedup:.2f} x")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _known(value: Any, form: str) -> str:
    return "unknown" if pd.isna(value) else form.format(value)


def _value(value: Any, unit: str) -> str:
    whole = not pd.isna(value) and float(value).is_integer()
    return f"{_known(value, '{:,.0f}' if whole else UNITS.get(unit, '{:,.1f}'))} {unit}".strip()


def rate(family: Family, problem: Problem) -> tuple[str, float]:
    """Return the unit of a family's rate, and how much of it one launch does, times milliseconds."""
    flops = evaluate(family.flops, problem)
    return ("TFLOP/s", flops / 1e9) if flops else ("GB/s", evaluate(family.bytes, problem) / 1e6)


def against(timing: Timing) -> tuple[str, float] | None:
    """Return what kernels are held against and its milliseconds: the library's, or copying as many bytes."""
    library = next((kernel.name for kernel in timing.kernels if kernel.library), None)
    if library:
        return library, median(timing.facts["times_ms"][library])
    copying = timing.facts.get("copy_ms")
    return ("copying as many bytes", median(copying)) if copying else None


def times(timing: Timing, console: Console) -> None:
    """Print the median time of each kernel, its rate, and its ratios to the first and to the reference."""
    family, kernels, facts = timing.family, timing.kernels, timing.facts
    machine, problem = facts["machine"], facts["problem"]
    unit, amount = rate(family, problem)
    medians = {kernel.name: median(facts["times_ms"][kernel.name]) for kernel in kernels}
    reference = against(timing)
    console.print(f"{escape(family.title)}, {in_words(problem)}")
    console.print(f"{escape(machine['gpu'])}, driver {machine['driver']}, CUDA {machine['cuda']}")
    table = _table("", "kernel")
    for title in ("error", "median", unit, "speed-up", *([f"of {reference[0]}"] if reference else [])):
        table.add_column(title, justify="right")
    first = next(iter(medians.values()))
    for name, time in medians.items():
        errors = facts["errors"].get(name, {})
        cells = [f"{max(errors.values()):.1e}" if errors else "-", f"{time:.3f} ms"]
        cells += [f"{amount / time:.0f}", f"{first / time:.2f}"]
        table.add_row(name, *cells, *([f"{reference[1] / time:.3f}"] if reference else []))
    console.print(table)
