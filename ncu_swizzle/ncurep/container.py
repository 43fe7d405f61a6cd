"""The container of a .ncu-rep file: check that it is complete, and return its results.

NVIDIA's reader silently loads damaged files, with fewer kernels or none. So this module walks the container to the
last byte: a magic number, a header, and blocks of length-prefixed protobuf messages. The layout is documented by the
``.proto`` files that Nsight Compute installs under ``extras/FileFormat``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ncu_swizzle.errors import BadFile, DamagedFile
from ncu_swizzle.files import AGAIN, brief, read_bytes
from ncu_swizzle.ncurep import results
from ncu_swizzle.ncurep.protobuf import Message
from ncu_swizzle.ncurep.results import ModuleSource, ReportResult

MAGIC = b"NVR\0"

# Field numbers of BlockHeader: the number of messages of each type in the payload, and the session.
_SOURCES, _KERNELS, _SESSION, _STRINGS, _PAYLOAD_SIZE = 1, 2, 3, 4, 5
_PAYLOAD_ORDER = (_SOURCES, _KERNELS, *results.OTHERS)
# ReportSessionDetails; VersionInfo
_CREATED, _VERSIONS, _COMMAND = 2, 8, 11
_PROVIDER, _VERSION = 1, 2
_VERSION_NAMES = {"Nsight Compute Target": "ncu", "CUDA Version": "cuda"}


@dataclass(frozen=True)
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
                sources[reference] = sources.get(reference, ModuleSource()).updated(source)
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
