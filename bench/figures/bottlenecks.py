"""The bottleneck of each recorded kernel.

``python3 bench/figures/bottlenecks.py [--write] [--workers N]``. Needs no GPU.

Prints, from the recordings, the utilization of the units that can limit a kernel, and its two most frequent stall
reasons; --write puts the table into docs/measured.md.

"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import crews
from bench.figures.tables import ROOT, head, replace, row
from ncu_swizzle.base import paths
from ncu_swizzle.engines import reader
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.side_by_side import METRICS

CLOCK = "smsp__cycles_elapsed.avg.per_second"
BUSY = "Shared pipe", "Tensor pipe", "L2", "DRAM", "Issue slots"
GETTERS = {title.removesuffix(", share of peak"): get for title, _, get in METRICS if title.endswith("share of peak")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/measured.md")
    crews.add_option(parser)
    given = parser.parse_args()
    text = table(read, given.workers)
    print(text)
    if given.write:
        replace(ROOT / "docs" / "measured.md", "bottlenecks", __file__, text)


def read(name: str) -> Profile:
    family, kernel = catalog.shipped().named(name)
    report = paths.recording(family.name, kernel.name)
    assert report is not None, f"{name} was not recorded"
    return reader.read(report)[0]


def table(profile_of: Callable[[str], Profile], workers: str = "") -> str:
    names = [kernel.name for _, kernel in catalog.shipped().run()]
    lines = crews.each(lambda name: line(profile_of(name)), names, workers)
    return "\n".join([head("kernel", *BUSY, "SM clock", "stalls"), *lines]) + "\n"


def line(profile: Profile) -> str:
    clock = f"{(profile.number(CLOCK) or 0) / 1e9:.2f} GHz"
    return row(profile.kernel.name, *(percent(GETTERS[unit](profile)) for unit in BUSY), clock, stalls(profile))


def percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} %"


def stalls(profile: Profile) -> str:
    """Return the two most frequent stall reasons, in percent of all samples."""
    total = sum(profile.stalls.values())
    waiting = [item for item in profile.stalls.items() if item[0] not in ("selected", "not_selected")]
    return ", ".join(f"{reason} {100 * samples / total:.0f} %" for reason, samples in waiting[:2])


if __name__ == "__main__":
    main()
