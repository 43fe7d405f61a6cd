"""What the injected library wrote: a line per event, in a file per process, and cubins and contents beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
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
        for event in _events(self.file):
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
        cubin = self._named(self._cubin_file(found), self.recording.cubins)
        cluster = tuple(event["cluster"])
        self.recording.launches.append(
            CapturedLaunch(
                index=len(self.recording.launches),
                kernel=kernel,
                cubin=cubin,
                grid=tuple(event["grid"]),
                block=tuple(event["block"]),
                cluster=cluster if all(cluster) else (),
                shared=event["shared"],
                parameters=tuple(CapturedParameter(offset, value) for offset, value in sorted(event["parameters"])),
                buffers=tuple(
                    CapturedBuffer(part["address"], part["bytes"], self._contents(part)) for part in event["buffers"]
                ),
                variables=tuple(
                    CapturedVariable(part["name"], part["bytes"], self._contents(part)) for part in event["variables"]
                ),
                graph=bool(event["graph"]),
            )
        )

    def _contents(self, part: dict[str, Any]) -> Contents:
        if part["content"] is None:
            return Contents(why=part["why"])
        file = self.folder / f"{self.file.stem}-m{part['content']}"
        if not file.is_file() or file.stat().st_size != part["bytes"]:
            return Contents(why=MISSING)
        return Contents(self._named(file, self.recording.memory))

    def _cubin_file(self, number: int) -> Path:
        return self.folder / f"{self.file.stem}-c{number}"

    def _named(self, file: Path, files: dict[str, Path]) -> str:
        """Return the SHA-256 of a file, which is kept under it."""
        if file.name not in self._hashes:
            with file.open("rb") as opened:
                self._hashes[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
        sha256 = self._hashes[file.name]
        files.setdefault(sha256, file)
        return sha256


def _events(file: Path) -> Iterator[dict[str, Any]]:
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
