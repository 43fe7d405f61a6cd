"""The container of a .ncu-rep file: check that it is complete, and return its results; and the facts file next to it.

NVIDIA's reader silently loads damaged files, with fewer kernels or none. So this module walks the container to the last
byte: a magic number, a header, and blocks of length-prefixed protobuf messages. The layout is documented by the
``.proto`` files that Nsight Compute installs under ``extras/FileFormat``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache, paths, validate
from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.base.files import AGAIN, brief, read_bytes, read_json, write_json
from ncu_swizzle.base.validate import Amount, Count
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.reports import results
from ncu_swizzle.reports.results import Message, ModuleSource, ReportResult

MAGIC = b"NVR\0"

# Field numbers of BlockHeader: the number of messages of each type in the payload, and the session.
_SOURCES, _KERNELS, _SESSION, _STRINGS, _PAYLOAD_SIZE = 1, 2, 3, 4, 5
_PAYLOAD_ORDER = (_SOURCES, _KERNELS, *results.OTHERS)
# ReportSessionDetails; VersionInfo
_CREATED, _VERSIONS, _COMMAND = 2, 8, 11
_PROVIDER, _VERSION = 1, 2
_VERSION_NAMES = {"Nsight Compute Target": "ncu", "CUDA Version": "cuda"}


@dataclass(frozen=True, kw_only=True)
class Container:
    """The results, and the session that they come from."""

    results: tuple[ReportResult, ...]
    created: str = ""  # ISO 8601, UTC
    command: str = ""
    ncu: str = ""
    cuda: str = ""


def inspect(path: Path) -> Container:
    """Walk a whole file; raise BadFile if it is not a report, DamagedFile if it is incomplete."""
    return container_of(read_bytes(path), str(path))


def container_of(data: bytes, name: str) -> Container:
    """Walk the contents of the file of that name; see `inspect`."""
    if not data.startswith(MAGIC):
        raise BadFile(f"{name} is not an Nsight Compute report", "give a file written by ncu -o")
    try:
        return _walk(memoryview(data))
    except (ValueError, IndexError, OverflowError, OSError, struct.error) as error:
        raise DamagedFile(f"{name} is damaged: {brief(error)}", AGAIN) from error


def _walk(data: memoryview) -> Container:
    found_results: list[ReportResult] = []
    sources: dict[int, ModuleSource] = {}
    session: dict[str, str] = {}
    blocks = list(_blocks(data))
    strings = [text for header, _ in blocks for text in header.message(_STRINGS).texts(1)]
    for header, payload in blocks:
        session |= _session(header.message(_SESSION))
        for kind, content in payload:
            if kind == _SOURCES:
                reference, source = results.source(content)
                sources[reference] = sources.get(reference, ModuleSource()).merged_with(source)
            elif kind == _KERNELS:
                found_results.append(results.kernel(content, strings, sources))
            else:
                found_results.append(results.other(kind, content, strings))
    return Container(results=tuple(found_results), **session)


def _blocks(data: memoryview) -> Iterator[tuple[Message, list[tuple[int, memoryview]]]]:
    """Yield each block's header, and the type and content of each message in its payload."""
    _, position = _sized(data, len(MAGIC))
    while position < len(data):
        content, position = _sized(data, position)
        header = Message(content)
        end = position + header.number(_PAYLOAD_SIZE)
        payload = []
        for kind in _PAYLOAD_ORDER:
            for _ in range(header.number(kind)):
                content, position = _sized(data, position)
                payload.append((kind, content))
        if position != end:
            raise ValueError(f"a block ends at byte {position} instead of {end}")
        yield header, payload


def _session(details: Message) -> dict[str, str]:
    session: dict[str, str] = {}
    if _CREATED in details:
        session["created"] = datetime.fromtimestamp(details.number(_CREATED), UTC).isoformat()
    if _COMMAND in details:
        session["command"] = details.text(_COMMAND).strip()
    for version in details.messages(_VERSIONS):
        name = _VERSION_NAMES.get(version.text(_PROVIDER))
        if name:
            session[name] = version.text(_VERSION).split(" ")[0]
    return session


