"""Ask the compiler what is constant: statements that leave values in the PTX, in a copy of the source.

Each probe is a register in PTX, named after its number, that a value is moved to; if the compiler knows the value, it
comes from a number. So sizes, template parameters, macros and offsets need no evaluation of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from ncu_swizzle.source.edits import Edit, edited

MARK = "ncu_swizzle_probe_"  # comments do not reach the PTX that a cubin keeps
_PROBED = re.compile(rf"mov\.b32 {MARK}(\d+), (%\w+|-?\d+);")
_MOVED = re.compile(r"\bmov\.[a-z]\d+\s+(%\w+), (-?\d+);")
_ERROR = re.compile(r"^(.*)\((\d+)\): (?:catastrophic )?error", re.MULTILINE)


@dataclass(frozen=True)
class Probe:
    """An integer expression, and the byte of the source that it is evaluated before."""

    at: int
    expression: str


def probed(
    text: bytes, probes: Sequence[Probe], left_out: frozenset[int] = frozenset(), more: Sequence[Edit] = ()
) -> bytes:
    """Return the source with a statement per probe, and with more edits that let it be compiled."""
    edits: dict[int, list[str]] = {}
    for number, probe in enumerate(probes):
        if number not in left_out:
            register = f"{MARK}{number}"
            move = f"{{ .reg .b32 {register}; mov.b32 {register}, %0; }}"
            statement = f'asm volatile("{move}" :: "r"((int)({probe.expression})));'
            edits.setdefault(probe.at, []).append(statement)
    statements = [Edit(at, at, "".join(f"\n{line}\n" for line in lines)) for at, lines in edits.items()]
    return edited(text, [*statements, *more])


def refused(texts: Mapping[Path, bytes], log: str) -> frozenset[int]:
    """Return the probes, of those in the texts of some files, in whose lines the compiler found errors."""
    wrong = {(PurePath(file).name, int(number)) for file, number in _ERROR.findall(log)}
    found: set[int] = set()
    for file, text in texts.items():
        lines = text.decode("utf-8", "surrogateescape").split("\n")
        named = [number for name, number in wrong if name == file.name and 0 < number <= len(lines)]
        found |= {int(match[1]) for number in named if (match := re.search(rf"{MARK}(\d+)", lines[number - 1]))}
    return frozenset(found)


def answers(body: str) -> Mapping[int, int]:
    """Return the values in an entry's PTX, by probe; a value that differs from place to place is not one."""
    moved: dict[str, str] = {}
    found: dict[int, set[int | None]] = {}
    for number, value in _values(body, moved):
        found.setdefault(number, set()).add(value)
    return {
        number: value for number, values in found.items() for value in values if len(values) == 1 and value is not None
    }


def _values(body: str, moved: dict[str, str]) -> Iterator[tuple[int, int | None]]:
    for match in _MOVED.finditer(body):
        moved[match[1]] = match[2] if match[1] not in moved else ""
    for match in _PROBED.finditer(body):
        text = moved.get(match[2], "") if match[2].startswith("%") else match[2]
        yield int(match[1]), int(text) if text else None
