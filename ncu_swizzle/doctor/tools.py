"""The programs and packages that measuring takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.doctor.diagnosis import Check, bad, doubtful, good
from ncu_swizzle.ncu import installed
from ncu_swizzle.ncu.installed import OLDEST_CHECKED, Installed, Version
from ncu_swizzle.ncu.system import System

# Programs that hold the counters while they run.
HOLDERS = ("nv-hostengine", "dcgm-exporter", "ncu", "nsys", "nsys-launcher")


def ncu(system: System, given: Path | None) -> Iterator[Check]:
    """Say which ncu is used, which others were found, and whether its reports can be read here."""
    if given is not None and not system.executable(given):
        yield bad("ncu", f"{given} is no program that can be run", "name ncu itself with --ncu")
        return
    named = [Installed(given, "--ncu", installed.version(system, given))] if given else []
    found = [*named, *installed.by_age(system, list(installed.candidates(system)))]
    if not found:
        yield bad(
            "ncu",
            "not found on PATH, in CUDA_HOME, /usr/local/cuda or /opt/nvidia/nsight-compute",
            "install Nsight Compute (apt-get install nsight-compute-2025.3.1), or name it with --ncu PATH",
        )
        yield reader(system, ())
        return
    used, *others = found
    said = f"{used.path}, {used.version_text} ({used.origin})"
    if not used.version:
        yield doubtful("ncu", f"{said}: it does not tell its version", f"{used.path} --version shows why")
    elif used.version < OLDEST_CHECKED:
        yield doubtful("ncu", f"{said}: older than what was ever tried", "a newer one: --ncu PATH")
    else:
        yield good("ncu", said)
    for other in others:
        yield good("other ncu", f"{other.path}, {other.version_text} ({other.origin})")
    yield reader(system, used.version)


def reader(system: System, version: Version) -> Check:
    """Say whether the package that reads reports knows those of the ncu of this version."""
    text = system.package_version("ncu-report")
    if not text and system.has_module("ncu_report"):
        return good("ncu-report", "a module of ncu's own, from its extras/python")
    if not text:
        return bad("ncu-report", "the package that reads reports is not installed", "pip install ncu-report")
    own = installed.parse(found[0]) if (found := re.match(r"\d+(?:\.\d+)*", text)) else ()
    if version[:2] > own[:2]:
        return doubtful(
            "ncu-report",
            f"{text} is older than ncu {'.'.join(map(str, version))}: it may not read its reports",
            "pip install --upgrade ncu-report",
        )
    return good("ncu-report", f"{text}, no older than ncu" if version else text)


def nvcc(system: System) -> Check:
    """Say whether kernels can be compiled."""
    ran = system.run(["nvcc", "--version"])
    if ran is None or ran.status:
        cure = "export PATH=/usr/local/cuda/bin:$PATH"
        if not system.exists("/usr/local/cuda/bin/nvcc"):
            cure = "install the CUDA toolkit, and put its bin folder on PATH"
        return bad("nvcc", "the CUDA compiler cannot be run", cure)
    found = re.search(r"release (\S+), (\S+)", ran.output)
    return good("nvcc", f"CUDA {found[1]} ({found[2]})" if found else "there, without telling its version")


def pycuda(system: System) -> Check:
    """Say whether kernels can be launched."""
    if not system.has_module("pycuda"):
        return bad("PyCUDA", "not installed", "pip install 'ncu-swizzle[gpu]' (needs the CUDA toolkit)")
    return good("PyCUDA", f"{system.package_version('pycuda') or 'installed'}")


def torch(system: System) -> Check:
    """Say whether there is a library to hold the kernels against; none is needed."""
    version = system.package_version("torch")
    if not version:
        return good("PyTorch", "not installed, and not needed: pip install 'ncu-swizzle[reference]' for comparisons")
    return good("PyTorch", f"{version}: kernels are held against its libraries")


def holders(system: System) -> Check:
    """Say whether another profiler runs, which may hold the counters."""
    running = system.processes()
    seen = sorted({name for name in running.values() if name in HOLDERS})
    if not seen:
        return good("other profilers", "none is running that can be seen")
    dcgm = any(name.startswith(("nv-host", "dcgm")) for name in seen)
    cure = "dcgmi profile --pause, and --resume afterwards" if dcgm else "wait for it, or end it"
    return doubtful("other profilers", f"{', '.join(seen)} may hold the performance counters", cure)
