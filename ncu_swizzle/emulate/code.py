"""The machine code of one kernel, from nvdisasm's output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ncu_swizzle.errors import BadFile, UnknownKernel
from ncu_swizzle.smem.capacity import RESERVED_BYTES

STEP = 16  # bytes of an instruction

Span = tuple[int, int]  # from the first byte to before the last

_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^([.$\w][^\s:]*):\s*$")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_OTHER_SECTION = re.compile(r"^\s*\.section\s+(?!\.text\.)|^//-+ (?!\.text\.)")
_REFERENCE = re.compile(r"`\(([^()]+)\)")
_ADDRESS_HALF = re.compile(r"(?:fun|func|tex|32)@(lo|hi)\(\(?([^()\s]+)(?:\s*\+\s*([^()\s]+?))?(?:@srel)?\)?\)")
_BRANCH_TARGETS = re.compile(r"\(\*\"BRANCH_TARGETS ([^\"]+)\"\*\)")


@dataclass(frozen=True)
class Sass:
    """One instruction: its offset in bytes from the code's start, and its text with offsets in place of labels."""

    offset: int
    text: str
    targets: tuple[int, ...] = ()  # of an indirect branch, if the disassembler lists them


@dataclass(frozen=True)
class LaunchConstants:
    """Where constant bank 0 holds what a launch is: block and grid, three words each, and the end of local memory."""

    block: int = 0x0
    grid: int = 0xC
    stack: int = 0x28


# By where parameters begin: 0x160 to sm_89, 0x210 on sm_90, 0x380 from sm_100 on.
_BLACKWELL_PARAMETERS = 0x380
_BLACKWELL = LaunchConstants(0x360, 0x370, 0x37C)


@dataclass(frozen=True)
class Code:
    """One kernel's instructions, including the functions that it calls, and what is known before launch."""

    name: str
    instructions: tuple[Sass, ...]
    constants: Mapping[int, bytes] = field(default_factory=dict)  # bank → content; bank 0 comes with the launch
    shared_bytes: int = RESERVED_BYTES  # static, including the reserved bytes (the size of .nv.shared.<name>)
    parameter_offset: int = 0x210  # in constant bank 0
    parameter_bytes: int = 0
    unknown_constants: Mapping[int, Sequence[Span]] = field(default_factory=dict)  # bank → bytes that are unknown
    externals: Mapping[int, str] = field(default_factory=dict)  # address → function that is not part of the module

    @property
    def launch_constants(self) -> LaunchConstants:
        return _BLACKWELL if self.parameter_offset == _BLACKWELL_PARAMETERS else LaunchConstants()


def from_disassembly(
    text: str,
    name: str,
    *,
    constants: Mapping[int, bytes] | None = None,
    shared_bytes: int = RESERVED_BYTES,
    parameter_offset: int = 0x210,
    parameter_bytes: int = 0,
    unknown_constants: Mapping[int, Sequence[Span]] | None = None,
    symbols: Mapping[str, int] | None = None,
    externals: Mapping[int, str] | None = None,
) -> Code:
    """Return the kernel of that name from the output of ``nvdisasm -c``.

    `symbols` maps what instructions refer to by name to its address: global variables and external functions. Raises
    UnknownKernel if the text has no such kernel, BadFile if it has no instructions or a label is missing.
    """
    sections = _sections(text)
    if name not in sections:
        kernels = ", ".join(sections) or "none"
        raise UnknownKernel(f"no kernel {name!r} in the disassembly", f"its kernels: {kernels}")
    lines, labels = _joined(name, sections)
    if not lines:
        raise BadFile(f"the code of {name!r} has no instructions", "compile it again")
    return Code(
        name=name,
        instructions=tuple(_resolved(offset, body, labels, symbols or {}) for offset, body in lines),
        constants=dict(constants or {}),
        shared_bytes=shared_bytes,
        parameter_offset=parameter_offset,
        parameter_bytes=parameter_bytes,
        unknown_constants=dict(unknown_constants or {}),
        externals=dict(externals or {}),
    )


Lines = list[tuple[int, str]]
Labels = dict[str, int]


def _sections(text: str) -> dict[str, tuple[Lines, Labels]]:
    """Return each text section's instructions and labels, by function."""
    sections: dict[str, tuple[Lines, Labels]] = {}
    current: tuple[Lines, Labels] | None = None
    waiting: list[str] = []
    for line in text.splitlines():
        if match := _SECTION.match(line):
            current = sections.setdefault(match[1], ([], {}))
            waiting = []
        elif _OTHER_SECTION.match(line):
            current = None
        elif current is not None and (match := _LINE.match(line)):
            offset = int(match[1], 16)
            current[0].append((offset, match[2] + _targets_of(line)))
            current[1].update(dict.fromkeys(waiting, offset))
            waiting = []
        elif current is not None and (match := _LABEL.match(line)):
            waiting.append(match[1])
            current[1][match[1]] = current[0][-1][0] + STEP if current[0] else 0
    return sections


def _targets_of(line: str) -> str:
    match = _BRANCH_TARGETS.search(line)
    return match[0] if match and match[0] not in line.partition(";")[0] else ""


def _joined(name: str, sections: dict[str, tuple[Lines, Labels]]) -> tuple[Lines, Labels]:
    """Return the kernel's instructions, followed by those of other sections that it refers to, and all labels."""
    lines: Lines = []
    labels: Labels = {}
    waiting, seen = [name], {name}
    while waiting:
        function = waiting.pop(0)
        body, own = sections[function]
        start = lines[-1][0] + STEP if lines else 0
        lines += [(start + offset, text) for offset, text in body]
        labels |= {label: start + offset for label, offset in own.items()} | {function: start}
        for _, text in body:
            referred = {match[1] for match in _REFERENCE.finditer(text)}
            referred |= {match[2] for match in _ADDRESS_HALF.finditer(text)}
            for other in sorted(referred & sections.keys() - seen):
                seen.add(other)
                waiting.append(other)
    return lines, labels


def _resolved(offset: int, text: str, labels: Labels, symbols: Mapping[str, int]) -> Sass:
    def address_of(label: str) -> int:
        label = label.removeprefix(".text.").removesuffix("@srel")
        if label in labels:
            return labels[label]
        if label in symbols:
            return symbols[label]
        raise BadFile(f"the disassembly has no label {label!r}, which {text!r} refers to", "disassemble it again")

    def half(match: re.Match[str]) -> str:
        whole = (
            address_of(match[2]) if match[3] is None else address_of(match[3])
        )  # a label is counted from its function
        return f"{whole >> 32 if match[1] == 'hi' else whole & 0xFFFFFFFF:#x}"

    listed = _BRANCH_TARGETS.search(text)
    targets = tuple(address_of(label.strip()) for label in listed[1].split(",")) if listed else ()
    text = _BRANCH_TARGETS.sub("", text)
    text = _ADDRESS_HALF.sub(half, text)
    text = _REFERENCE.sub(lambda match: f"{address_of(match[1]):#x}", text)
    return Sass(offset, " ".join(text.split()), targets)
