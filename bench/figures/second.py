"""How much faster a command is the second time, with cubins and emulations cached: ``python3 bench/figures/second.py``.

Needs CUDA's compiler, no GPU. Each round starts with an empty cache and runs each command twice as a whole process,
with the package's bytecode kept, and once with ``--no-cache``. Columns are medians of processor seconds, children
included, which a busy machine changes little; the last one is the shortest second time by the clock. ``--write`` puts
the table into docs/performance.md. Exits with 1 if that shortest time is over its limit.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT, head, replace, row

PAGE = ROOT / "docs" / "performance.md"
ROUNDS = 5
LIMITS_S = {"profile kernel2 --engine emulated": 1.5, "lint, ten files": 2.0}
KERNEL = """
[kernel.k{number}]
source = "k{number}.cu"
problem = {{ n = {size} }}
grid = ["n // 32", "n // 32"]
block = "32, 8"
args = ["x=float32[n,n]:random", "y=float32[n,n]:out", "n"]
"""
SOURCE = """
#include "tile.cuh"
__global__ void k{number}(const float* x, float* y, int n) {{
    __shared__ float tile[32][32 + {number} % 3];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = scaled(x[(row + i) * n + column]);
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) y[(row + i) * n + column] = tile[threadIdx.x][threadIdx.y + i];
}}
"""


def ten_files(folder: Path) -> list[str]:
    """Write ten kernels, their header and their descriptions to the folder; return the files."""
    (folder / "tile.cuh").write_text("__device__ inline float scaled(float x) { return 2 * x; }\n", encoding="utf-8")
    for number in range(10):
        (folder / f"k{number}.cu").write_text(SOURCE.format(number=number), encoding="utf-8")
    described = "".join(KERNEL.format(number=number, size=1024 + 32 * number) for number in range(10))
    (folder / "ncu-swizzle.toml").write_text(described, encoding="utf-8")
    return [f"k{number}.cu" for number in range(10)]


@dataclass(frozen=True)
class Took:
    """Processor seconds and seconds by the clock that a process took."""

    processor: float
    clock: float


def took(command: list[str], folder: Path) -> Took:
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment = {**os.environ, **kept, "XDG_CACHE_HOME": str(folder / "cache")}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "ncu_swizzle", *command],
        check=False, cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in (0, 1):  # 1: lint has findings
        sys.exit(ended.stderr)
    return Took(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, clock)


def measure(command: list[str], folder: Path, rounds: int) -> tuple[list[Took], list[Took], list[Took]]:
    """Return what the first time, the second, and one without the cache took in each round."""
    took(command, folder)  # compiles the package's bytecode
    times = []
    for _ in range(rounds):
        shutil.rmtree(folder / "cache", ignore_errors=True)
        times.append((took(command, folder), took(command, folder), took([*command, "--no-cache"], folder)))
    first, second, without = (list(column) for column in zip(*times, strict=True))
    return first, second, without


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    arguments = parser.parse_args()
    lines = [head("command", "first", "second", "first / second", "`--no-cache`", "second, by the clock")]
    late = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        commands = {
            "profile kernel2 --engine emulated": ["profile", "kernel2", "--engine", "emulated", "-o", "out", "-f"],
            "lint, ten files": ["lint", *ten_files(folder)],
        }
        for name, command in commands.items():
            runs = measure(command, folder, arguments.rounds)
            first, second, without = (median(run.processor for run in column) for column in runs)
            clock = min(run.clock for run in runs[1])
            cells = (f"{first:.2f} s", f"{second:.2f} s", f"{first / second:.1f}", f"{without:.2f} s", f"{clock:.2f} s")
            lines.append(row(f"`{name}`" if "-" in name else name, *cells))
            if clock > LIMITS_S[name]:
                late.append(f"{name}: {clock:.2f} s the second time, at most {LIMITS_S[name]:g} s are wanted")
    print("\n".join(lines))
    if arguments.write:
        replace(PAGE, "second", "second.py", "\n".join(lines) + "\n")
    print("\n".join(late), end="\n" if late else "")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
