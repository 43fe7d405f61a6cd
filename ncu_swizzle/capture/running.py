"""Run a program with the library that records its launches."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.base import bounds, child, native, paths, unfinished
from ncu_swizzle.base.errors import EnvironmentLacking, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.capture import recorded
from ncu_swizzle.capture.recorded import Recording
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.reports.model import MachineInfo

# Where CUPTI is: in a toolkit, in an installed Python package, or next to ncu.

VARIABLE = "NCU_SWIZZLE_CUPTI"
CUPTI_INSTALL = f"pip install nvidia-cuda-cupti, or name libcupti.so: {VARIABLE}=/…/libcupti.so.13"
IN_TOOLKIT = ("extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
IN_PACKAGES = ("cu*/lib", "cuda_cupti/lib")
_VERSION = re.compile(r"libcupti\.so\.([\d.]+)$")


def find() -> Path:
    """Return libcupti's path; raise EnvironmentLacking."""
    if named := os.environ.get(VARIABLE):
        if not Path(named).is_file():
            raise EnvironmentLacking(f"{VARIABLE} names {named}, which is not a file", CUPTI_INSTALL)
        return Path(named).absolute()
    for folder in _folders():
        if libraries := [file for file in folder.glob("libcupti.so*") if file.is_file()]:
            return max(libraries, key=_version)
    raise EnvironmentLacking(
        "capturing needs CUPTI, which is part of the CUDA toolkit, and it was not found", CUPTI_INSTALL
    )


def _version(file: Path) -> tuple[int, ...]:
    match = _VERSION.search(file.name)
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()


def _folders() -> Iterator[Path]:
    homes = [Path(os.environ.get(name, "")) for name in ("CUDA_HOME", "CUDA_PATH")]
    on_path = [Path(folder).parent for folder in paths.program_folders() if (Path(folder) / "nvcc").is_file()]
    for home in (*homes, *(folder.resolve() for folder in on_path), Path("/usr/local/cuda")):
        if home.is_absolute():
            yield from (home / below for below in IN_TOOLKIT)
    spec = importlib.util.find_spec("nvidia")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for pattern in IN_PACKAGES:
            yield from sorted(Path(location).glob(pattern), reverse=True)


# What a GPU answers to device queries, for the stand-in: values that a real one gave, by cudaDeviceAttr's numbers.


@dataclass(frozen=True, kw_only=True)
class StandInGpu:
    """The GPU that the stand-in imitates."""

    name: str
    sm: int
    memory: int  # bytes
    attributes: Mapping[int, int]

    @property
    def machine(self) -> MachineInfo:
        capability = f"{self.attributes[75]}.{self.attributes[76]}"
        return MachineInfo(compute_capability=capability, sm_count=self.attributes[16])


# As an H100 answered ncu: device__attribute_… of recordings/h100.
H100 = StandInGpu(
    name="NVIDIA H100 80GB HBM3",
    sm=90,
    memory=85_017_493_504,
    attributes={
        1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 10: 32, 11: 2147483647,
        12: 65536, 13: 1980000, 14: 512, 15: 1, 16: 132, 17: 0, 18: 0, 19: 1, 20: 0, 31: 1, 32: 1, 35: 0, 36: 2619000,
        37: 5120, 38: 52428800, 39: 2048, 40: 3, 41: 1, 75: 9, 76: 0, 78: 1, 79: 1, 80: 1, 81: 233472, 82: 65536, 83: 1,
        84: 0, 86: 0, 87: 2, 88: 0, 89: 1, 90: 1, 91: 1, 95: 1, 97: 232448, 99: 1, 100: 0, 101: 0, 106: 32,
        108: 32768000, 109: 134217728, 111: 1024, 115: 1, 120: 1,
    },
)  # fmt: skip
# A B200 as NVIDIA describes it (CUDA programming guide, "Technical Specifications per Compute Capability", 10.0; 148
# SMs, 126 MB of L2). We had none: values not listed there are not answered.
B200 = StandInGpu(
    name="NVIDIA B200",
    sm=100,
    memory=180 << 30,
    attributes={
        1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 10: 32, 12: 65536,
        15: 1, 16: 148, 31: 1, 38: 126 << 20, 39: 2048, 40: 3, 41: 1, 75: 10, 76: 0, 78: 1, 81: 233472, 82: 65536,
        83: 1, 95: 1, 97: 232448, 106: 32, 111: 1024, 115: 1, 120: 1,
    },
)  # fmt: skip
GPUS: Mapping[str, StandInGpu] = {"h100": H100, "b200": B200}

