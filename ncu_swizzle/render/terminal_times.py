"""Kernel times on an 80-column terminal."""

from __future__ import annotations

from statistics import median

from rich.console import Console

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.family import Family, Problem
from ncu_swizzle.profiles.result import Timing
from ncu_swizzle.render.terminal_tables import line, plain_table
from ncu_swizzle.texts import in_words


def throughput(family: Family, problem: Problem) -> tuple[str, float]:
    """Return the unit of a family's throughput, and the work of one launch: divide by ms to get that unit."""
    flops = evaluate(family.flops, problem)
    return ("TFLOP/s", flops / 1e9) if flops else ("GB/s", evaluate(family.bytes, problem) / 1e6)


def reference_time(timing: Timing) -> tuple[str, float] | None:
    """Return the reference and its milliseconds: the library kernel's, or a plain copy's; None if neither ran."""
    library = next((kernel.name for kernel in timing.kernels if kernel.library), None)
    if library:
        return library, median(timing.facts["times_ms"][library])
    copying = timing.facts.get("copy_ms")
    return ("a plain copy", median(copying)) if copying else None


def show_times(timing: Timing, console: Console) -> None:
    """Print each kernel's error, median time, throughput, speedup over the first, and share of the reference."""
    family, kernels, facts = timing.family, timing.kernels, timing.facts
    machine, problem = facts["machine"], facts["problem"]
    unit, amount = throughput(family, problem)
    medians = {kernel.name: median(facts["times_ms"][kernel.name]) for kernel in kernels}
    reference = reference_time(timing)
    console.print(line(f"{family.title}, {in_words(problem)}".removesuffix(", ")))
    console.print(line(f"{machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}"))
    table = plain_table("", "kernel")
    rates = (unit,) if amount else ()
    for title in ("error", "median", *rates, "speedup", *([f"of {reference[0]}"] if reference else [])):
        table.add_column(title, justify="right")
    first = next(iter(medians.values()))
    for name, time in medians.items():
        errors = facts["errors"].get(name, {})
        error = f"{max(errors.values()):.1e}" if errors else "-" if family.reference else "not checked"
        cells = [error, f"{time:.3f} ms", *([f"{amount / time:.0f}"] if amount else []), f"{first / time:.2f}"]
        table.add_row(name, *cells, *([f"{reference[1] / time:.3f}"] if reference else []))
    console.print(table)
