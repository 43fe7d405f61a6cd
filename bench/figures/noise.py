"""How much one launch's duration varies under ncu: ``python3 bench/figures/noise.py [--write]``. Needs a GPU and ncu.

Profiles each kernel several times, alternating, as `ncu-swizzle profile` does, and prints half the range of the
durations in percent of the median: the basis for the spread that the gate assumes for a single launch. --write puts
the table into docs/ci.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT, head, replace, row
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.kernels.catalog import shipped
from ncu_swizzle.reports.options import NCU

KERNELS = ("transpose-xor", "vectors-16-swizzle", "kernel2", "gemm-swizzled")
REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/ci.md")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args()
    catalog = shipped()
    durations: dict[str, list[float]] = {name: [] for name in KERNELS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats):
            for name, taken in durations.items():
                profile = measured.measure(
                    catalog.target(name), Context(request=Request(engine=NCU), folder=Path(folder))
                )
                taken.append((profile.duration_ns or 0) / 1e6)
    text = table(durations)
    print(text)
    if arguments.write:
        replace(ROOT / "docs" / "ci.md", "noise", __file__, text)


def table(durations: dict[str, list[float]]) -> str:
    lines = [head("kernel", "launches", "median", "half range")]
    for name, taken in durations.items():
        spread = 50 * (max(taken) - min(taken)) / median(taken)
        lines.append(row(name, len(taken), f"{median(taken):.3f} ms", f"{spread:.2f} %"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
