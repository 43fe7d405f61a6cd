"""Run a program to record its launches, and read what its processes recorded."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle.base import bounds, child, native, paths, unfinished, validate
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.base.files import brief
from ncu_swizzle.capture.launches import (
    MOST_IMAGE,
    CapturedBuffer,
    CapturedLaunch,
    CapturedParameter,
    CapturedVariable,
    Contents,
    implausible_launch,
)
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import KernelFilter, demangle, function
from ncu_swizzle.reports.model import MachineInfo

# Which cubin a launched function belongs to.
#
# CUPTI hands out each cubin as it is loaded, but not its module. What a program loads by cuModuleLoad… is known
# from that call. The runtime's modules are told by the names of all functions, and the launched one's attributes:
# registers, shared, constant and local bytes, and the layout of its parameters.

STATIC_SHARED, REGISTERS = 1, 4  # in the attributes of a launch


@dataclass
class Kernels:
    """A loaded cubin: its number, and its contents."""

    number: int
    file: Path

    @cached_property
    def cubin(self) -> Cubin | None:
        """The cubin; None if it cannot be read, or has no kernel."""
        try:
            return Cubin(self.file.read_bytes(), self.file.name)
        except (NcuSwizzleError, OSError):
            return None

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.cubin.kernels) if self.cubin else frozenset()

    def fits(self, event: dict[str, Any]) -> bool:
        """Return whether the launched kernel can come from this cubin."""
        kernel = event["kernel"]
        if self.cubin is None or kernel not in self.names:
            return False
        try:
            attributes = self.cubin.attributes(kernel)
        except NcuSwizzleError:
            return False
        layout = [(offset, len(value or "") // 2) for offset, value in sorted(event["parameters"])]
        registers, shared = event["attributes"][REGISTERS], event["attributes"][STATIC_SHARED]
        same = registers in (attributes.registers, -1) and shared in (attributes.static_shared, -1)
        return same and layout == [(slot.offset, slot.size) for slot in attributes.parameters]

    def code(self, kernel: str) -> tuple[bytes, ...]:
        """Return what decides a kernel's behaviour: its instructions and constants."""
        assert self.cubin is not None
        constants = sorted(self.cubin.constants(kernel).items())
        return (self.cubin.section(f".text.{kernel}"), *(content for _, content in constants))


class Modules:
    """The modules of one process, as they were loaded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cubins: list[Kernels] = []
        self._loads: dict[int, tuple[int, int]] = {}  # module handle → cubins that came with it
        self._modules: dict[int, dict[str, Any]] = {}
        self._chosen: dict[tuple[Any, ...], Path | str] = {}

    def add(self, event: dict[str, Any]) -> None:
        if event["is"] == "cubin":
            self._cubins.append(Kernels(event["number"], self._folder / event["file"]))
        elif event["is"] == "load":
            self._loads[event["module"]] = (event["from"], event["to"])
        else:
            loaded = self._loads.get(event["handle"])
            self._modules[event["number"]] = {**event, "loaded": loaded}

    def cubin(self, event: dict[str, Any]) -> Path | str:
        """Return the cubin of a launched kernel, or why it is not known."""
        if event["module"] not in self._modules:
            return "the driver does not name its module"
        key = (event["module"], event["kernel"])
        if key not in self._chosen:
            self._chosen[key] = self._choose(event, self._modules[event["module"]])
        return self._chosen[key]

    def _choose(self, event: dict[str, Any], module: dict[str, Any]) -> Path | str:
        first, end = module["loaded"] or (0, len(self._cubins))
        fitting = [cubin for cubin in self._cubins[first:end] if cubin.fits(event)]
        named = frozenset(module["functions"])
        fitting = [cubin for cubin in fitting if cubin.names == named] or fitting
        if not fitting:
            return "no cubin that was loaded has it"
        if len(fitting) > 1 and len({cubin.code(event["kernel"]) for cubin in fitting}) > 1:
            return f"{len(fitting)} cubins that were loaded have a different kernel of that name"
        return fitting[0].file  # of several, the kernel is the same in all


MISSING = "its recording is incomplete"
LARGE = f"it has more than {MOST_IMAGE:,} bytes"

COUNTERS = "counters"  # the file that all processes of a capture count in
_COUNTERS = struct.Struct("=5Q")  # as `Counters` of log.h

_RECORD = re.compile(r"[0-9]+-[0-9]+")
_OWN_FILE = re.compile(r"([0-9]+-[0-9]+)-[cm][0-9]+")  # next to the record that it is named after
# What a malformed event raises.
_BROKEN = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, NcuSwizzleError)
_MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Requested launches; of these, those that -k excludes, that CUDA refused, and that were to be recorded."""

    seen: int = 0
    unwanted: int = 0
    refused: int = 0
    claimed: int = 0


