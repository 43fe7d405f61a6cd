"""The estimates of the rule ConflictCost next to what was measured.

``python3 bench/figures/rules.py [--write] [--overhead]``.

From the recordings, for every kernel with less excess than its baseline: the estimate for removing exactly that much,
the duration saved, and what NVIDIA's own rules promise (recordings/*/stock_rules.json). --write puts the table into
docs/rules.md; how the intervals do on programs that they were not fitted to, bench/figures/calibration.py says.
--overhead, on a machine with a GPU, times ncu with the rules and without, alternating.

"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.bottlenecks import read
from bench.figures.tables import ROOT, head, replace, row
from ncu_swizzle.base import child, paths
from ncu_swizzle.engines import machine, ncu
from ncu_swizzle.engines import measured as measured_
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.model import Profile

REPEATS = 7
STOCK = ("SharedMemoryConflicts", "UncoalescedSharedAccess")


@dataclass(frozen=True)
class Pair:
    """A launch and its counterpart: the estimated saving with its interval, and the measured one, in percent.

    Without an estimate, `point`, `low` and `high` are None.
    """

    before: str
    after: str
    point: float | None
    low: float | None
    high: float | None
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the saving lies in the interval, to a tenth of a point as the tables show it; true without one."""
        if self.low is None or self.high is None:
            return True
        return round(self.low, 1) <= round(self.measured, 1) <= round(self.high, 1)

    @property
    def interval(self) -> str:
        return "none" if self.low is None else f"{self.low:.1f} to {self.high:.1f}"


def pairs(profile_of: Callable[[str], Profile]) -> Iterator[Pair]:
    """Yield every kernel of the catalogue that has less excess than its baseline, with that baseline."""
    for _, kernel in catalog.shipped().run():
        if not kernel.baseline:
            continue
        pair = compared((kernel.baseline, profile_of(kernel.baseline)), (kernel.name, profile_of(kernel.name)))
        if pair is not None:
            yield pair


def compared(before: tuple[str, Profile], after: tuple[str, Profile]) -> Pair | None:
    """Return the estimate for removing the excess that the second launch lacks; None if it lacks none."""
    (name, plain), (other, fixed) = before, after
    removed = (plain.total.excessive or 0) - (fixed.total.excessive or 0)
    if removed <= 0:
        return None
    measured = 100 * (1 - (fixed.duration_ns or 0) / (plain.duration_ns or 1))
    estimate = pack.pack("cost").estimate(pack.facts(plain), removed)
    if isinstance(estimate, pack.pack("cost").Doubt):
        return Pair(name, other, None, None, None, measured)
    return Pair(name, other, *(100 * value for value in (estimate.point, estimate.low, estimate.high)), measured)


def table(rows: list[Pair]) -> str:
    promised = json.loads(next(paths.recordings().glob("*/stock_rules.json")).read_text(encoding="utf-8"))["promises"]
    lines = [head("before → after", "estimate", "interval", "measured", *STOCK)]
    for pair in rows:
        stated = (_stated(promised.get(pair.before), rule) for rule in STOCK)
        lines.append(row(*cells(pair), *stated))
    return "\n".join(lines) + "\n"


def _stated(promised: dict[str, list[float]] | None, rule: str) -> str:
    """Return what a stock rule promised for a kernel, in percent."""
    if promised is None:
        return "not run"
    return " and ".join(f"{value:.1f}" for value in promised[rule]) or "silent"


def summary(rows: list[Pair]) -> str:
    """Return how many intervals hold, and their median width in points."""
    stated = [(pair.low, pair.high, pair.holds) for pair in rows if pair.low is not None and pair.high is not None]
    width = median(high - low for low, high, _ in stated)
    held = sum(holds for *_, holds in stated)
    return f"{held} of {len(stated)} intervals hold, their median width is {width:.1f} points"


def cells(pair: Pair) -> tuple[str, ...]:
    point = "none" if pair.point is None else f"{pair.point:.1f}"
    measured = f"{pair.measured:.1f}" + ("" if pair.holds else " (not in it)")
    return f"{pair.before} → {pair.after}", point, pair.interval, measured


def overhead() -> str:
    """Return how long ncu takes with the rules and without, for one launch of kernel1."""
    family, kernel = catalog.shipped().named("kernel1")
    launch = measured_.launch_command(family, [kernel], family.problem(), "profile", "facts.json")
    program, times = machine.find(), {"yes": [], "no": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(REPEATS):
            for rules, taken in times.items():
                options = options_.Options(extra=("--apply-rules", rules))
                start = time.perf_counter()
                ended = child.run(
                    ncu.argv(program, "report", launch, options), 300, Path(folder), paths.child_environment()
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
    catalogue = list(pairs(read))
    text = table(catalogue)
    print(text)
    if arguments.write:
        replace(page, "estimates", __file__, text)
    if arguments.overhead:
        text = overhead()
        print(text)
        if arguments.write:
            replace(page, "overhead", __file__, text)
    print(summary(catalogue))


if __name__ == "__main__":
    main()