PROPERTIES_BYTES = 1008  # of CUDA 13's cudaDeviceProp
# Its fields, as offset, bytes and the attribute that says the same.
PROPERTIES = (
    (296, 8, 8), (304, 4, 12), (308, 4, 10), (312, 8, 11), (320, 4, 1), (324, 4, 2), (328, 4, 3), (332, 4, 4),
    (336, 4, 5), (340, 4, 6), (344, 4, 7), (352, 8, 9), (360, 4, 75), (364, 4, 76), (368, 8, 14), (384, 4, 16),
    (392, 4, 19), (560, 4, 31), (584, 4, 40), (588, 4, 41), (592, 4, 37), (596, 4, 38), (604, 4, 39), (624, 8, 81),
    (632, 4, 82), (636, 4, 83), (652, 4, 88), (656, 4, 89), (668, 4, 95), (672, 8, 97), (688, 4, 106), (696, 8, 111),
    (748, 4, 120),
)  # fmt: skip


def header(gpu: StandInGpu, runtime_version: int) -> str:
    """Return device.h, with what the stand-in answers."""
    values = ", ".join(f"{{{number}, {value}}}" for number, value in gpu.attributes.items())
    answered = [entry for entry in PROPERTIES if entry[2] in gpu.attributes]
    fields = ", ".join(f"{{{offset}, {size}, {number}}}" for offset, size, number in answered)
    return (
        f"#define RUNTIME_VERSION {runtime_version}\n"
        f'#define DEVICE_NAME "{gpu.name}"\n'
        f"#define DEVICE_MEMORY ((size_t){gpu.memory})\n"
        f"#define DEVICE_PROPERTIES_BYTES {PROPERTIES_BYTES}\n"
        f"static const DeviceValue DEVICE_VALUES[] = {{{values}}};\n"
        f"static const DeviceField DEVICE_FIELDS[] = {{{fields}}};\n"
    )


def sources() -> Path:
    """Return the folder with the C sources."""
    return paths.package() / "capture"


def build(
    source: str,
    folder: Path,
    name: str,
    options: Sequence[str] = (),
    generated: Mapping[str, str] | None = None,
    cached: bool = True,
) -> Path:
    """Return the library built from a source, as a file of that name in the folder: see `native.build`."""
    flags = (*native.LIBRARY, *options)
    return native.build(sources() / source, folder / name, flags, ("-ldl", "-lpthread"), generated, cached)


SOURCE = "injection.c"
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CaptureLimits:
    """Which launches are captured, and how much memory: bytes of buffers, 0 for none; `outputs`: after them, too."""

    kernel_name: str = ""
    count: int = 32
    memory_bytes: int = 0
    outputs: bool = False
    execute: bool = False  # dry launches
    timeout_s: float = 600


def refuse_unusable(argv: Sequence[str], folder: Path) -> None:
    """Raise UsageError unless this is a program that can be started."""
    if not argv:
        raise UsageError("no program follows --", "ncu-swizzle capture -- ./app --size 4096")
    first = argv[0]
    executable = folder / first if "/" in first else shutil.which(first)
    if executable is None or not shutil.which(executable):
        raise UsageError(f"{first} is not an executable program", "ls -l shows its permissions")


