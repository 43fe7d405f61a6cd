"""Times every kernel of a family in one process: ``python3 bench/figures/kernels.py [FAMILY …] [--write]``.

Needs a GPU and PyCUDA; library kernels are included if PyTorch is installed. Prints Markdown tables of medians and of
ratios within the run; with --write they replace the tables in docs/measured.md and, for all families together, the
one in the README.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT, head, replace, row
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.catalog import shipped
from ncu_swizzle.kernels.family import Family, Kernel
from ncu_swizzle.render import listing
from ncu_swizzle.reports.comparison import TimedFamily


def main() -> None:
    catalog = shipped()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*", help="default: all")
    parser.add_argument("--repeats", type=int, default=15, help="timed samples of each kernel")
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/measured.md")
    arguments = parser.parse_args()
    summary = [head("family", "before", "after", "degree", "speedup", "relative to reference")]
    for family in catalog.families:
        if family.never_run or (arguments.family and family.name not in arguments.family):
            continue
        kernels = [kernel.name for kernel in family.kernels if not kernel.library]
        timing = measured.time_together(
            *catalog.named_together(kernels), Request(), True, ["--repeats", str(arguments.repeats)]
        )
        print(text := table(timing, arguments.repeats), flush=True)
        summary.append(summarise(timing))
        if arguments.write:
            replace(ROOT / "docs" / "measured.md", family.name, __file__, text)
    machine = timing.facts["machine"]
    print(text := f"{conditions(machine)}\n\n" + "\n".join(summary) + "\n")
    if arguments.write and not arguments.family:
        replace(ROOT / "docs" / "measured.md", "measured", __file__, text)


def conditions(machine: Mapping[str, Any]) -> str:
    return f"{machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}"


def medians(timing: TimedFamily) -> dict[str, float]:
    return {name: median(samples) for name, samples in timing.facts["times_ms"].items()}


def worst(kernel: Kernel) -> str:
    """Return the worst degree of the kernel's accesses, as family.toml states it and a test verifies it."""
    return str(max(kernel.degree.values(), default="-"))


def table(timing: TimedFamily, repeats: int) -> str:
    """Return one family's table, under its heading."""
    family, problem, times = timing.family, timing.facts["problem"], medians(timing)
    unit, amount = listing.throughput(family, problem)
    reference = listing.reference_time(timing)
    columns = ["kernel", "degree", "time", unit, "speedup over baseline"]
    lines = [head(*columns, *([f"relative to {reference[0]}"] if reference else []))]
    for kernel in timing.kernels:
        time = times[kernel.name]
        faster = f"{times[kernel.baseline] / time:.2f} ({kernel.baseline})" if kernel.baseline else ""
        cells = [kernel.name, worst(kernel), f"{time:.3f} ms", f"{amount / time:.0f}", faster]
        lines.append(row(*cells, *([f"{reference[1] / time:.2f}"] if reference else [])))
    sizes = ", ".join(f"{name} {size}" for name, size in problem.items())
    setup = f"{sizes}; {conditions(timing.facts['machine'])}; medians of {repeats}"
    return f"## {family.name}: {family.title}\n\n{setup}\n\n" + "\n".join(lines) + "\n"


def summarise(timing: TimedFamily) -> str:
    """Return one line: of the kernels that build on each other, the first and the fastest where that gains most."""
    times, reference = medians(timing), listing.reference_time(timing)
    before, after = max(
        ((first, later) for first in timing.family.kernels for later in following(timing.family, first)),
        key=lambda pair: times[pair[0].name] / times[pair[1].name],
    )
    relative = f"{reference[1] / times[after.name]:.2f} ({reference[0]})" if reference else ""
    degree = f"{worst(before)} → {worst(after)}"
    speed = f"{times[before.name] / times[after.name]:.2f}"
    return row(
        timing.family.name, *(f"{k.name}, {times[k.name]:.3f} ms" for k in (before, after)), degree, speed, relative
    )


def following(family: Family, first: Kernel) -> list[Kernel]:
    """Return the kernel and all that build on it, directly or indirectly."""
    chain = [first]
    for kernel in chain:
        chain += [later for later in family.kernels if later.baseline == kernel.name]
    return chain


if __name__ == "__main__":
    main()
