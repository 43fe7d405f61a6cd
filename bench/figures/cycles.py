"""The cycles of a launch without running it, next to ncu's: ``python3 bench/figures/cycles.py [--write]``.

The package's room `cycles` simulates an SM. Nothing is fitted to the launches that it is judged by.

Needs no GPU. The first run emulates for about ten minutes of CPU and leaves what it found in --kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import tables
from bench.figures.cycles_launches import Launch, launches
from bench.figures.tables import ROOT, head, row
from ncu_swizzle.cycles.simulator import Predicted, SimulatedSm, Simulator, machine, machine_for_launch

KEPT = Path(tempfile.gettempdir(), "ncu-swizzle-cycles")
PATIENCE_S = 600.0  # of a simulation
LONG = 1 << 19  # instructions of an SM's warps, beyond which a launch is left out where many are simulated


# ------------------------------------------------------------------------------------------------------ judged


def judged(given: Sequence[Launch], simulator: Simulator, base: SimulatedSm) -> str:
    """Return the errors with DRAM's bytes by ncu and from the buffers."""
    cells: list[list[str]] = []
    for counted in (True, False):
        machines = [machine_for_launch(base, one.work, one.of_dram(counted)) for one in given]
        found = simulated(simulator, [(one.work, sm) for one, sm in zip(given, machines, strict=True)])
        error = errors(given, found)
        binding = [
            max(one.used, key=lambda unit: one.used[unit]) == max(each.used, key=lambda unit: each.used[unit])
            for one, each in zip(given, found, strict=True)
        ]
        families = sorted({one.family for one in given})
        by_family = {name: error[[one.family == name for one in given]].mean() for name in families}
        worst = sorted(by_family, key=lambda name: -by_family[name])[:5]
        cells.append([
            f"{len(given)}, {len(families)}",
            f"{error.mean():.1%}",
            f"{np.mean(list(by_family.values())):.1%}",
            f"{median(error):.1%}",
            f"{(error < 0.25).mean():.0%}",
            f"{np.mean(binding):.0%}",
            f"{median(alike(one, each) for one, each in zip(given, found, strict=True)):.0%}",
            ", ".join(f"{name} {by_family[name]:.0%}" for name in worst),
        ])  # fmt: skip
    names = (
        "launches, families",
        "mean absolute error of cycles",
        "the same, each family with the same weight",
        "median",
        "launches within 25 %",
        "the busiest unit is ncu's",
        "of the samples, at the predicted instructions (median)",
        "worst families",
    )
    columns = head("", "bytes of DRAM from ncu", "from the buffers")
    return "\n".join([columns, *(row(*cells_) for cells_ in zip(names, *cells, strict=True))]) + "\n"


def errors(given: Sequence[Launch], found: Sequence[Predicted]) -> np.ndarray:
    return np.array([abs(each.cycles / one.cycles - 1) for one, each in zip(given, found, strict=True)])


def alike(launch: Launch, found: Predicted) -> float:
    """Return the share of ncu's samples that are at the instructions where warps are predicted to be."""
    return overlap(launch.samples.sum(axis=1), found.stalled.sum(axis=1))


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share that two distributions over the same things have in common."""
    return float(np.minimum(one / max(1.0, one.sum()), other / max(1.0, other.sum())).sum())


def simulated(simulator: Simulator, asked: Iterable[Sequence[Any]]) -> list[Predicted]:
    """Return what launches take, given the parameters of `Simulator.predicted` for each."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # of programs, which are processes
        return list(pool.map(lambda one: simulator.predicted(*one), asked))


Change = Callable[[SimulatedSm, np.ndarray], tuple[SimulatedSm, np.ndarray]]


def _changed(**fields: Any) -> Change:
    def change(sm: SimulatedSm, code: np.ndarray) -> tuple[SimulatedSm, np.ndarray]:
        return replace(sm, **fields), code

    return change


def _code(field: str, value: float) -> Change:
    def change(sm: SimulatedSm, code: np.ndarray) -> tuple[SimulatedSm, np.ndarray]:
        other = code.copy()
        other[field] = value
        return sm, other

    return change


def parts(given: Sequence[Launch], simulator: Simulator, base: SimulatedSm) -> str:
    """Return the error without one part of the model at a time; DRAM's bytes are those of the buffers."""
    given = [one for one in given if one.work.issued <= LONG]
    changes: dict[str, Change] = {
        "nothing": _changed(),
        "scoreboard waits": _code("waits", 0),
        "excessive wavefronts": _changed(removed=1.0),
        "a sub-core's pipe, which takes two cycles per wavefront": _changed(core_wave=1.0),
        "the latency of DRAM: all loads hit L2": _changed(cold=0.0),
        "the bandwidth of DRAM": _changed(dram_bytes=1e9, dram_read=1e9),
        "how much later the last of many lines comes from DRAM": _changed(tail=(0.0,) * len(base.tail)),
        "code that is fetched": _changed(fetch=0.0, fetch_interval=0.0, jump=0.0, far_jump=0.0),
        "branches that are taken": _changed(branch=0.0),
        "the time to dispatch a block": _changed(block_start=0.0),
        "rows of TMA's boxes": _changed(box_row=0.0),
    }
    lines = [head("without", f"mean absolute error of {len(given)} launches")]
    for name, change in changes.items():
        asked = [(one.work, *change(machine_for_launch(base, one.work), one.work.code)) for one in given]
        found = simulated(simulator, asked)
        lines.append(row(name, f"{errors(given, found).mean():.1%}"))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/cycles.md")
    parser.add_argument("--each", action="store_true", help="print each launch, and the seconds that it takes")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the folder with what warps execute")
    arguments = parser.parse_args()
    base, given = machine(), launches(arguments.kept)
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(Path(folder), PATIENCE_S)
        for one in given if arguments.each else ():
            start = time.monotonic()
            found = simulator.predicted(one.work, machine_for_launch(base, one.work))
            seconds = time.monotonic() - start
            print(f"{one.name}: {found.cycles:,.0f} predicted, {one.cycles:,.0f} measured, "
                  f"{found.cycles / one.cycles - 1:+.0%}, {seconds:.1f} s")  # fmt: skip
        written = {
            "cycles": judged(given, simulator, base),
            "parts": parts(given, simulator, base),
        }
    print(*written.values(), sep="\n")
    for name, table in written.items() if arguments.write else ():
        tables.replace(ROOT / "docs" / "cycles.md", name, __file__, table)


if __name__ == "__main__":
    sys.exit(main())
