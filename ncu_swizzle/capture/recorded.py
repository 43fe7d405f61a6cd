"""What the injected library wrote: a line per event, in a file per process, and cubins and contents beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle.capture import modules
from ncu_swizzle.launches.model import (
    CapturedBuffer,
    CapturedLaunch,
    CapturedParameter,
    CapturedVariable,
    Contents,
)
from ncu_swizzle.profiles.model import MachineInfo

MISSING = "its recording is incomplete"


@dataclass
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
        self.modules = modules.Modules(self._cubin_file)
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
        found = self.modules.kernel(event)
        if isinstance(found, str):
            self.recording.notes.append(f"A launch of {kernel or 'a kernel'} was left out: {found}.")
            return
        if any(value is None for _, value in event["parameters"]):
            self.recording.notes.append(f"A launch of {kernel} was left out: its parameters could not be read.")
            return
        cubin = named(self._cubin_file(found), self.recording.cubins, self._hashes)

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
        driver=f"CUDA {driver // 1000}.{driver % 1000 // 10}",
    )
