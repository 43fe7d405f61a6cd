"""The container of a .ncu-rep file: is it whole, and what does it hold?

NVIDIA's reader loads damaged files without a word, with fewer kernels or none. So the container is walked here, to
the last byte: a magic number, a header, and blocks of length-prefixed protobuf messages. The layout is described in
the ``.proto`` files that Nsight Compute installs under ``extras/FileFormat``.
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

# Field numbers of BlockHeader: how many messages of each type its payload holds, and what the session was.
_SOURCES, _KERNELS, _SESSION, _STRINGS, _PAYLOAD_SIZE = 1, 2, 3, 4, 5
_PAYLOAD_ORDER = (_SOURCES, _KERNELS, *results.OTHERS)
# ReportSessionDetails; VersionInfo
_CREATED, _VERSIONS, _COMMAND = 2, 8, 11
_PROVIDER, _VERSION = 1, 2
_VERSION_NAMES = {"Nsight Compute Target": "ncu", "CUDA Version": "cuda"}


@dataclass(frozen=True)
class Container:
    """The results, and what is told of the session."""

    results: tuple[ReportResult, ...]
    created: str = ""  # ISO 8601, UTC
    command: str = ""
    ncu: str = ""
    cuda: str = ""


def inspect(path: Path) -> Container:
    """Walk the whole file; raise BadFile where it is no report, DamagedFile where it is not whole."""
    return container_of(read_bytes(path), str(path))


def container_of(data: bytes, name: str) -> Container:
    """Walk what a file of that name holds; see `inspect`."""
    if not data.startswith(MAGIC):
        raise BadFile(f"{name} is not an Nsight Compute report", "give a file that ncu -o wrote")
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
    """Yield each block's header, and the messages of its payload by type."""
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
    """Return the message at the position, its length in four bytes before it, and where it ends."""
    (size,) = struct.unpack_from("<I", data, position)
    start, end = position + 4, position + 4 + size
    if end > len(data):
        raise ValueError(f"it ends at byte {len(data)}, {end - len(data)} bytes too early")
    return data[start:end], end