@dataclass(kw_only=True)
class Recording:
    """Everything that a program's processes launched, and the files with what the launches name by SHA-256."""

    launches: list[CapturedLaunch] = field(default_factory=list)
    cubins: dict[str, Path] = field(default_factory=dict)
    memory: dict[str, Path] = field(default_factory=dict)
    machine: MachineInfo = MachineInfo()
    log: str = ""  # the last lines of a program whose launches were executed
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # why a process was not followed
    unknown: list[str] = field(default_factory=list)  # what a program read of the results of launches, and why
    counted: Counted = Counted()
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)  # launches of a kernel, and why
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # launches of a kernel, and CUDA's error
    followed: int = 0  # processes
    unended: int = 0  # processes that ran no exit handlers
    damaged: int = 0  # events

    def accounts(self, most: int) -> list[str]:
        """Explain what became of each requested launch that is not among these."""
        left_out, counted = self.left_out.total(), self.counted
        lost = counted.claimed - len(self.launches) - left_out
        further = counted.seen - counted.unwanted - counted.refused - counted.claimed
        if counted.claimed < most:  # their process was killed just then
            lost, further = lost + further, 0
        notes = [
            f"{_launches(number, kernel)} left out: {why}." for (kernel, why), number in self.left_out.most_common()
        ]
        if counted.refused:
            kinds = dict.fromkeys(
                f"{function(demangle(kernel))} ({error})" if kernel else error for kernel, error in self.refused
            )
            more = ", …" if len(kinds) > _MOST_NAMED else ""
            shown = ", ".join([*kinds][:_MOST_NAMED])
            notes.append(f"{_launches(counted.refused)} refused by CUDA: {shown}{more}.")
        if lost > 0:
            notes.append(f"{_launches(lost)} lost: the record is missing or incomplete (a full disk, or a kill).")
        if further > 0:
            notes.append(
                f"Only the first {most} launches were captured; the program launched {further:,} more. -c N captures "
                "more, -k NAME selects others."
            )
        if self.damaged:
            one = self.damaged == 1
            lines = "A line of the recording is" if one else f"{self.damaged:,} lines of the recording are"
            notes.append(f"{lines} damaged and {'was' if one else 'were'} left out.")
        if self.unended:
            processes = "A process" if self.unended == 1 else f"{self.unended:,} processes"
            notes.append(f"{processes} ended by _exit, exec or a signal: more may have been launched.")
        return notes


def _launches(number: int, kernel: str = "") -> str:
    of = f" of {kernel}" if kernel else ""
    return f"A launch{of} was" if number == 1 else f"{number:,} launches{of} were"


def _counted(file: Path) -> Counted:
    try:
        seen, unwanted, refused, claimed, _ = _COUNTERS.unpack(file.read_bytes())
    except (OSError, struct.error) as error:
        raise ProgramFailed(
            "the program removed or changed the files in which its launches are recorded",
            "have it leave the temporary folder alone, or name another one: TMPDIR=/…",
        ) from error
    return Counted(seen=seen, unwanted=unwanted, refused=refused, claimed=claimed)


def count_in(folder: Path) -> None:
    """Create the counters."""
    (folder / COUNTERS).write_bytes(bytes(_COUNTERS.size))


