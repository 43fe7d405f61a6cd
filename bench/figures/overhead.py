"""What a profile costs relative to plain ncu: ``python3 bench/figures/overhead.py``, on a machine with a GPU.

Alternates in one run: ``ncu-swizzle profile kernel2 --baseline none --reference none``; plain ncu with the same section
on the same child process; and plain ``ncu --set full`` on it. The kernel is compiled before anything is timed. Reports
medians; targets: at most 0.7 of ``--set full``, at most 1.5 s more than plain ncu with the same section.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import head, row
from ncu_swizzle.base import paths
from ncu_swizzle.engines import machine, measured, ncu
from ncu_swizzle.engines.settings import Options
from ncu_swizzle.kernels import catalog

ROUNDS = 5
LIMIT_S = 600
SHARE, EXTRA_S = 0.7, 1.5  # the targets
OURS, SECTION, FULL = "ncu-swizzle profile kernel2", "ncu, the same section", "ncu --set full"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ncu", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("kernel", nargs="?", default="kernel2")
    arguments = parser.parse_args()
    ways = commands(arguments.ncu, arguments.kernel)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(arguments.rounds + 1):  # the first round compiles and fills every cache
        for name, command in ways.items():
            seconds = timed(command)
            if number:
                times[name].append(seconds)
    medians = {name: median(samples) for name, samples in times.items()}
    lines = [head("", f"median of {arguments.rounds}", "min", "max")]
    lines += [row(n, f"{medians[n]:.2f} s", f"{min(t):.2f} s", f"{max(t):.2f} s") for n, t in times.items()]
    share, extra = medians[OURS] / medians[FULL], medians[OURS] - medians[SECTION]
    print("\n".join(lines))
    print(f"\n{share:.2f} of {FULL} (target: at most {SHARE}), {extra:+.2f} s over {SECTION} (at most +{EXTRA_S} s)")
    return 0 if share <= SHARE and extra <= EXTRA_S else 1


def commands(given: Path | None, name: str) -> dict[str, list[str]]:
    """Return the command lines; all profile the same program."""
    program = machine.find(given)
    family, kernel = catalog.shipped().named(name)
    child = measured.launch_command(family, [kernel], family.problem(), "profile", "facts.json")
    full = ["--profile-from-start", "off", "--set", "full", "--clock-control", "none", "--launch-count", "1"]
    alone = ["--baseline", "none", "--reference", "none", *(["--ncu", str(given)] if given else [])]
    return {
        OURS: [sys.executable, "-m", "ncu_swizzle", "profile", name, *alone, "-o", "out"],
        SECTION: ncu.argv(program, "section.ncu-rep", child, Options()),
        FULL: [str(program), *full, "--export", "full.ncu-rep", "--", *child],
    }


def timed(command: list[str]) -> float:
    """Return the seconds that a command takes in an empty folder."""
    folder = tempfile.mkdtemp()
    environment = {
        **paths.child_environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    try:
        start = time.perf_counter()
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        seconds = time.perf_counter() - start
    finally:
        shutil.rmtree(folder)
    if ended.returncode or ended.stdout.startswith("Recorded"):
        raise SystemExit(
            f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
    return seconds


if __name__ == "__main__":
    sys.exit(main())
