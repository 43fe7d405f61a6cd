"""The estimates of the rule ConflictCost next to what was measured: ``python3 bench/rules.py [--write] [--overhead]``.

From the recordings, for every kernel with less excess than its baseline: the estimate for removing exactly that much,
the duration saved, and what NVIDIA's own rules promise (recordings/*/stock_rules.json). --write puts the table into
docs/rules.md. --overhead, on a machine with a GPU, times ncu with the rules and without, alternating.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bottlenecks import read
from tables import ROOT, head, replace, row

from ncu_swizzle import child, paths
from ncu_swizzle.catalog import collection
from ncu_swizzle.engines import measured as measured_
from ncu_swizzle.ncu import installed, profiler
from ncu_swizzle.ncu import options as options_
from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles.model import Profile

REPEATS = 7
STOCK = ("SharedMemoryConflicts", "UncoalescedSharedAccess")


@dataclass(frozen=True)
class Pair:
    """A kernel and its baseline: the estimated saving with its interval, and the measured one, in percent."""

    before: str
    after: str
    point: float
    low: float
    high: float
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the saving lies in the interval and within 10 points of the estimate."""
        return self.low <= self.measured <= self.high and abs(self.point - self.measured) <= 10


def pairs(profile_of: Callable[[str], Profile]) -> Iterator[Pair]:
    """Yield every kernel of the catalogue that has less excess than its baseline, with that baseline."""
    for _, kernel in collection.shipped():
        if not kernel.baseline:
            continue
        before, after = profile_of(kernel.baseline), profile_of(kernel.name)
        removed = (before.total.excessive or 0) - (after.total.excessive or 0)
        if removed > 0:
            estimate = bridge.pack("cost").estimate(bridge.facts(before), removed)
            measured = 1 - (after.duration_ns or 0) / (before.duration_ns or 1)
            values = (100 * value for value in (estimate.point, estimate.low, estimate.high, measured))
            yield Pair(kernel.baseline, kernel.name, *values)


def table(rows: list[Pair]) -> str:
    promised = json.loads(next(paths.recordings().glob("*/stock_rules.json")).read_text(encoding="utf-8"))["promises"]
    lines = [head("before → after", "estimate", "interval", "measured", *STOCK)]
    for pair in rows:
        stated = (" and ".join(f"{value:.1f}" for value in promised[pair.before][rule]) or "silent" for rule in STOCK)
        interval = f"{pair.low:.1f} to {pair.high:.1f}"
        measured = f"{pair.measured:.1f}" + ("" if pair.holds else " (not in it)")
        lines.append(row(f"{pair.before} → {pair.after}", f"{pair.point:.1f}", interval, measured, *stated))
    return "\n".join(lines) + "\n"


def overhead() -> str:
    """Return how long ncu takes with the rules and without, for one launch of kernel1."""
    family, kernel = collection.shipped().find("kernel1")
    launch = measured_.launch_command(family, [kernel], family.problem(), "profile", "facts.json")
    program, times = installed.find(), {"yes": [], "no": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(REPEATS):
            for rules, taken in times.items():
                options = options_.Options(extra=("--apply-rules", rules))
                start = time.perf_counter()
                ended = child.run(
                    profiler.argv(program, "report", launch, options), 300, Path(folder), paths.child_environment()
                )
                taken.append(time.perf_counter() - start)
                assert ended.status == 0, ended.log
    with_, without = (median(taken) for taken in times.values())
    return (
        f"ncu over kernel1, medians of {REPEATS}, alternating: {with_:.2f} s with the rules, {without:.2f} s without, "
        f"a ratio of {with_ / without:.3f}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the values in docs/rules.md")
    parser.add_argument("--overhead", action="store_true", help="also time the rules, on a machine with a GPU")
    arguments = parser.parse_args()
    page = ROOT / "docs" / "rules.md"
    compared = list(pairs(read))
    text = table(compared)
    print(text)
    if arguments.write:
        replace(page, "estimates", Path(__file__).name, text)
    if arguments.overhead:
        text = overhead()
        print(text)
        if arguments.write:
            replace(page, "overhead", Path(__file__).name, text)
    if not all(pair.holds for pair in compared):
        raise SystemExit("an estimate does not hold")


if __name__ == "__main__":
    main()
