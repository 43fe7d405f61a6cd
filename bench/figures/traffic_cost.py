"""What counting global and local memory costs: ``python3 bench/figures/traffic_cost.py FOLDER [NAME …]``.

Emulates the launches of FOLDER (see bench/figures/launches.py) in turn without and with threads, sectors, tags and
branches, in one process, and prints the CPU seconds of each program and their ratio. Looking for races is left out of
both.
"""

import sys
import time
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.launches import programs
from bench.figures.tables import head, row
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture.launches import open_launches
from ncu_swizzle.emulate import run
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.kernels.toolchain import Toolchain

TIMEOUT_S = 600.0


def seconds(path: Path, counts_traffic: bool) -> float:
    """Return the CPU seconds of emulating a file's launches; one that fails costs what it took."""
    emulate = partial(run.emulate, counts_traffic=counts_traffic)
    settings = EmulationSettings(Toolchain(timeout_s=TIMEOUT_S), budget_s=TIMEOUT_S, cached=False)
    taken = 0.0
    with open_launches(path) as file, patch.object(run, "emulate", emulate):
        for launch in file.manifest.launches:
            replay = Replay(file, settings)
            start = time.process_time()
            try:
                replay.emulate(launch)
            except NcuSwizzleError as error:
                print(f"{path.stem}: {type(error).__name__}: {error}", file=sys.stderr)
            taken += time.process_time() - start
    return taken


def main(folder: str, *names: str) -> None:
    print(head("program", "without", "with", "ratio"))
    total = [0.0, 0.0]
    for name, path in programs(Path(folder)).items():
        if names and name not in names:
            continue
        both = [seconds(path, counted) for counted in (False, True)]
        total = [sum(pair) for pair in zip(total, both, strict=True)]
        print(row(name, *(f"{each:.2f}" for each in both), f"{both[1] / both[0]:.2f}"), flush=True)
    print(row("all", *(f"{each:.2f}" for each in total), f"{total[1] / total[0]:.2f}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
