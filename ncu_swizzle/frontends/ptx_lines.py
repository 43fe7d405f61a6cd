"""The Python lines of PTX: where each instruction comes from, and through which calls, as Triton's PTX says it.

A ``.loc`` names the innermost line alone. The callers are in its comment, by the names of files without folders; of two
files with the same name, the calls listed in ``.debug_info`` tell which is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ncu_swizzle.cubin.location import Location

AT = " @[ "  # in a comment, between what is called and its caller
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) (\d+)(?:\s*// (.*))?$")
_SAID = re.compile(r"^(.*):(\d+):(\d+)$")
_CALL = re.compile(
    r"\.b8 (\d+)\s+// DW_AT_call_file\n"
    r"\.b(?:8|32) (\d+)\s+// DW_AT_call_line\n((?:\.b8 \d+\n)*)"
    r"\.b(?:8|32) (\d+)\s+// DW_AT_call_column\n((?:\.b8 \d+\n)*)"
)
_BYTE = re.compile(r"\.b8 (\d+)")


@dataclass(frozen=True)
class Frame:
    """A line of a file, by its number in the PTX, and the column."""

    file: int
    line: int
    column: int


@dataclass(frozen=True)
class PtxLines:
    """The files of a PTX text, by number, and the calls that it lists."""

    files: Mapping[int, str]
    calls: frozenset[Frame]

    @classmethod
    def of_text(cls, ptx: str) -> PtxLines:
        files = {int(number): str(PurePosixPath(folder, name)) for number, folder, name in _FILE.findall(ptx)}
        calls = {
            Frame(int(file), _whole(line, lines), _whole(column, columns))
            for file, line, lines, column, columns in _CALL.findall(ptx)
        }
        return cls(files, frozenset(calls))

    def frames(self, line: str) -> tuple[Frame, ...]:
        """Return the frames of a line of PTX that is a ``.loc``, innermost first; without callers if one is unclear."""
        match = _LOC.match(line)
        if match is None:
            return ()
        innermost = Frame(*map(int, match.group(1, 2, 3)))
        _, *callers = (match[4] or "").split(AT)
        found = [self._caller(caller.rstrip(" ]")) for caller in callers]
        known = [each for each in found if each is not None]
        return (innermost, *known) if len(known) == len(found) else (innermost,)

    def _caller(self, said: str) -> Frame | None:
        """Return what ``name:line:column`` stands for; None if several files may be meant, or none."""
        match = _SAID.match(said)
        if match is None:
            return None
        line, column = map(int, match.group(2, 3))
        frames = [Frame(number, line, column) for number, path in self.files.items() if _name(path) == match[1]]
        if len(frames) > 1:
            frames = [frame for frame in frames if frame in self.calls]
        return frames[0] if len(frames) == 1 else None

    def stack(self, frames: Sequence[Frame]) -> tuple[Location, ...]:
        """Return frames as files and lines."""
        return tuple((self.files.get(frame.file, ""), frame.line) for frame in frames)


def stacks(ptx: str) -> dict[int, tuple[Location, ...]]:
    """Return the stack of each line of PTX that follows a ``.loc``, innermost first, by its number from 1 on."""
    return dict(_stacks(ptx))


def _stacks(ptx: str) -> Iterator[tuple[int, tuple[Location, ...]]]:
    known = PtxLines.of_text(ptx)
    stack: tuple[Location, ...] = ()
    for number, line in enumerate(ptx.split("\n"), start=1):
        if frames := known.frames(line):
            stack = known.stack(frames)
        elif stack:
            yield number, stack


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _whole(first: str, more: str) -> int:
    """Return an integer whose bytes are listed, the lowest first."""
    return sum(int(byte) << 8 * place for place, byte in enumerate((first, *_BYTE.findall(more))))
