"""What executing a launch costs, next to counting alone: ``python3 bench/figures/executing.py WHAT … [--times N]``.

WHAT is a kernel, with sizes after a colon (``gemm-swizzled:n=1024``), or a launches file with memory. For each launch a
line: the blocks that counting runs, the CPU seconds of counting as it is, of counting all blocks and all iterations
(``emulate(exhaustive, plain)``), and of executing, the least of N times; and the ratio of executing to counting all. Of
a launches file, the launches of which counting follows all blocks by itself are marked with *. Needs nvcc for kernels.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture.launches import open_launches
from ncu_swizzle.cubin import names
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.device_memory import DeviceMemory
from ncu_swizzle.emulate.execution import execute
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import captured_outputs, executed
from ncu_swizzle.engines.emulated_launch import Binary
from ncu_swizzle.engines.emulation import EmulationSettings, code_of
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.kernels import fills, naming
from ncu_swizzle.kernels.options import KernelDescription

LIMIT_S = 300.0


def described(word: str) -> Iterator[tuple[str, Code, Launch]]:
    """Yield a kernel's launch at the sizes that a word names."""
    name, _, sizes = word.partition(":")
    target = naming.resolve([name], KernelDescription())[0].targets[-1]
    problem = dict(size.split("=") for size in sizes.split(",") if size)
    target = target.sized({**target.problem, **{key: int(value) for key, value in problem.items()}})
    version = executed.compiled(target, EmulationSettings())
    inputs = fills.inputs(target.family, target.problem, np.random.default_rng(0))
    binary = version.binary
    yield word, version.code, executed.concrete_launch(target, binary.cubin, binary.symbol, inputs)


def captured(path: Path) -> Iterator[tuple[str, Code, Launch]]:
    """Yield the launches of a file, with their memory."""
    settings = EmulationSettings()
    with open_launches(path) as file:
        replay = Replay(file, settings)
        for launched in file.manifest.launches:
            cubin, symbol = replay.build_of(launched)
            binary = Binary(cubin=cubin, symbol=symbol)
            launch, outputs = replay.launch_of(launched, cubin, symbol), captured_outputs.outputs_of(launched, binary)
            launch = captured_outputs.with_buffers(launch, binary, tuple(outputs))
            kernel = names.function(names.demangle(symbol))
            yield f"{path.stem}, {kernel}", code_of(binary, settings), launch


def least(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least CPU seconds of some runs, and a result."""
    spent, results = [], []
    for _ in range(times):
        start = time.process_time()
        results = [work()]
        spent.append(time.process_time() - start)
    return min(spent), results[0]


def row(name: str, code: Code, launch: Launch, times: int) -> str:
    """Return a launch's line of the table."""

    def work() -> object:
        return execute(code, launch, DeviceMemory.holding(launch.buffers, launch.memory), Clock(timeout_s=LIMIT_S))

    counting, counts = least(times, lambda: emulate(code, launch, timeout_s=LIMIT_S))
    every, _ = least(times, lambda: emulate(code, launch, exhaustive=True, plain=True, timeout_s=LIMIT_S))
    executing, _ = least(times, work)
    follows = "*" if counts.blocks_run == counts.blocks else ""
    seconds = f"{counting:.2f} | {every:.2f} | {executing:.2f} | {executing / every:.1f}{follows}"
    return f"| {name} | {counts.blocks:,} | {counts.blocks_run:,} | {seconds} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    print("| launch | blocks | counting runs | counting | all of it | executing | ratio |", "|---" * 7 + "|", sep="\n")
    for word in given.what:
        for name, code, launch in captured(Path(word)) if word.endswith(".launches") else described(word):
            try:
                print(row(name, code, launch, given.times), flush=True)
            except NcuSwizzleError as error:
                print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    main()
