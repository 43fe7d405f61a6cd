"""Every kernel of a family, timed in turn in one process: ``python3 bench/kernels.py [FAMILY …]``.

Needs a GPU and PyCUDA; a library's kernel comes along where PyTorch is installed. Prints Markdown tables of medians
and of ratios within the run.
"""

from __future__ import annotations

import argparse
from statistics import median

from ncu_swizzle import catalog, experiment, terminal
from ncu_swizzle.catalog import Catalog, Family
from ncu_swizzle.profiling import Request


def main() -> None:
    found = catalog.load()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*", help="all of them by default")
    parser.add_argument("--repeats", type=int, default=50, help="timed samples of each kernel")
    arguments = parser.parse_args()
    for family in found.families:
        if not arguments.family or family.name in arguments.family:
            table(found, family, arguments.repeats)


def table(found: Catalog, family: Family, repeats: int) -> None:
    """Time one family and print its table."""
    kernels = [kernel.name for kernel in family.kernels if not kernel.library]
    timing = experiment.time_kernels(found, kernels, Request(), reference=True, more=["--repeats", str(repeats)])
    machine, problem = timing.facts["machine"], timing.facts["problem"]
    times = {name: median(samples) for name, samples in timing.facts["times_ms"].items()}
    unit, amount = terminal.rate(family, problem)
    library = next((kernel.name for kernel in timing.kernels if kernel.library), None)
    sizes = ", ".join(f"{name} {size}" for name, size in problem.items())
    print(f"## {family.name}: {family.title}\n")
    print(f"{sizes}; {machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}; medians of {repeats}\n")
    columns = ["kernel", "time", unit, f"times as fast as {kernels[0]}", *([f"of {library}"] if library else [])]
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for name, time in times.items():
        cells = [name, f"{time:.3f} ms", f"{amount / time:.0f}", f"{times[kernels[0]] / time:.2f}"]
        print(f"| {' | '.join([*cells, *([f'{times[library] / time:.2f}'] if library else [])])} |")
    print()


if __name__ == "__main__":
    main()
