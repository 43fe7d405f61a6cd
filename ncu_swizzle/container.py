"""The container of a .ncu-rep file: is it whole, and what does it say of the session?

NVIDIA's reader loads damaged files without a word, with fewer kernels or none. So the container is walked here
first: a magic number, a header, and blocks of length-prefixed protobuf messages, to the last byte. The layout is
described in the ``.proto`` files that Nsight Compute installs under ``extras/FileFormat``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ncu_swizzle.errors import BadFile, DamagedFile
from ncu_swizzle.files import brief, read_bytes

MAGIC = b"NVR\0"

# Field numbers of BlockHeader: how many messages of each type its payload holds, and what the session was.
_SOURCES, _KERNELS, _SESSION, _PAYLOAD_SIZE = 1, 2, 3, 5
_RANGES, _COMMAND_LISTS, _GRAPHS = 7, 8, 9
_PAYLOAD_ORDER = (_SOURCES, _KERNELS, _RANGES, _COMMAND_LISTS, _GRAPHS)
_WORKLOADS = {_RANGES: "range", _COMMAND_LISTS: "command list", _GRAPHS: "graph"}
# ReportSessionDetails
_CREATED, _VERSIONS, _COMMAND = 2, 8, 11
# VersionInfo; SourceData; ProfileResult; ProfilerClockStatusMessage
_PROVIDER, _VERSION = 1, 2
_REFERENCE, _BINARY = 1, 4
_MANGLED, _GRID, _BLOCK, _SOURCE, _CLOCK_STATUS = 5, 10, 11, 15, 25
_AXES = (1, 2, 3)  # Uint64x3
_LOCKED = 2
_VERSION_NAMES = {"Nsight Compute Target": "ncu", "CUDA Version": "cuda"}

Value = int | memoryview
Message = dict[int, Value]  # of a repeated field, the last value


@dataclass(frozen=True)
class Result:
    """One result: the function's mangled name, its cubin where the report carries it, its sizes, and how clocks were.

    Of a range, a graph or a command list nothing is known here but its `workload`.
    """

    workload: str = "kernel"
    function: str = ""
    cubin: bytes = b""
    clocks_locked: bool | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class Container:
    """What the container tells beside its results."""

    results: tuple[Result, ...]
    created: str = ""  # ISO 8601, UTC
    command: str = ""
    ncu: str = ""
    cuda: str = ""


def inspect(path: Path) -> Container:
    """Walk the whole file; raise BadFile where it is no report, DamagedFile where it is not whole."""
    return parse(read_bytes(path), str(path))


def parse(data: bytes, name: str) -> Container:
    """Walk what a file of that name holds; see `inspect`."""
    if not data.startswith(MAGIC):
        raise BadFile(f"{name} is not an Nsight Compute report", "give a file that ncu -o wrote")
    try:
        return _walk(memoryview(data))
    except (ValueError, IndexError, OverflowError, OSError, struct.error) as error:
        raise DamagedFile(
            f"{name} is damaged: {brief(error)}", "copy it again from where it was made, or profile again"
        ) from error


def _walk(data: memoryview) -> Container:
    results: list[Result] = []
    cubins: dict[int, bytes] = {}
    session: dict[str, str] = {}
    for header, payload in _blocks(data):
        session |= _session(_bytes(header, _SESSION))
        for kind, content in payload:
            if kind == _SOURCES:
                cubins[_number(content, _REFERENCE)] = bytes(_bytes(content, _BINARY))
            else:
                results.append(_kernel(content, cubins) if kind == _KERNELS else Result(_WORKLOADS[kind]))
    return Container(results=tuple(results), **session)


def _blocks(data: memoryview) -> Iterator[tuple[Message, list[tuple[int, Message]]]]:
    """Yield each block's header, and the messages of its payload by type."""
    _, position = _sized(data, len(MAGIC))
    while position < len(data):
        header, position = _sized(data, position)
        end = position + _number(header, _PAYLOAD_SIZE)
        payload = []
        for kind in _PAYLOAD_ORDER:
            for _ in range(_number(header, kind)):
                content, position = _sized(data, position)
                payload.append((kind, content))
        if position != end:
            raise ValueError(f"a block ends at byte {position} instead of {end}")
        yield header, payload


def _kernel(content: Message, cubins: dict[int, bytes]) -> Result:
    source = dict(fields(_bytes(content, _SOURCE)))
    clocks = dict(fields(_bytes(content, _CLOCK_STATUS)))
    return Result(
        function=_text(content.get(_MANGLED, 0)),
        cubin=cubins.get(_number(source, _REFERENCE), b""),
        clocks_locked=bool(_number(clocks, _LOCKED)) if clocks else None,
        grid=_sizes(content, _GRID),
        block=_sizes(content, _BLOCK),
    )


def _sizes(content: Message, field: int) -> tuple[int, ...]:
    value = content.get(field)
    sizes = {} if value is None or isinstance(value, int) else dict(fields(value))
    return tuple(_number(sizes, axis) for axis in _AXES) if sizes else ()


def _session(details: memoryview) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, value in fields(details):
        if number == _CREATED and isinstance(value, int):
            found["created"] = datetime.fromtimestamp(value, UTC).isoformat()
        elif number == _COMMAND:
            found["command"] = _text(value).strip()
        elif number == _VERSIONS and isinstance(value, memoryview):
            version = dict(fields(value))
            name = _VERSION_NAMES.get(_text(version.get(_PROVIDER, 0)))
            if name:
                found[name] = _text(version.get(_VERSION, 0)).split(" ")[0]
    return found


def _sized(data: memoryview, position: int) -> tuple[Message, int]:
    """Return the message at the position, its length in four bytes before it, and where it ends."""
    (size,) = struct.unpack_from("<I", data, position)
    start, end = position + 4, position + 4 + size
    if end > len(data):
        raise ValueError(f"it ends at byte {len(data)}, {end - len(data)} bytes too early")
    return dict(fields(data[start:end])), end


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field of a protobuf message; raise ValueError where it is none."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a message has a field number 0")
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == 2:
            size, position = _varint(message, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a message has a field of the unknown wire type {wire}")
        if position + size > len(message):
            raise ValueError("a field is longer than its message")
        yield number, message[position : position + size]
        position += size


def _number(message: Message, field: int) -> int:
    value = message.get(field, 0)
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def _bytes(message: Message, field: int) -> memoryview:
    value = message.get(field, memoryview(b""))
    if isinstance(value, int):
        raise ValueError(f"field {field} is a number")
    return value


def _text(value: Value) -> str:
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise ValueError("a number does not end")
