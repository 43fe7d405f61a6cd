"""A .ncu-rep file: its container, checked to the last byte, and what each of its results holds."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache, paths, validate
from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.base.files import AGAIN, brief, read_bytes, read_json, write_json
from ncu_swizzle.base.traffic import METRICS
from ncu_swizzle.base.validate import Amount, Count
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.reports.model import EXECUTED, IDEAL, WAVEFRONTS, Finding, LaunchId, stall_reason

# One result of a .ncu-rep: names, sizes, metrics, counts per instruction, sources, findings of rules.
#
# Decoded from the messages ``ProfileResult``, ``RangeResult``, ``GraphResult`` and ``CmdlistResult``, as documented by
# the ``.proto`` files that Nsight Compute installs under ``extras/FileFormat``. Three things are not in the file: the
# units of metrics, the text of instructions and the lines that ncu shows for them; see `reader`.

# The wire format of protobuf messages, which make up a .ncu-rep; field numbers come from its ``.proto`` files.
#
# Everything raises ValueError, IndexError or struct.error if the bytes are not a valid message.

Value = int | memoryview


class Message:
    """The fields of one message by number; a missing one reads as 0 or empty, a repeated one as its last value."""

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value, _ in fields(data):
            self._fields.setdefault(number, []).append(value)

    def __bool__(self) -> bool:
        return bool(self._fields)

    def __contains__(self, field: int) -> bool:
        return field in self._fields

    def number(self, field: int) -> int:
        value = self._fields.get(field, [0])[-1]
        if not isinstance(value, int):
            raise ValueError(f"field {field} is not a number")
        return value

    def bytes(self, field: int) -> memoryview:
        return self.all_bytes(field)[-1] if field in self._fields else memoryview(b"")

    def all_bytes(self, field: int) -> list[memoryview]:
        """Return every value of a repeated field."""
        values = []
        for value in self._fields.get(field, []):
            if isinstance(value, int):
                raise ValueError(f"field {field} is a number")
            values.append(value)
        return values

    def text(self, field: int) -> str:
        return text(self.bytes(field))

    def texts(self, field: int) -> list[str]:
        return [text(value) for value in self.all_bytes(field)]

    def message(self, field: int) -> Message:
        return Message(self.bytes(field))

    def messages(self, field: int) -> list[Message]:
        return [Message(value) for value in self.all_bytes(field)]

    def float32(self, field: int) -> float:
        return float(struct.unpack("<f", self.bytes(field))[0])

    def float64(self, field: int) -> float:
        return float(struct.unpack("<d", self.bytes(field))[0])


def fields(message: memoryview, position: int = 0) -> Iterator[tuple[int, Value, int]]:
    """Yield number, value and start of each field in a message, from a field's start on; raise ValueError."""
    while position < len(message):
        start = position
        tag, position = varint(message, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a message has field number 0")
        # Wire types: 0 a varint, 1 and 5 eight and four bytes, 2 a length and that many bytes; 3 and 4 are obsolete.
        if wire == 0:
            value, position = varint(message, position)
            yield number, value, start
            continue
        if wire == 2:
            size, position = varint(message, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a message has a field of unknown wire type {wire}")
        if position + size > len(message):
            raise ValueError("a field is longer than its message")
        yield number, message[position : position + size], start
        position += size


def varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Return the number at the position, and the position after it."""
    value = shift = 0
    # 64 bits in groups of seven take ten bytes at most.
    while shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise ValueError("a number does not end")


def text(value: memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")


Number = int | float

# ProfileResult
_MANGLED, _FUNCTION, _DEMANGLED, _GRID, _BLOCK, _METRICS, _SOURCE, _RULES, _CLOCKS = 5, 6, 7, 10, 11, 13, 15, 19, 25
_AXES = (1, 2, 3)  # Uint64x3
_LOCKED = 2  # ProfilerClockStatusMessage
# The other results: the workload, and the field numbers of metrics and rule results
OTHERS = {7: ("range", 4, 20), 8: ("command list", 4, 21), 9: ("graph", 4, 22)}
# SourceData; SourceFile; RelocationSymbolEntry
_REFERENCE, _BINARY, _TARGET, _FILES, _RELOCATIONS = 1, 4, (5, 6, 7), 8, 9
_FILE_NAME, _FILE_TEXT = 1, 2
_SYMBOL, _PLACE = 1, 2
# ProfileMetricResult; ProfileMetricValue
_NAME, _VALUE, _LIST = 1, 2, 3
_STRING, _FLOAT, _DOUBLE, _UINT32, _UINT64 = 1, 2, 3, 4, 5
# RuleResult; RuleResultBodyItem; RuleResultMessage
_RULE, _BODY, _ITEMS, _MESSAGE = 1, 3, 1, 1
_SAID, _TYPE, _TITLE = 1, 2, 4
KINDS = ("none", "ok", "warning", "error", "optimization")  # RuleResultMessageType

# ProfileMetricListElement; as bytes: both are messages with one integer
_ADDRESS, _COUNT = 1, 2
_WHOLE = rb"([\x00-\x7f])[\x20\x28]([\x80-\xff]*+[\x00-\x7f])"
_ELEMENT = re.compile(rb"\x1a([\x00-\x7f])\x0a" + _WHOLE + rb"\x12" + _WHOLE, re.DOTALL)
_ALIKE = re.compile(rb"(?:" + _ELEMENT.pattern + rb")*+", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ModuleSource:
    """A module in a report: its cubin, the imported source files, and the addresses of its functions."""

    cubin: bytes = b""
    target: tuple[int, ...] = ()  # identifies the cubin's architecture for a disassembler
    files: Mapping[str, str] = field(default_factory=dict)  # texts by path
    functions: Mapping[str, int] = field(default_factory=dict)  # addresses by mangled name

    def merged_with(self, newer: ModuleSource) -> ModuleSource:
        """Return both merged: for a later result of the same code, ncu writes only what is new."""
        return ModuleSource(
            cubin=newer.cubin or self.cubin,
            target=newer.target if newer.cubin else self.target,
            files={**self.files, **newer.files},
            functions={**self.functions, **newer.functions},
        )


@dataclass(frozen=True, kw_only=True)
class ReportResult:
    """One result. `function` is the mangled name; for a range, graph or command list, that word.

    The reader numbers the `launch`, which a result does not know.

    `lists` holds the undecoded elements of the metrics that have any; see `per_instruction`.
    """

    launch: LaunchId = LaunchId()
    name: str = ""
    function: str = ""
    demangled: str = ""
    clocks_locked: bool | None = None
    source: ModuleSource = ModuleSource()
    metrics: Mapping[str, Number | str] = field(default_factory=dict)
    lists: Mapping[str, memoryview] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def cubin(self) -> bytes:
        return self.source.cubin

    @property
    def address(self) -> int:
        """The address of the function's code; 0 if unknown."""
        return self.source.functions.get(self.function, 0)

    def per_instruction(self, name: str) -> dict[int, int]:
        """Return a metric's counts by instruction address; empty if it has none."""
        return _by_address(self.lists[name]) if name in self.lists else {}

    @cached_property
    def counts(self) -> dict[str, dict[int, int]]:
        """The counts by instruction address of each metric that a profile keeps for its instructions."""
        return {name: self.per_instruction(name) for name in (EXECUTED, WAVEFRONTS, IDEAL, *METRICS.values())}

    @cached_property
    def stalls(self) -> dict[str, dict[int, int]]:
        """The warp samples by instruction address, for each stall reason."""
        return {reason: self.per_instruction(name) for name in self.lists if (reason := stall_reason(name))}

    @cached_property
    def pcs(self) -> list[int]:
        """The addresses of the instructions that have counts, in order."""
        return sorted(set().union(*self.counts.values(), *self.stalls.values()))


def source(content: memoryview) -> tuple[int, ModuleSource]:
    """Return a SourceData, and the number that results refer to it by."""
    message = Message(content)
    files = {file.text(_FILE_NAME): file.text(_FILE_TEXT) for file in message.message(_FILES).messages(1)}
    texts = {name: content for name, content in files.items() if content}
    functions = {symbol.text(_SYMBOL): symbol.number(_PLACE) for symbol in message.message(_RELOCATIONS).messages(1)}
    target = tuple(message.number(field) for field in _TARGET)
    return message.number(_REFERENCE), ModuleSource(
        cubin=bytes(message.bytes(_BINARY)), target=target, files=texts, functions=functions
    )


def kernel(content: memoryview, strings: Sequence[str], sources: Mapping[int, ModuleSource]) -> ReportResult:
    """Return a ProfileResult."""
    message = Message(content)
    clocks = message.message(_CLOCKS)
    metrics, lists = _metrics(message.all_bytes(_METRICS), strings)
    grid, block = (
        tuple(sizes.number(axis) for axis in _AXES) if (sizes := message.message(number)) else ()
        for number in (_GRID, _BLOCK)
    )
    return ReportResult(
        launch=LaunchId(grid=grid, block=block),
        name=message.text(_FUNCTION),
        function=message.text(_MANGLED),
        demangled=message.text(_DEMANGLED) or message.text(_FUNCTION),
        clocks_locked=bool(clocks.number(_LOCKED)) if clocks else None,
        source=sources.get(message.message(_SOURCE).number(_REFERENCE), ModuleSource()),
        metrics=metrics,
        lists=lists,
        findings=_findings(message.messages(_RULES)),
    )


def other(kind: int, content: memoryview, strings: Sequence[str]) -> ReportResult:
    """Return a result that is not a kernel; `kind` is its number in OTHERS."""
    message = Message(content)
    workload, metrics_field, rules_field = OTHERS[kind]
    metrics, lists = _metrics(message.all_bytes(metrics_field), strings)
    return ReportResult(
        launch=LaunchId(workload=workload),
        name=workload,
        function=workload,
        demangled=workload,
        metrics=metrics,
        lists=lists,
        findings=_findings(message.messages(rules_field)),
    )


def _metrics(
    contents: Sequence[memoryview], strings: Sequence[str]
) -> tuple[dict[str, Number | str], dict[str, memoryview]]:
    """Return the metrics' values, and the undecoded elements of those that have several."""
    values: dict[str, Number | str] = {}
    lists = {}
    for content in contents:
        name, value, elements = _metric(content)
        if value is not None:
            values[strings[name]] = value
        if elements:
            lists[strings[name]] = elements
    return values, lists


def _metric(content: memoryview) -> tuple[int, Number | str | None, memoryview]:
    """Return a ProfileMetricResult: the number of its name, its value, and everything from its first element on."""
    name, value = 0, None
    for number, field_value, start in fields(content):
        # The elements come last, tens of thousands of them: they are decoded only for the metrics that a profile keeps.
        if number == _LIST:
            return name, value, content[start:]
        if number == _NAME and isinstance(field_value, int):
            name = field_value
        elif number == _VALUE and isinstance(field_value, memoryview):
            value = _value(Message(field_value))
    return name, value, content[:0]


def _value(message: Message) -> Number | str | None:
    """Return a ProfileMetricValue."""
    if _STRING in message:
        return message.text(_STRING)
    if _FLOAT in message:
        return message.float32(_FLOAT)
    if _DOUBLE in message:
        return message.float64(_DOUBLE)
    return next((message.number(kind) for kind in (_UINT32, _UINT64) if kind in message), None)


def _by_address(elements: memoryview) -> dict[int, int]:
    """Return a metric's counts by address; empty if its elements have no addresses.

    A launch has tens of thousands of elements, nearly always of the same form: a regular expression reads those that a
    list begins with. Other fields of the metric follow them.
    """
    alike = _ALIKE.match(elements)
    end = alike.end() if alike else 0
    counts: dict[int, int] = {}
    for size, pc_size, pc, count_size, count in _ELEMENT.findall(elements[:end]):
        if size[0] != len(pc) + len(count) + 6 or pc_size[0] != len(pc) + 1 or count_size[0] != len(count) + 1:
            raise ValueError("an element of a metric has the wrong length")
        if (at := _number(pc)) in counts:
            raise ValueError(TWICE)
        counts[at] = _number(count)
    for number, element, _ in fields(elements, end):
        if number == _LIST and isinstance(element, memoryview):
            address, count = (_value(Message(element).message(field)) for field in (_ADDRESS, _COUNT))
            if not isinstance(address, int):
                return {}
            if not isinstance(count, int | float):
                raise ValueError("a count of a metric is not a number")
            if address in counts:
                raise ValueError(TWICE)
            counts[address] = int(count)
    return counts


TWICE = "a metric has two counts of an instruction"


@lru_cache(1 << 16)
def _number(written: bytes) -> int:
    """Return a decoded number; cached because addresses and small counts repeat."""
    return varint(written, 0)[0]


def _findings(rules: Sequence[Message]) -> tuple[Finding, ...]:
    """Return the messages of RuleResults."""
    kinds = dict(enumerate(KINDS))
    return tuple(
        Finding(
            rule=rule.text(_RULE),
            kind=kinds.get(message.number(_TYPE), ""),
            title=message.text(_TITLE),
            message=message.text(_SAID),
        )
        for rule in rules
        for item in rule.message(_BODY).messages(_ITEMS)
        for message in item.messages(_MESSAGE)
        if _SAID in message
    )


# The container of a .ncu-rep file: check that it is complete, and return its results; and the facts file next to it.
#
# NVIDIA's reader silently loads damaged files, with fewer kernels or none. So this module walks the container to the
# last byte: a magic number, a header, and blocks of length-prefixed protobuf messages. The layout is documented by
# the ``.proto`` files that Nsight Compute installs under ``extras/FileFormat``.

MAGIC = b"NVR\0"

# Field numbers of BlockHeader: the number of messages of each type in the payload, and the session.
_SOURCES, _KERNELS, _SESSION, _STRINGS, _PAYLOAD_SIZE = 1, 2, 3, 4, 5
_PAYLOAD_ORDER = (_SOURCES, _KERNELS, *OTHERS)
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
                reference, read = source(content)
                sources[reference] = sources.get(reference, ModuleSource()).merged_with(read)
            elif kind == _KERNELS:
                found_results.append(kernel(content, strings, sources))
            else:
                found_results.append(other(kind, content, strings))
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
