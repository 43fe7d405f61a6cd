"""Tables on a terminal: findings, times, and the catalogue, which is also Markdown and plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import in_words, one_line
from ncu_swizzle.kernels.catalog import Catalog
from ncu_swizzle.kernels.family import Family, Kernel, Parameter, Problem
from ncu_swizzle.kernels.limits import evaluate

if TYPE_CHECKING:
    from ncu_swizzle.reports.comparison import TimedFamily
    from ncu_swizzle.reports.pack import LaunchFindings

# Lines and tables for an 80-column terminal; no text in them is read as markup, or takes more than its line.


def table_line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return one line of text for a terminal; a part with a style is a pair."""
    texts = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((one_line(text), styled) for text, styled in texts), style=style)


class PlainTable(Table):
    """A table without borders whose strings are plain text, a line each."""

    def __init__(self, title: str = "", gap: int = 1, **settings: Any) -> None:
        shown = table_line(title, style="bold") if title else None
        super().__init__(title=shown, title_justify="left", box=None, pad_edge=False, padding=(0, gap, 0, 0),
                         **settings)  # fmt: skip

    def add_column(self, header: RenderableType = "", *rest: Any, **settings: Any) -> None:
        super().add_column(_cell(header), *rest, **settings)

    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        super().add_row(*map(_cell, cells), **settings)


def _cell(content: RenderableType | None) -> Any:
    return table_line(content) if isinstance(content, str) else content


def plain_table(title: str, *columns: str) -> PlainTable:
    """Return a table without borders; `columns` are its text columns, long words folded."""
    table = PlainTable(title)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


# The rule pack and its findings on an 80-column terminal.


def show_findings(launches: Sequence[LaunchFindings], console: Console) -> None:
    """Print the rule pack's findings for each launch."""
    from ncu_swizzle.render import summary

    for label, told in launches:
        console.print(table_line((label, "bold"), "" if told else ": no findings."))
        for finding in told:
            console.print()
            kind = summary.KINDS[finding.kind]
            console.print(table_line("  ", (finding.title, "bold"), f" ({finding.code} {finding.rule}, {kind})"))
            console.print(Padding(table_line(finding.message), (0, 0, 0, 2)))
            for shown in finding.tables:
                table = plain_table(shown.title)
                for head, is_text in zip(shown.heads, summary.of_words(shown), strict=True):
                    table.add_column(head, justify="left" if is_text else "right", overflow="fold")
                for row in shown.rows:
                    table.add_row(*map(summary.cell, row))
                console.print(Padding(table, (0, 0, 0, 4)))


# Kernel times on an 80-column terminal.


def throughput(family: Family, problem: Problem) -> tuple[str, float]:
    """Return the unit of a family's throughput, and the work of one launch: divide by ms to get that unit."""
    flops = evaluate(family.flops, problem)
    return ("TFLOP/s", flops / 1e9) if flops else ("GB/s", evaluate(family.bytes, problem) / 1e6)


def reference_time(timing: TimedFamily) -> tuple[str, float] | None:
    """Return the reference and its milliseconds: the library kernel's, or a plain copy's; None if neither ran."""
    library = next((kernel.name for kernel in timing.kernels if kernel.library), None)
    if library:
        return library, median(timing.facts["times_ms"][library])
    copying = timing.facts.get("copy_ms")
    return ("a plain copy", median(copying)) if copying else None


def show_times(timing: TimedFamily, console: Console) -> None:
    """Print each kernel's error, median time, throughput, speedup over the first, and share of the reference."""
    family, kernels, facts = timing.family, timing.kernels, timing.facts
    machine, problem = facts["machine"], facts["problem"]
    unit, amount = throughput(family, problem)
    medians = {kernel.name: median(facts["times_ms"][kernel.name]) for kernel in kernels}
    reference = reference_time(timing)
    console.print(table_line(f"{family.title}, {in_words(problem)}".removesuffix(", ")))
    console.print(table_line(f"{machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}"))
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


def recorded_on(family: Family, kernel: Kernel) -> str:
    """Return the GPU that the kernel was recorded on, such as h100; empty if it has no recording."""
    report = paths.recording(family.name, kernel.name) if family.shipped else None
    return report.parent.parent.name if report else ""


NEVER_RUN = "never run on hardware"


def limits(parameter: Parameter) -> str:
    """Return the values that a parameter accepts, in words."""
    return f"a multiple of {parameter.multiple}" if parameter.multiple > 1 else f"at least {parameter.smallest}"


def data(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the contents of every family.toml as plain data."""
    return [
        {
            "family": family.name,
            "title": family.title,
            "folder": None if family.shipped else str(family.folder),
            "problem": family.problem(),
            "limits": {parameter.name: limits(parameter) for parameter in family.parameters},
            "grid": list(family.launch.grid),
            "block": list(family.launch.block),
            "compute_capability": ".".join(map(str, family.compute_capability)),
            "never_run": family.never_run,
            "provenance": "stated",
            "kernels": [
                {
                    "name": kernel.name,
                    "title": kernel.title,
                    "lesson": kernel.lesson,
                    "article": kernel.article,
                    "baseline": kernel.baseline,
                    "degree": dict(kernel.degree),
                    "recorded": recorded_on(family, kernel) or None,
                }
                for kernel in family.kernels
            ],
        }
        for family in catalog.families
    ]


def _near(folder: Path) -> str:
    """Return a folder relative to the current one if it lies below it."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def table(family: Family) -> PlainTable:
    """Return one family as a terminal table."""
    sizes = ", ".join(f"{parameter.name} {parameter.default}" for parameter in family.parameters)
    location = "" if family.shipped else f", in {_near(family.folder)}"
    title = f"{family.name}: {family.title}{f' ({sizes})' if sizes else ''}{location}"
    table = plain_table(title, "kernel", "what it shows", "recorded on")
    for kernel in family.kernels:
        before = f" Compared with {kernel.baseline}." if kernel.baseline else ""
        unchecked = "" if family.reference else " Output not checked."
        shows = table_line(f"{kernel.title}. {kernel.lesson}".strip(), (f"{before}{unchecked}", "dim"))
        table.add_row(
            table_line(kernel.name, style="bold"),
            shows,
            recorded_on(family, kernel) or (NEVER_RUN if family.never_run else "-"),
        )
    return table


def markdown(catalog: Catalog) -> str:
    """Return the whole catalogue as a page of the documentation."""
    from ncu_swizzle.render import templates  # Jinja, which no table needs

    return templates.markdown("catalogue", catalog=catalog, limits=limits, never_run=NEVER_RUN)