class Record:
    """One process's events, turned into launches."""

    def __init__(self, file: Path, recording: Recording) -> None:
        self.folder, self.name, self.recording = file.parent, file.stem, recording
        self._modules = Modules(self.folder)
        self._hashes: dict[str, str] = {}
        self._launches: dict[int, CapturedLaunch | tuple[str, str]] = {}  # or the kernel, and why it is left out
        self._file = file

    def launches(self) -> list[CapturedLaunch]:
        """Read the events; what is damaged among them is counted."""
        ends = False
        with self._file.open(encoding="utf-8", errors="replace") as lines:
            for line in filter(str.strip, lines):
                try:
                    event = json.loads(line)
                    ends |= event["is"] in ("end", "problem", "unknown")
                    self._take(event)
                except (*_BROKEN, RecursionError):
                    self.recording.damaged += 1
        self.recording.unended += not ends
        left_out = [launch for launch in self._launches.values() if isinstance(launch, tuple)]
        self.recording.left_out.update(left_out)
        return [launch for launch in self._launches.values() if isinstance(launch, CapturedLaunch)]

    def _take(self, event: dict[str, Any]) -> None:
        kind, recording = event["is"], self.recording
        if kind in ("launch", "dry"):
            self._launches[event["seen"]] = self._launch(event)
        elif kind == "outputs":
            launch = self._launches.get(event["seen"])
            if isinstance(launch, CapturedLaunch) and len(event["contents"]) == len(launch.parts):
                outputs = tuple(self.contents(part) for part in event["contents"])
                self._launches[event["seen"]] = replace(launch, outputs=outputs)
        elif kind == "refused":
            self._drop(event)
        elif kind in ("cubin", "load", "module"):
            if kind == "cubin":
                self.own(event["file"])
            self._modules.add(event)
        elif kind == "device":
            recording.machine = _machine(event)
        elif kind == "note":
            recording.notes.append(f"{event['text'].rstrip('.')}.")
        elif kind in ("problem", "unknown"):
            (recording.problems if kind == "problem" else recording.unknown).append(event["text"])
        elif kind == "start":
            recording.followed += 1

    def _drop(self, event: dict[str, Any]) -> None:
        """Take back recorded launches that the driver refused."""
        first, end, kernel = event["from"], event["to"], event["kernel"]
        for number in [number for number in self._launches if first <= number < end]:
            launch = self._launches.pop(number)
            kernel = kernel or (launch.kernel if isinstance(launch, CapturedLaunch) else launch[0])
        self.recording.refused[kernel, event["error"]] += end - first

    def _launch(self, event: dict[str, Any]) -> CapturedLaunch | tuple[str, str]:
        """Return a launch, or its kernel and why it is left out."""
        kernel = event["kernel"]
        if any(value is None for _, value in event["parameters"]):
            return kernel, "its parameters could not be read"
        cubin = self.cubin(event)
        if cubin not in self.recording.cubins:
            return kernel or "a kernel", cubin
        try:
            launch = self._captured(event, cubin)
        except _BROKEN as error:
            return kernel, f"its record is damaged: {brief(error)}"
        memory = self.recording.memory
        sizes = {one.sha256: memory[one.sha256].stat().st_size for one in launch.contents if one.sha256}
        odd = validate.mismatch(launch) or implausible_launch(launch, {cubin}, sizes)
        return (kernel, odd) if odd else launch

    def _captured(self, event: dict[str, Any], cubin: str) -> CapturedLaunch:
        buffers, variables = event["buffers"], event["variables"]
        cluster = tuple(event["cluster"])
        return CapturedLaunch(
            index=0,
            kernel=event["kernel"],
            cubin=cubin,
            grid=tuple(event["grid"]),
            block=tuple(event["block"]),
            cluster=cluster if all(cluster) else (),
            shared=event["shared"],
            parameters=tuple(CapturedParameter(offset, value) for offset, value in sorted(event["parameters"])),
            buffers=tuple(CapturedBuffer(p["address"], p["bytes"], self.contents(p)) for p in buffers),
            variables=tuple(CapturedVariable(p["name"], p["bytes"], self.contents(p)) for p in variables),
            graph=bool(event["graph"]),
        )

    def cubin(self, event: dict[str, Any]) -> str:
        """Return the SHA-256 of a launched kernel's cubin in the recording; else why there is none."""
        cubin = self._modules.cubin(event)
        return cubin if isinstance(cubin, str) else named(cubin, self.recording.cubins, self._hashes)

    def contents(self, part: dict[str, Any]) -> Contents:
        """Return the contents of a buffer or variable; their file is added to the memory by its SHA-256."""
        if part["content"] is None:
            return Contents(why=part["why"])
        file = self.own(part["content"])
        if not file.is_file() or file.stat().st_size != part["bytes"]:
            return Contents(why=MISSING)
        if part["bytes"] > MOST_IMAGE:
            return Contents(why=LARGE)
        return Contents(named(file, self.recording.memory, self._hashes))

    def own(self, name: str) -> Path:
        """Return a file that an event names; raise ValueError unless it belongs to this process."""
        match = _OWN_FILE.fullmatch(str(name))
        if match is None or match[1] != self.name:
            raise ValueError(f"{name!r} is not a file of this process")
        return self.folder / name


def read(folder: Path, most: int, reader: Callable[[Path, Recording], Record] = Record) -> Recording:
    """Return what the processes recorded in the folder, in the order of their IDs, at most that many launches."""
    recording = Recording(counted=_counted(folder / COUNTERS))
    records = [file for file in folder.glob("*.jsonl") if _RECORD.fullmatch(file.stem)]
    for file in sorted(records, key=lambda file: [int(number) for number in file.stem.split("-")]):
        launches = reader(file, recording).launches()
        recording.launches += launches[: most - len(recording.launches)]
    recording.launches = [replace(launch, index=index) for index, launch in enumerate(recording.launches)]
    recording.notes = [*dict.fromkeys(recording.notes), *recording.accounts(most)]
    return recording


def named(file: Path, files: dict[str, Path], hashes: dict[str, str]) -> str:
    """Return the SHA-256 of a file, which is kept under it; `hashes` are those taken before, by file name."""
    if file.name not in hashes:
        with file.open("rb") as opened:
            hashes[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    files.setdefault(hashes[file.name], file)
    return hashes[file.name]


def _machine(event: dict[str, Any]) -> MachineInfo:
    major, minor = event["capability"]
    driver = event["driver"]
    return MachineInfo(
        gpu=event["name"],
        compute_capability=f"{major}.{minor}",
        sm_count=event["multiprocessors"],
        # cuDriverGetVersion: 12040 is 12.4.
        driver=f"CUDA {driver // 1000}.{driver % 1000 // 10}",
    )


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
    recording = read(into, limits.count)
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
    count_in(into)
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
