"""Kernels written in Python, counted by ncu on an H100, and computed here from the same cubins.

    python3 bench/figures/dsl.py [--details] [--workers N] [KERNEL …]

A row per kernel: accesses to shared memory whose counts are equal, different, and unknown here, and figures of threads,
memory and branches. The recordings are those of tests/data/python; ``--details`` prints every access that differs or is
unknown.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import crews

ROOT = Path(__file__).resolve().parents[2]

from bench.oracles.counted import CountedKernel, counted
from tests.support.python_kernels import recorded


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--details", action="store_true", help="print every access that differs or is unknown")
    crews.add_option(parser)
    given = parser.parse_args(arguments)
    content, _ = recorded()
    machine = content["machine"]
    print(f"Recorded on {machine['gpu']}, driver {machine['driver']}, ncu {machine['ncu']}.\n")
    print("| kernel | compiler | accesses | equal | different | unknown | figures |\n|---|---|---:|---:|---:|---:|---|")
    names = given.kernels or list(content["kernels"])
    rows = []
    for name, row in zip(names, crews.each(counted, names, given.workers) if given.workers else map(counted, names),
                         strict=True):  # fmt: skip
        rows.append(row)
        counts = (len(row.accesses), row.equal, row.different, row.unknown, words(row.figures))
        print(f"| {name} | {row.compiler} | {' | '.join(map(str, counts))} |", flush=True)
        if given.details:
            show(row)
    total, equal = sum(len(row.accesses) for row in rows), sum(row.equal for row in rows)
    unknown, different = sum(row.unknown for row in rows), sum(row.different for row in rows)
    print(f"\n{len(rows)} kernels, {total} accesses: {equal} equal, {different} different, {unknown} unknown.")
    figures = sum((row.figures for row in rows), Counter[str]())
    print(f"Figures of threads, memory and branches: {words(figures)}.")
    return 1 if different or figures["different"] else 0


def words(figures: Counter[str]) -> str:
    return ", ".join(f"{figures[verdict]:,} {verdict}" for verdict in ("equal", "different", "unknown"))


def show(row: CountedKernel) -> None:
    """Print what is not equal, and why counts are unknown."""
    for access in row.accesses:
        if not access.equal:
            where = f"{access.offset:#x} {access.opcode} {access.line}"
            print(f"    {where}: ncu {access.measured}, here {access.computed}")
    for note in row.notes:
        print(f"    {note}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
