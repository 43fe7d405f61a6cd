"""The driver, the GPU, and who may read its counters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncu_swizzle.doctor.diagnosis import Check, bad, doubtful, good
from ncu_swizzle.ncu.failures import NO_COUNTERS
from ncu_swizzle.ncu.system import System

OLDEST = (7, 0)  # the compute capability that Nsight Compute still profiles: Volta
OURS = (8, 0)  # what the catalogue's kernels need


def driver(system: System) -> Check:
    """Say which driver is loaded."""
    text = system.read("/proc/driver/nvidia/version") or ""
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    if found:
        return good("driver", f"NVIDIA driver {found[1]}")
    if reason := system.gpu_absent():
        return bad("driver", reason, "install the NVIDIA driver; in a container, start it with --gpus all")
    return doubtful("driver", "a driver answers, but /proc/driver/nvidia/version does not tell which")


def gpu(system: System) -> Iterator[Check]:
    """Say which GPUs there are, and whether they can be profiled."""
    if reason := system.gpu_absent():
        yield bad("GPU", reason, "nvidia-smi -L shows what the driver sees; in a container, start it with --gpus all")
        return
    for number, (name, capability) in enumerate(system.gpus()):
        said = f"{name}, compute capability {'.'.join(map(str, capability))}"
        if number == 0 and capability < OLDEST:
            yield bad("GPU", f"{said}: Nsight Compute no longer profiles it", "a GPU of compute capability 7.0 or more")
        elif number == 0 and capability < OURS:
            yield doubtful("GPU", f"{said}: the catalogue's kernels need 8.0", "profile programs of your own")
        else:
            yield good("GPU", said if number == 0 else f"{said} (not used: the first one is)")


def counters(system: System) -> Check:
    """Say whether this user may read the performance counters."""
    params = system.read("/proc/driver/nvidia/params") or ""
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d)", params, re.MULTILINE)
    if found is None:
        return doubtful("counters", "/proc/driver/nvidia/params does not tell who may read the counters", NO_COUNTERS)
    if found[1] == "0":
        return good("counters", "everybody may read the performance counters")
    if system.privileged:
        return good("counters", "only privileged users may read the performance counters, and this one is")
    return bad("counters", "only privileged users may read the performance counters", NO_COUNTERS)


def mig(system: System) -> Check:
    """Say whether the GPU is divided."""
    ran = system.run(["nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader"])
    if ran is None or ran.status:
        return good("MIG", "nvidia-smi does not tell; few GPUs have it")
    if "Enabled" in ran.output:
        return doubtful(
            "MIG",
            "the GPU is divided: its clocks cannot be locked, and units that instances share have no counters",
            "profile with --clock-control none (the default); sudo nvidia-smi -mig 0 gives the whole GPU",
        )
    return good("MIG", "the GPU is not divided")


def clocks(system: System) -> Check:
    """Say how the clocks are now: times depend on them, counts do not."""
    query = "--query-gpu=clocks.current.sm,clocks.max.sm,persistence_mode"
    ran = system.run(["nvidia-smi", query, "--format=csv,noheader"])
    if ran is None or ran.status:
        return doubtful("clocks", "nvidia-smi does not tell how the GPU is clocked", "nvidia-smi -q -d CLOCK")
    now, most, persistent = (*ran.output.splitlines()[0].split(", "), "", "")[:3]
    said = f"SM at {now} of {most}, not locked by us (--clock-control none)"
    if persistent == "Disabled":
        return doubtful("clocks", f"{said}; the driver starts anew for every program", "sudo nvidia-smi -pm 1")
    return good("clocks", said)
