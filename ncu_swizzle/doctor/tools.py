"""Checks of the programs and packages that measuring needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ncu_swizzle.build.toolchain import nvcc_release
from ncu_swizzle.doctor.diagnosis import HealthCheck, bad, doubtful, good
from ncu_swizzle.ncu import installed
from ncu_swizzle.ncu.installed import OLDEST_CHECKED, Installed, Version
from ncu_swizzle.ncu.system import System

ANOTHER_NCU = "to use another one: ncu-swizzle doctor --ncu PATH"
# Programs that reserve the counters while they run.
HOLDERS = ("nv-hostengine", "dcgm-exporter", "ncu", "nsys", "nsys-launcher")
NVCC_VERSION = ("nvcc", "--version")


def questions(system: System, given: Path | None) -> Iterator[Sequence[str]]:
    """Yield the commands that these checks run."""
    yield NVCC_VERSION
    for program in [given] if given else [candidate.path for candidate in installed.candidates(system)]:
        if system.executable(program):
            yield [str(program), installed.ASK]


def ncu(system: System, given: Path | None) -> Iterator[HealthCheck]:
    """Yield which ncu is used, which others are installed, and whether its reports can be read here."""
    if given is not None and not system.executable(given):
        yield bad("ncu", f"{given} is not an executable", "give the path of ncu itself to --ncu")
        return
    named = [Installed(given, "--ncu", installed.version(system, given))] if given else []
    all_ncu = [*named, *installed.by_age(system, list(installed.candidates(system)))]
    if not all_ncu:
        yield bad(
            "ncu",
            "not found on PATH, in CUDA_HOME, /usr/local/cuda or /opt/nvidia/nsight-compute",
            "install Nsight Compute (apt-get install nsight-compute-2025.3.1), or name it with --ncu PATH",
        )
        yield reader(system, ())
        return
    used, *others = all_ncu
    program = f"{used.path}, {used.version_text} ({used.origin})"
    ran = system.run([str(used.path), installed.ASK])  # even if its folder names the version: it may hang
    if ran and ran.silence:
        yield bad("ncu", f"{program} {ran.silence}", f"{used.path} --version shows whether it hangs; {ANOTHER_NCU}")
    elif not used.version:
        yield doubtful("ncu", f"{program}: it does not report its version", f"{used.path} --version shows why")
    elif used.version < OLDEST_CHECKED:
        yield doubtful("ncu", f"{program}: older than any version tested", "use a newer one: --ncu PATH")
    else:
        yield good("ncu", program)
    for other in others:
        yield good("other ncu", f"{other.path}, {other.version_text} ({other.origin})")
    yield reader(system, used.version)


def reader(system: System, version: Version) -> HealthCheck:
    """Return whether the package that reads reports supports those of this ncu version."""
    text = system.package_version("ncu-report")
    if not text and system.has_module("ncu_report"):
        return good("ncu-report", "the module from ncu's own extras/python")
    if not text:
        return bad("ncu-report", "the package that reads reports is not installed", "pip install ncu-report")
    own = installed.parse_version(match[0]) if (match := re.match(r"\d+(?:\.\d+)*", text)) else ()
    if version[:2] > own[:2]:
        return doubtful(
            "ncu-report",
            f"{text} is older than ncu {'.'.join(map(str, version))}: it may be unable to read its reports",
            "pip install --upgrade ncu-report",
        )
    return good("ncu-report", f"{text}, not older than ncu" if version else text)


def nvcc(system: System) -> HealthCheck:
    """Return whether kernels can be compiled."""
    ran = system.run(NVCC_VERSION)
    if ran and ran.silence:
        return bad("nvcc", f"the CUDA compiler {ran.silence}", "nvcc --version shows whether it hangs; type -a nvcc")
    if ran is None or ran.status:
        cure = "export PATH=/usr/local/cuda/bin:$PATH"
        if not system.exists("/usr/local/cuda/bin/nvcc"):
            cure = "install the CUDA toolkit, and put its bin folder on PATH"
        return bad("nvcc", "the CUDA compiler cannot be run", cure)
    release = nvcc_release(ran.output)
    return good("nvcc", f"CUDA {release}" if release else "installed, version unknown")


def pycuda(system: System) -> HealthCheck:
    """Return whether kernels can be launched."""
    if not system.has_module("pycuda"):
        return bad("PyCUDA", "not installed", "pip install 'ncu-swizzle[gpu]' (needs the CUDA toolkit)")
    return good("PyCUDA", f"{system.package_version('pycuda') or 'installed'}")


def torch(system: System) -> HealthCheck:
    """Return whether a library is installed to compare the kernels with; none is needed."""
    version = system.package_version("torch")
    if not version:
        return good("PyTorch", "not installed and not required; for comparisons: pip install 'ncu-swizzle[reference]'")
    return good("PyTorch", f"{version}: kernels are compared with its libraries")


def holders(system: System) -> HealthCheck:
    """Return whether another profiler is running that may hold the counters."""
    running = system.processes()
    seen = sorted({name for name in running.values() if name in HOLDERS})
    if not seen:
        return good("other profilers", "none visible")
    dcgm = any(name.startswith(("nv-host", "dcgm")) for name in seen)
    cure = "dcgmi profile --pause, and --resume afterwards" if dcgm else "wait for it, or end it"
    return doubtful("other profilers", f"{', '.join(seen)} may hold the performance counters", cure)
