"""Checks of the driver, the GPU, and the permission to read its counters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncu_swizzle.bounds.quotation import shortened
from ncu_swizzle.doctor.diagnosis import HealthCheck, bad, doubtful, good
from ncu_swizzle.ncu.failures import NO_COUNTERS
from ncu_swizzle.ncu.system import System

OLDEST = (7, 0)  # the lowest compute capability that Nsight Compute still profiles: Volta
OURS = (8, 0)  # what the catalogue's kernels require
MIG_MODE = ("nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader")
CLOCKS = ("nvidia-smi", "--query-gpu=clocks.current.sm,clocks.max.sm,persistence_mode", "--format=csv,noheader")
SMI_HANGS = "nvidia-smi shows whether it hangs; sudo nvidia-smi -pm 1 keeps the driver initialized"


def driver(system: System) -> HealthCheck:
    """Return which driver is loaded."""
    text = system.read("/proc/driver/nvidia/version") or ""
    version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    if version:
        return good("driver", f"NVIDIA driver {version[1]}")
    if reason := system.gpu_absent():
        return bad("driver", reason, "install the NVIDIA driver; in a container, start it with --gpus all")
    return doubtful("driver", "a driver is loaded, but /proc/driver/nvidia/version does not show its version")


def gpu(system: System) -> Iterator[HealthCheck]:
    """Yield each GPU, and whether it can be profiled."""
    if reason := system.gpu_absent():
        yield bad("GPU", reason, "nvidia-smi -L shows what the driver sees; in a container, start it with --gpus all")
        return
    for number, (name, capability) in enumerate(system.gpus()):
        device = f"{name}, compute capability {'.'.join(map(str, capability))}"
        if number == 0 and capability < OLDEST:
            yield bad(
                "GPU",
                f"{device}: Nsight Compute no longer supports it",
                "use a GPU of compute capability 7.0 or higher",
            )
        elif number == 0 and capability < OURS:
            yield doubtful("GPU", f"{device}: the catalogue's kernels need 8.0", "profile your own programs")
        else:
            yield good("GPU", device if number == 0 else f"{device} (not used: the first GPU is)")


def counters(system: System) -> HealthCheck:
    """Return whether this user may read the performance counters."""
    params = system.read("/proc/driver/nvidia/params") or ""
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d)", params, re.MULTILINE)
    if restricted is None:
        return doubtful("counters", "/proc/driver/nvidia/params does not show who may read the counters", NO_COUNTERS)
    if restricted[1] == "0":
        return good("counters", "all users may read the performance counters")
    if system.privileged:
        return good("counters", "only privileged users may read the performance counters, and this user is privileged")
    return bad("counters", "only privileged users may read the performance counters", NO_COUNTERS)


def mig(system: System) -> HealthCheck:
    """Return whether the GPU is partitioned."""
    ran = system.run(MIG_MODE)
    if ran and ran.silence:
        return doubtful("MIG", f"unknown: nvidia-smi {ran.silence}", SMI_HANGS)
    if ran is None or ran.status:
        return good("MIG", "unknown to nvidia-smi; few GPUs support it")
    if "Enabled" in ran.output:
        return doubtful(
            "MIG",
            "the GPU is partitioned: its clocks cannot be locked, and units shared by instances have no counters",
            "profile with --clock-control none (the default); sudo nvidia-smi -mig 0 turns MIG off",
        )
    return good("MIG", "the GPU is not partitioned")


def clocks(system: System) -> HealthCheck:
    """Return the current clocks: durations depend on them, counts do not."""
    ran = system.run(CLOCKS)
    if ran and ran.silence:
        return doubtful("clocks", f"unknown: nvidia-smi {ran.silence}", SMI_HANGS)
    if ran is None or ran.status or not ran.output.strip():
        return doubtful("clocks", "nvidia-smi does not show the GPU's clocks", "nvidia-smi -q -d CLOCK")
    now, most, persistent = (*shortened(ran.output.splitlines()[0], 80).split(", "), "", "")[:3]
    speed = f"SM at {now} of {most}, not locked by ncu-swizzle (--clock-control none)"
    if persistent == "Disabled":
        return doubtful(
            "clocks",
            f"{speed}; persistence mode is off: the driver is initialized for every program",
            "sudo nvidia-smi -pm 1",
        )
    return good("clocks", speed)
