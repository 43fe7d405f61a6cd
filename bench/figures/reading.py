"""How long reading a report takes relative to ncu's own export: ``python3 bench/figures/reading.py [FILE]``.

Needs ncu. Without FILE it makes a report on the GPU: ``ncu --set full`` on two launches of kernel2, about 5 MB. It
alternates, so that background load hits all of them: `report.reader.read` into the table of instructions, with the
disassembly cached from an earlier read of the same cubin, without it, and in a separate process; and ``ncu --import
FILE --csv --page source --print-source sass`` as a process. Prints medians and ratios.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import head, row
from ncu_swizzle.base import paths
from ncu_swizzle.engines import machine, measured, reader
from ncu_swizzle.kernels import catalog

ROUNDS = 7
LIMIT_S = 600
TARGET = 5.0
AGAIN, NCU = "reader.read, disassembly cached", "ncu --import --csv --page source"
PROCESS = "import sys; from pathlib import Path; from ncu_swizzle.engines import reader; reader.read(Path(sys.argv[1]))"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="a .ncu-rep; default: make one")
    parser.add_argument("--ncu", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    program = machine.find(arguments.ncu)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        report = arguments.file or make_report(program, Path(folder))
        size, rows = report.stat().st_size / 1e6, sum(len(profile.instructions) for profile in reader.read(report))
        times = measure(program, report, Path(folder), arguments.rounds)
    medians = {name: median(samples) for name, samples in times.items()}
    lines = [head(f"{report.name}, {size:.1f} MB, {rows} instructions", "median", "speedup over ncu")]
    lines += [row(name, f"{took:.3f} s", f"{medians[NCU] / took:.1f}") for name, took in medians.items()]
    reached = medians[NCU] / medians[AGAIN]
    print("\n".join(lines))
    print(f"\n{AGAIN}: {reached:.1f} times as fast as ncu (target: at least {TARGET:g})")
    return 0 if reached >= TARGET else 1


def make_report(program: Path, folder: Path) -> Path:
    """Profile two launches of kernel2 with all sections and sources, as one would by hand."""
    report = folder / "full.ncu-rep"
    family, kernel = catalog.shipped().named("kernel2")
    child = measured.launch_command(family, [kernel], family.problem(), "profile", "full.json")
    own = ["--kernel-name", "kernel2", "--launch-count", "2", "--set", "full", "--import-source", "yes"]
    command = [str(program), *own, "--clock-control", "none", "--export", str(report), "--", *child]
    subprocess.run(command, check=True, cwd=folder, env=paths.child_environment(), timeout=LIMIT_S, capture_output=True)
    return report


def measure(program: Path, report: Path, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each method, alternating; the first round only warms up."""
    answers = Path(os.environ["XDG_CACHE_HOME"], "ncu-swizzle", reader.KIND)
    exported = [str(program), "--import", str(report), "--csv", "--page", "source", "--print-source", "sass"]

    def anew() -> None:
        shutil.rmtree(answers)
        reader.read(report)

    ways: dict[str, Callable[[], object]] = {
        "reader.read, disassembling": anew,
        AGAIN: lambda: reader.read(report),
        "reader.read in a separate process": lambda: subprocess.run(
            [sys.executable, "-c", PROCESS, str(report)], check=True, env=paths.child_environment(), timeout=LIMIT_S
        ),
        NCU: lambda: subprocess.run(exported, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=LIMIT_S),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if number:
                times[name].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    sys.exit(main())