def _sized(data: memoryview, position: int) -> tuple[memoryview, int]:
    """Return the message at the position, which starts with its four-byte length, and the position after it."""
    (size,) = struct.unpack_from("<I", data, position)
    start, end = position + 4, position + 4 + size
    if end > len(data):
        raise ValueError(f"it ends at byte {len(data)}, {end - len(data)} bytes too early")
    return data[start:end], end


# The facts file next to one of our reports (``kernel2.facts.json``): what was launched, on what, from which sources.
# The launching program writes it, see `kernels.__main__`; the report's size and SHA-256 are added when ncu is done.


@dataclass(frozen=True)
class Facts:
    """What the launching program recorded; empty for a report that is not ours."""

    content: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def beside(cls, report: Path) -> Facts:
        path = facts_path(report)
        if not path.exists():
            return cls()
        content = read_json(path)
        problem = _wrong_facts(content)
        if problem:
            raise DamagedFile(f"{path} is damaged: {problem}", "profile the kernel again")
        return cls(content)

    def verify(self, report: Path, sha256: str) -> None:
        """Raise DamagedFile if the report's SHA-256, `sha256`, is not the recorded one."""
        sealed = self.content.get("report", {}).get("sha256")
        if sealed and sealed != sha256:
            raise DamagedFile(
                f"{report} was changed: its SHA-256 differs from the one in {facts_path(report).name}",
                AGAIN,
            )

    def relative(self, file: str) -> str:
        """Return a source's path relative to the folder it was compiled from; any other path unchanged."""
        return paths.below(file, self.content.get("source_roots", ()))


# The types of the entries that are read.
_FACTS = {
    **dict.fromkeys(("engine", "kernel", "title", "family", "commit", "digest"), str),
    **dict.fromkeys(("machine", "report"), Mapping[str, str | int]),
    **dict.fromkeys(("source_roots", "notes"), tuple[str, ...]),
    "problem": Mapping[str, Count],
    "sources": Mapping[str, str],
    "errors": Mapping[str, Mapping[str, Amount]],
    # Of kernels that Triton compiled, by the digests of their cubins, see `frontends.python_kernels`.
    "callers": Mapping[str, tuple[tuple[Count, tuple[Location, ...]], ...]],
    "ttgir": Mapping[str, str],
    "explicit": tuple[str, ...],
}


def _wrong_facts(content: Any) -> str:
    """Return what is wrong with the content of a facts file; empty if nothing is."""
    if not isinstance(content, dict):
        return "it holds no facts"
    for name, hint in _FACTS.items():
        if name in content and (mismatch := validate.check(hint)(content[name])):
            return f"{name}{mismatch}"
    if content.get("kernel") and not isinstance(content.get("report", {}).get("sha256"), str):
        return "it lacks the report's SHA-256"
    if "digest" in content and content["digest"] != facts_digest(content):
        return "it was changed after it was written"
    return ""


def facts_digest(content: Mapping[str, Any]) -> str:
    """Return the digest of everything in a facts file except the digest itself."""
    digested = {name: value for name, value in content.items() if name != "digest"}
    return cache.sha256_of_json(digested, ascii_only=True)


def seal(report: Path, notes: Sequence[str] = ()) -> None:
    """Complete the facts of a new report with its size and SHA-256, ncu's warnings, and a digest of everything."""
    path = facts_path(report)
    content = read_json(path)
    content["report"] = {"sha256": cache.sha256(report.read_bytes()), "bytes": report.stat().st_size}
    if notes:
        content["notes"] = list(notes)
    write_json(path, {**content, "digest": facts_digest(content)})


def facts_path(report: Path) -> Path:
    return report.with_suffix(".facts.json")
