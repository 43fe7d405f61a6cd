"""Time launches with CUDA events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ncu_swizzle.launch.device import cuda

WARM_UP = 5
SETTLE_MS = 200.0  # untimed run before each sample, until the clock settles for this kernel
SAMPLE_MS = 20.0  # the shortest sample: long enough to hide launch overhead


def time_launches(launches: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return `repeats` samples of each kernel's time per launch in milliseconds; the kernels take turns.

    At its power limit a GPU lowers its clock within tens of milliseconds, and by how much depends on the kernel. So
    each kernel runs for a while before it is timed; otherwise it would run at the previous kernel's clock.
    """
    rough = {name: _roughly(launch) for name, launch in launches.items()}
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(repeats):
        for name, launch in launches.items():
            _time(launch, math.ceil(SETTLE_MS / rough[name]))
            times[name].append(_time(launch, math.ceil(SAMPLE_MS / rough[name])))
    return times


def _roughly(launch: Callable[[], Any]) -> float:
    _time(launch, WARM_UP)
    return _time(launch, WARM_UP)


def _time(launch: Callable[[], Any], count: int) -> float:
    start, end = cuda.Event(), cuda.Event()
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.time_till(end)) / count


def copier(bytes_: int) -> Callable[[], Any]:
    """Return a device copy that moves this many bytes, half read and half written: the memory roofline."""
    source, target = (cuda.mem_alloc(bytes_ // 2) for _ in range(2))
    return lambda: cuda.memcpy_dtod_async(target, source, bytes_ // 2, None)