def record(argv: Sequence[str], folder: Path, limits: CaptureLimits, scratch: Path, cached: bool = True) -> Recording:
    """Run the program once on this machine's GPU and return its launches; their bytes are in the scratch folder.

    Raises EnvironmentLacking without CUPTI or a C compiler, ProgramFailed if the program fails, and NothingProfiled.
    """
    with _prepared(limits, scratch, cached) as (environment, into):
        outcome = child.run(argv, limits.timeout_s, folder, environment, started_by=family(scratch, cached))
    recording = recorded.read(into, limits.count)
    refuse_failed(argv, outcome)
    if not recording.launches:
        raise nothing(recording, limits)
    return recording


def refuse_failed(argv: Sequence[str], outcome: child.Exit) -> None:
    """Raise ProgramFailed with a program's last lines if it did."""
    if outcome.status:
        raise ProgramFailed(
            f"{Path(argv[0]).name} exited with status {outcome.status}; its last lines:\n"
            f"{bounds.last_lines(outcome.log)}",
            "run it by itself first",
        )


@contextmanager
def injected(limits: CaptureLimits) -> Iterator[tuple[dict[str, str], Path]]:
    """Yield the environment that captures a program, and the folder of its recording; for benchmarks."""
    with unfinished.scratch() as scratch, _prepared(limits, scratch, cached=True) as prepared:
        yield prepared


@contextmanager
def _prepared(limits: CaptureLimits, scratch: Path, cached: bool) -> Iterator[tuple[dict[str, str], Path]]:
    into = scratch / "recording"
    into.mkdir(0o700)
    injection = build(SOURCE, scratch, "injection.so", cached=cached)
    with plain_path(scratch) as libraries:
        # The driver loads the library that CUDA_INJECTION64_PATH names into each process that initializes CUDA.
        named = {
            "NCU_SWIZZLE_CAPTURE_CUPTI": str(find()),
            "CUDA_INJECTION64_PATH": str(libraries / injection.name),
        }
        yield {**os.environ, **settings(limits, into), **named}, into


@contextmanager
def plain_path(folder: Path) -> Iterator[Path]:
    """Yield a path of the folder for the dynamic linker, which splits at ``:`` and ``;`` and replaces ``$ORIGIN``."""
    if not set(str(folder)) & set(":;$"):
        yield folder
        return
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{handle}")
    finally:
        os.close(handle)


def family(folder: Path, cached: bool) -> tuple[str]:
    """Return the launcher for a program, so that nothing it starts is left running."""
    return (str(native.build(sources() / "family.c", folder / "family", (), (), cached=cached)),)


def settings(limits: CaptureLimits, into: Path) -> Mapping[str, str]:
    """Create the C libraries' counters; return the limits as they read them from the environment.

    Raises UsageError.
    """
    kernels = KernelFilter(limits.kernel_name).checked()
    recorded.count_in(into)
    return {
        "NCU_SWIZZLE_CAPTURE": str(into),
        "NCU_SWIZZLE_CAPTURE_COUNT": str(limits.count),
        "NCU_SWIZZLE_CAPTURE_MEMORY": str(limits.memory_bytes),
        "NCU_SWIZZLE_CAPTURE_OUTPUTS": "1" if limits.outputs else "",
        "NCU_SWIZZLE_CAPTURE_EXECUTE": "1" if limits.execute else "",
        "NCU_SWIZZLE_CAPTURE_NAME": "" if kernels.expression else kernels.text,
        "NCU_SWIZZLE_CAPTURE_PATTERN": kernels.expression,
    }


def nothing(recording: Recording, limits: CaptureLimits) -> NothingProfiled | EnvironmentLacking:
    if recording.problems:
        return EnvironmentLacking(
            f"the program's launches cannot be followed: {recording.problems[0]}",
            f"name another libcupti: {VARIABLE}=/…/libcupti.so.13",
        )
    if not recording.followed:
        return NothingProfiled("the program did not use a GPU", "run it by itself first: does it find the GPU?")
    if recording.notes and not (limits.kernel_name and recording.counted.unwanted):
        return NothingProfiled(
            f"nothing was captured: {' '.join(recording.notes)}", "see docs/launches.md, what is captured"
        )
    only = f" with the name {limits.kernel_name}" if limits.kernel_name else ""
    return NothingProfiled(f"the program launched no kernel{only}", "leave out -k to capture all of its kernels")
