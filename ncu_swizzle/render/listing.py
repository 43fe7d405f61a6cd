"""The catalogue: tables for the terminal, Markdown for the documentation, plain data for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle import paths
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.family import Family, Kernel, Parameter
from ncu_swizzle.texts import in_code, in_markdown

if TYPE_CHECKING:
    from ncu_swizzle.render.terminal_tables import PlainTable


def recorded_on(family: Family, kernel: Kernel) -> str:
    """Return the GPU that the kernel was recorded on, such as h100; empty if it has no recording."""
    report = paths.recording(family.name, kernel.name) if family.shipped else None
    return report.parent.parent.name if report else ""


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
            "grid": list(family.grid),
            "block": list(family.block),
            "compute_capability": ".".join(map(str, family.compute_capability)),
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
    from ncu_swizzle.render.terminal_tables import line, plain_table

    sizes = ", ".join(f"{parameter.name} {parameter.default}" for parameter in family.parameters)
    location = "" if family.shipped else f", in {_near(family.folder)}"
    title = f"{family.name}: {family.title}{f' ({sizes})' if sizes else ''}{location}"
    table = plain_table(title, "kernel", "what it shows", "recorded on")
    for kernel in family.kernels:
        before = f" Compared with {kernel.baseline}." if kernel.baseline else ""
        unchecked = "" if family.reference else " Output not checked."
        shows = line(f"{kernel.title}. {kernel.lesson}".strip(), (f"{before}{unchecked}", "dim"))
        table.add_row(line(kernel.name, style="bold"), shows, recorded_on(family, kernel) or "-")
    return table


def markdown(catalog: Catalog) -> str:
    """Return the whole catalogue as a page of the documentation."""
    return "\n".join(["# The catalogue", "", INTRODUCTION, *map(_section, catalog.families)])


INTRODUCTION = """\
Written by `ncu-swizzle list --markdown` from `kernels/*/family.toml`. The degree is actual over ideal wavefronts per
access kind, predicted by arithmetic and checked against the recordings by a test. An article is one of the
four that the README names; a kernel without one comes from a library, for comparison.
"""


def _section(family: Family) -> str:
    lines = [f"## {in_markdown(family.name)}: {in_markdown(family.title)}", ""]
    lines += [
        f"- {in_code(p.name)}: {in_markdown(p.help)}; {p.default} by default, {limits(p)}" for p in family.parameters
    ]
    grid, block = (" × ".join(map(in_code, map(str, sizes))) for sizes in (family.grid, family.block))
    lines += [f"- grid {grid}, block {block}", ""]
    columns = ("kernel", "what it shows", "degree", "compared with", "article")
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(map(in_markdown, _cells(kernel)))} |" for kernel in family.kernels]
    return "\n".join([*lines, ""])


def _cells(kernel: Kernel) -> tuple[str, ...]:
    degree = ", ".join(f"{access} {degree}" for access, degree in kernel.degree.items())
    return (kernel.name, f"{kernel.title}. {kernel.lesson}", degree, kernel.baseline, kernel.article)
