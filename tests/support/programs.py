"""SASS written by hand: in a test, or in a file with what is counted beside each instruction.

[a title]
5 blocks of 64 threads, 0x500 bytes     what is launched, unless it is one warp with 0x1400 bytes of shared memory
name:                                   a label; {name} is its address
STS [R1], R0 ;      10 20 10        how often it is executed, its wavefronts, the ideal; ? is unknown
LDS R2, [R3] ;      10 ? "R3"       its reason mentions R3; what says nothing is not compared
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import InstructionCounts, Launch
from ncu_swizzle.emulate.run import emulate
from tests.support.places import DATA

ONE_WARP = Launch(grid=(1, 1, 1), block=(32, 1, 1))
POINTER = (1 << 40).to_bytes(8, "little")  # the parameter, at c[0x0][0x210]
_LAUNCH = re.compile(r"(\d+) blocks? of (\d+) threads?(?:, (\w+) bytes)?")


def code(*lines: str, shared_bytes: int = 0x4000) -> Code:
    """Return a kernel; `{name}` is the address of the line that begins with ``name:``."""
    labels = {line.split(":")[0]: hex(16 * at) for at, line in enumerate(lines) if line.split(":")[0].isidentifier()}
    texts = (line.split(": ")[-1].format(**labels) for line in lines)
    instructions = tuple(Sass(16 * at, text) for at, text in enumerate(texts))
    return Code(name="test", instructions=instructions, shared_bytes=shared_bytes)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A kernel, its launch, and what is said of each instruction."""

    title: str
    code: Code
    launch: Launch
    expected: tuple[str, ...]

    def differences(self) -> list[str]:
        """Return the instructions whose counts are not those expected."""
        rows = emulate(self.code, self.launch).rows
        pairs = zip(rows, self.expected, strict=True)
        return [f"{self.title}: {row.sass} ; {_counts(row)}, not {said}" for row, said in pairs if not _is(row, said)]


def programs(name: str) -> Iterator[Program]:
    """Yield the programs in a file of tests/data/emulate."""
    for section in (DATA / "emulate" / f"{name}.txt").read_text(encoding="utf-8").split("\n[")[1:]:
        title, *lines = (line.split("//")[0].strip() for line in section.splitlines())
        blocks, threads, size = 1, 32, 0x1400
        if launch := _LAUNCH.fullmatch(lines[0]):
            blocks, threads, size = int(launch[1]), int(launch[2]), int(launch[3] or "0x1400", 16)
            lines = lines[1:]
        instructions = re.sub(r":\n", ": ", "\n".join(filter(None, lines))).split("\n")
        sass, said = zip(*(line.split(";") for line in instructions), strict=True)
        yield Program(
            title=title.rstrip("]"),
            code=code(*(text.strip() for text in sass), shared_bytes=size),
            launch=Launch(grid=(blocks, 1, 1), block=(threads, 1, 1), parameters=POINTER),
            expected=tuple(text.strip() for text in said),
        )


def _counts(row: InstructionCounts) -> str:
    counts = (row.executed, row.wavefronts, row.ideal)
    shown = " ".join("?" if count is None else str(count) for count in counts)
    return f'{shown} "{row.reason}"' if row.reason else shown


def _is(row: InstructionCounts, said: str) -> bool:
    counts, _, reason = said.partition('"')
    words = _counts(row).split('"')[0].split()
    return words[: len(counts.split())] == counts.split() and reason.strip('"') in row.reason
