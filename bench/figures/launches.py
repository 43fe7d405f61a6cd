"""Captured programs replayed, next to ncu's counts of the same launches.

``python3 bench/figures/launches.py FOLDER [NAME …]``.

FOLDER has `NAME.launches`, written by `ncu-swizzle capture`, and `NAME.counts.json.xz`: a list, launch by launch in the
same order, of [kernel, {offset: [SASS, executed, wavefronts, ideal]}] for the instructions that access shared memory.
Launches that access none are replayed too: those may fail as well. `NAME.memory.json.xz`, if it is there, has more
columns of the first launches: [kernel, {offset: [SASS, {metric: value}]}]. The table is that of
bench/figures/programs.py.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.programs import Counted, main
from ncu_swizzle.capture.launches import CapturedLaunch, LaunchesFile, open_launches
from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.kernels.toolchain import Toolchain

LAUNCHES, COUNTS, COLUMNS = ".launches", ".counts.json.xz", ".memory.json.xz"


def programs(folder: Path) -> dict[str, Path]:
    """Return the files of launches that have counts, by name."""
    files = {path.name.removesuffix(LAUNCHES): path for path in sorted(folder.glob(f"*{LAUNCHES}"))}
    return {name: path for name, path in files.items() if (folder / f"{name}{COUNTS}").exists()}


def launches(path: Path) -> Iterator[Counted]:
    """Yield the launches of a file. Ends the process if the counts are of others."""
    theirs, columns = (_beside(path, suffix) for suffix in (COUNTS, COLUMNS))
    with open_launches(path) as file:
        captured = file.manifest.launches
        if len(captured) != len(theirs):
            sys.exit(f"{path.name} has {len(captured)} launches, its counts are of {len(theirs)}")
        for launch, (_, counts), (_, more) in zip(captured, theirs, columns + [("", {})] * len(theirs), strict=False):
            yield Counted(
                {int(offset): row for offset, row in counts.items()},
                partial(replayed, file, launch),
                {int(offset): row for offset, (_, row) in more.items()},
            )


def _beside(path: Path, suffix: str) -> list[Any]:
    """Return what a file of the same program holds; nothing if it is not there."""
    file = path.with_name(path.name.removesuffix(LAUNCHES) + suffix)
    return json.loads(lzma.decompress(file.read_bytes())) if file.exists() else []


def replayed(file: LaunchesFile, launch: CapturedLaunch, timeout_s: float) -> Counts:
    """Replay one launch, without the cache."""
    return (
        Replay(file, EmulationSettings(Toolchain(timeout_s=timeout_s), budget_s=timeout_s, cached=False))
        .emulate(launch)
        .counts
    )


if __name__ == "__main__":
    main(__doc__, programs, launches)
