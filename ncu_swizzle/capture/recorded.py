"""What the injected library wrote: a line per event, in a file per process, and cubins and contents beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture.launches import CapturedBuffer, CapturedLaunch, CapturedParameter, CapturedVariable, Contents
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.reports.model import MachineInfo

# Which cubin a launched function is of.
#
# CUPTI hands out each cubin as it is loaded, but not for which module. What a program loads by cuModuleLoad… is known
# by that call. Of the runtime's modules, the names of all functions tell, and what the driver says of the launched one:
# registers, shared, constant and local bytes, and the layout of its parameters.

STATIC_SHARED, REGISTERS = 1, 4  # in the attributes of a launch


@dataclass
class Kernels:
    """A cubin that was loaded: its number, and what it holds."""

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
        """Return whether the launched kernel can be this cubin's."""
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

    def __init__(self, file_of: Callable[[int], Path]) -> None:
        self._file_of = file_of
        self._cubins: list[Kernels] = []
        self._loads: dict[int, tuple[int, int]] = {}  # module handle → cubins that came with it
        self._modules: dict[int, dict[str, Any]] = {}
        self._chosen: dict[tuple[Any, ...], int | str] = {}

    def add(self, event: dict[str, Any]) -> None:
        if event["is"] == "cubin":
            self._cubins.append(Kernels(event["number"], self._file_of(event["number"])))
        elif event["is"] == "load":
            self._loads[event["module"]] = (event["from"], event["to"])
        else:
            loaded = self._loads.get(event["handle"])
            self._modules[event["number"]] = {**event, "loaded": loaded}

    def kernel(self, event: dict[str, Any]) -> int | str:
        """Return the number of the cubin that a launched kernel is of, or why it is not known."""
        if event["module"] not in self._modules:
            return "the driver does not name its module"
        key = (event["module"], event["kernel"])
        if key not in self._chosen:
            self._chosen[key] = self._choose(event, self._modules[event["module"]])
        return self._chosen[key]

    def _choose(self, event: dict[str, Any], module: dict[str, Any]) -> int | str:
        first, end = module["loaded"] or (0, len(self._cubins))
        fitting = [cubin for cubin in self._cubins[first:end] if cubin.fits(event)]
        named = frozenset(module["functions"])
        fitting = [cubin for cubin in fitting if cubin.names == named] or fitting
        if not fitting:
            return "no cubin that was loaded has it"
        if len(fitting) > 1 and len({cubin.code(event["kernel"]) for cubin in fitting}) > 1:
            return f"{len(fitting)} cubins that were loaded have a different kernel of that name"
        return fitting[0].number  # of several, the kernel is the same in all


MISSING = "its recording is incomplete"


@dataclass(kw_only=True)
class Recording:
    """Everything that a program's processes launched, and the files with what the launches name by SHA-256."""

    launches: list[CapturedLaunch] = field(default_factory=list)
    cubins: dict[str, Path] = field(default_factory=dict)
    memory: dict[str, Path] = field(default_factory=dict)
    machine: MachineInfo = MachineInfo()
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # why a process was not followed
    seen: int = 0
    followed: int = 0  # processes


def read(folder: Path, most: int) -> Recording:
    """Return what the processes recorded in the folder, in the order of their IDs, at most that many launches."""
    recording = Recording()
    for file in sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem)):
        _Process(folder, file, recording).read(most)
    recording.notes = list(dict.fromkeys(recording.notes))
    return recording


class _Process:
    """One process's events, turned into launches."""

    def __init__(self, folder: Path, file: Path, recording: Recording) -> None:
        self.folder, self.file, self.recording = folder, file, recording
        self.modules = Modules(self._cubin_file)
        self._hashes: dict[str, str] = {}

    def read(self, most: int) -> None:
        for event in events(self.file):
            self._take(event, most)

    def _take(self, event: dict[str, Any], most: int) -> None:
        kind, recording = event.get("is"), self.recording
        if kind == "launch":
            if len(recording.launches) < most:
                self._launch(event)
        elif kind in ("cubin", "load", "module"):
            self.modules.add(event)
        elif kind == "device":
            recording.machine = _machine(event)
        elif kind == "note":
            recording.notes.append(f"{event['text'].rstrip('.')}.")
        elif kind == "problem":
            recording.problems.append(event["text"])
        elif kind == "start":
            recording.followed += 1
        elif kind == "end":
            recording.seen += event["seen"]

    def _launch(self, event: dict[str, Any]) -> None:
        kernel = event["kernel"]
        number = self.modules.kernel(event)
        if isinstance(number, str):
            self.recording.notes.append(f"A launch of {kernel or 'a kernel'} was left out: {number}.")
            return
        if any(value is None for _, value in event["parameters"]):
            self.recording.notes.append(f"A launch of {kernel} was left out: its parameters could not be read.")
            return
        cubin = named(self._cubin_file(number), self.recording.cubins, self._hashes)

        def contents(part: dict[str, Any]) -> Contents:
            return contents_of(part, self.folder, self.file.stem, self.recording.memory, self._hashes)

        self.recording.launches.append(captured_launch(len(self.recording.launches), event, cubin, contents))

    def _cubin_file(self, number: int) -> Path:
        return self.folder / f"{self.file.stem}-c{number}"


def captured_launch(
    index: int, event: dict[str, Any], cubin: str, contents: Callable[[dict[str, Any]], Contents]
) -> CapturedLaunch:
    """Return the launch of an event, given its cubin's SHA-256 and what its buffers and variables hold."""
    cluster = tuple(event["cluster"])
    return CapturedLaunch(
        index=index,
        kernel=event["kernel"],
        cubin=cubin,
        grid=tuple(event["grid"]),
        block=tuple(event["block"]),
        cluster=cluster if all(cluster) else (),
        shared=event["shared"],
        parameters=tuple(CapturedParameter(offset, value) for offset, value in sorted(event["parameters"])),
        buffers=tuple(CapturedBuffer(part["address"], part["bytes"], contents(part)) for part in event["buffers"]),
        variables=tuple(CapturedVariable(part["name"], part["bytes"], contents(part)) for part in event["variables"]),
        graph=bool(event["graph"]),
    )


def contents_of(
    part: dict[str, Any], folder: Path, process: str, memory: dict[str, Path], hashes: dict[str, str] | None = None
) -> Contents:
    """Return what a buffer or a variable held; the file with it is added to the memory by its SHA-256."""
    if part["content"] is None:
        return Contents(why=part["why"])
    file = folder / f"{process}-m{part['content']}"
    if not file.is_file() or file.stat().st_size != part["bytes"]:
        return Contents(why=MISSING)
    return Contents(named(file, memory, {} if hashes is None else hashes))


def named(file: Path, files: dict[str, Path], hashes: dict[str, str]) -> str:
    """Return the SHA-256 of a file, which is kept under it; `hashes` are those taken before, by file name."""
    if file.name not in hashes:
        with file.open("rb") as opened:
            hashes[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    files.setdefault(hashes[file.name], file)
    return hashes[file.name]


def events(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines: a process that was killed leaves half of one."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                return
            if isinstance(event, dict):
                yield event


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
