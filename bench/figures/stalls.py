"""Where warps wait, as simulated, next to ncu's samples: ``python3 bench/figures/stalls.py [--write]``. Needs no GPU.

Of the recorded launches of bench/figures/cycles.py that have samples enough. A simulated SM says for each instruction
how many cycles its warps spend there and for what they wait; ncu samples that. --write puts the table into
docs/cycles.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import tables
from bench.figures.cycles import KEPT, PATIENCE_S, overlap, simulated
from bench.figures.cycles_launches import Launch, launches
from bench.figures.tables import ROOT, head, row
from ncu_swizzle.cycles.simulator import REASONS, Predicted, Simulator, machine, machine_for_launch

FEWEST = 1000  # samples of a launch
LEAST_LINES = 4


def by_line(launch: Launch, counts: np.ndarray) -> np.ndarray:
    """Return the sums over source lines of counts per instruction, (n, k): (lines, k)."""
    lines = {line: number for number, line in enumerate(dict.fromkeys(launch.lines))}
    sums = np.zeros((len(lines), counts.shape[1]))
    np.add.at(sums, [lines[line] for line in launch.lines], counts)
    return sums


def ranked(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values; equal ones share theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[which])


def table(given: Sequence[Launch], found: Sequence[Predicted]) -> str:
    """Return how far the simulated distribution over reasons and lines agrees with ncu's samples."""
    reasons, at, correlations, top, among, most = [], [], [], [], [], []
    for launch, each in zip(given, found, strict=True):
        reasons.append(overlap(launch.samples.sum(axis=0), each.stalled.sum(axis=0)))
        most.append(np.argmax(launch.samples.sum(axis=0)) == np.argmax(each.stalled.sum(axis=0)))
        at.append(overlap(launch.samples, each.stalled))
        sampled, said = (by_line(launch, counts).sum(axis=1) for counts in (launch.samples, each.stalled))
        if len(sampled) >= LEAST_LINES:
            correlations.append(np.corrcoef(ranked(sampled), ranked(said))[0, 1])
        top.append(np.argmax(sampled) == np.argmax(said))
        among.append(np.argmax(sampled) in np.argsort(-said)[:3])
    drained = np.mean([one.drained for one in given])
    shown = {
        "launches with samples enough": f"{len(given)}",
        "of the samples, with the simulated reason: median, mean": f"{median(reasons):.0%}, {np.mean(reasons):.0%}",
        "the most frequent reason is the same": f"{np.mean(most):.0%}",
        "of the samples, at the simulated instruction with the simulated reason: median": f"{median(at):.0%}",
        "rank correlation of lines: median, mean": f"{median(correlations):.2f}, {np.mean(correlations):.2f}",
        "the line with most samples is first, among the first three": f"{np.mean(top):.0%}, {np.mean(among):.0%}",
        "of the samples, after the last instruction, which is not simulated: mean": f"{drained:.1%}",
    }
    return "\n".join([head("", "value"), *(row(*one) for one in shown.items())]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/cycles.md")
    parser.add_argument("--each", action="store_true", help="print each launch's reasons: sampled, simulated, in %%")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the folder with what warps execute")
    arguments = parser.parse_args()
    base = machine()
    given = [one for one in launches(arguments.kept) if one.samples.sum() >= FEWEST]
    with tempfile.TemporaryDirectory() as folder:
        found = simulated(
            Simulator(Path(folder), PATIENCE_S), [(one.work, machine_for_launch(base, one.work)) for one in given]
        )
    for launch, each in zip(given, found, strict=True) if arguments.each else ():
        shares = [100 * counts.sum(axis=0) / counts.sum() for counts in (launch.samples, each.stalled)]
        told = (f"{name} {was:.0f} {now:.0f}" for name, was, now in zip(REASONS, *shares, strict=True))
        print(f"{launch.name}: {', '.join(told)}; drain {100 * launch.drained:.0f}")
    written = table(given, found)
    print(written)
    if arguments.write:
        tables.replace(ROOT / "docs" / "cycles.md", "stalls", __file__, written)


if __name__ == "__main__":
    sys.exit(main())
