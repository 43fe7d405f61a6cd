"""What the stand-in for CUDA's runtime wrote, as launches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncu_swizzle import digest
from ncu_swizzle.capture.recorded import Recording, captured_launch, contents_of, events
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.launches.model import Contents

INITIAL = "initial"  # a variable that nobody has written yet
OF_CONSTANTS, OF_GLOBALS = ".nv.constant3", (".nv.global.init", ".nv.global")


def read(folder: Path, kernels: Mapping[int, Mapping[str, Cubin]], most: int) -> Recording:
    """Return the launches; `kernels` are those of the program's fat binaries by checksum and name."""
    recording = Recording()
    for file in sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem)):
        for event in events(file):
            if event["is"] == "dry" and len(recording.launches) < most:
                cubin = kernels[event["binary"]][event["kernel"]]
                _add(recording, folder, file.stem, event, cubin)
            elif event["is"] == "problem":
                recording.problems.append(event["text"])
            elif event["is"] == "end":
                recording.seen += event["seen"]
    return recording


def _add(recording: Recording, folder: Path, process: str, event: dict[str, Any], cubin: Cubin) -> None:
    sha256 = digest.sha256(cubin.data)
    if sha256 not in recording.cubins:
        recording.cubins[sha256] = _kept(folder, sha256, cubin.data)

    def contents(part: dict[str, Any]) -> Contents:
        if part["content"] is None and part["why"] == INITIAL:
            initial = _initial(cubin, part["name"], part["bytes"])
            if initial is None:
                return Contents(why="its cubin does not say what it holds")
            own = digest.sha256(initial)
            recording.memory.setdefault(own, _kept(folder, own, initial))
            return Contents(own)
        return contents_of(part, folder, process, recording.memory)

    recording.launches.append(captured_launch(len(recording.launches), event, sha256, contents))


def _kept(folder: Path, sha256: str, content: bytes) -> Path:
    file = folder / sha256
    file.write_bytes(content)
    return file


def _initial(cubin: Cubin, name: str, size: int) -> bytes | None:
    """Return what a variable holds when its module is loaded; None if the cubin has no such variable."""
    for symbol in cubin.symbols:
        if symbol.name == name and symbol.size == size and symbol.section in (OF_CONSTANTS, *OF_GLOBALS):
            content = cubin.section(symbol.section)
            return content[symbol.offset : symbol.offset + size] if content else bytes(size)
    return None
