"""SASS written by hand: in a test, or in a file with what is counted beside each instruction.

[a title]
5 blocks of 64 threads, 0x500 bytes     what is launched, unless it is one warp with 0x1400 bytes of shared memory;
    with "+ 0x80" of dynamic shared memory; with "1 run" so many blocks stand for all, with the counts of all
! Stuck: never arrives                  the error that ends it, and what it says, a regular expression; its hint follows
> a note                                how a note of the counts begins; there are no others
name:                                   a label; {name} is its address
STS [R1], R0 ;      10 20 10        how often it is executed, its wavefronts, the ideal; ? is unknown
LDS R2, [R3] ;      10 ? "R3"       its reason mentions R3; what says nothing is not compared
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import InstructionCounts, Launch
from ncu_swizzle.emulate.run import emulate
from tests.support.places import DATA

ONE_WARP = Launch(grid=(1, 1, 1), block=(32, 1, 1))
POINTER = (1 << 40).to_bytes(8, "little")  # the parameter, at c[0x0][0x210]
_LAUNCH = re.compile(
    r"(?P<grid>\d+) blocks? of (?P<block>[\dx]+) threads?"
    r"(, (?P<bytes>0x\w+)( \+ (?P<more>0x\w+))? bytes)?(, (?P<run>\w+) run)?"
)


def code(*lines: str, shared_bytes: int = 0x4000) -> Code:
    """Return a kernel; `{name}` is the address of the line that begins with ``name:``."""
    labels = {line.split(":")[0]: hex(16 * at) for at, line in enumerate(lines) if line.split(":")[0].isidentifier()}
    texts = (line.split(": ")[-1].format(**labels) for line in lines)
    instructions = tuple(Sass(16 * at, text) for at, text in enumerate(texts))
    return Code(name="test", instructions=instructions, shared_bytes=shared_bytes)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A kernel, its launch, and what is said of each instruction, of the whole, and of the error that ends it."""

    title: str
    code: Code
    launch: Launch
    expected: tuple[str, ...]
    run: str = ""  # blocks
    notes: tuple[str, ...] = ()
    error: str = ""

    def differences(self) -> list[str]:
        """Return the instructions whose counts are not those expected, and what else differs."""
        try:
            counts = emulate(self.code, self.launch, timeout_s=0.2 if self.error.startswith("Endless") else 600)
        except NcuSwizzleError as error:
            said = f"{type(error).__name__}: {error}\n{error.hint}"
            return [] if self.error and re.match(self.error, said) else [f"{self.title}: {said}"]
        pairs = zip(counts.rows, self.expected, strict=True)
        found = [f"{row.sass} ; {_counts(row)}, not {said}" for row, said in pairs if not _is(row, said)]
        found += [f"no {self.error}"] if self.error else []
        if self.run:
            few = counts.blocks_run == int(self.run) if self.run.isdigit() else 1 < counts.blocks_run <= counts.blocks
            found += [] if few else [f"{counts.blocks_run} blocks run"]
            found += [] if counts.rows == emulate(self.code, self.launch, exhaustive=True).rows else ["all count more"]
        if not self.error:
            alike = [note[: len(said)] for note, said in zip(counts.notes, self.notes, strict=False)]
            found += [] if len(counts.notes) == len(self.notes) and alike == [*self.notes] else [f"> {counts.notes}"]
        return [f"{self.title}: {text}" for text in found]


def programs(name: str) -> Iterator[Program]:
    """Yield the programs in a file of tests/data/emulate."""
    for section in (DATA / "emulate" / f"{name}.txt").read_text(encoding="utf-8").split("\n[")[1:]:
        title, *lines = (line.split("//")[0].strip() for line in section.splitlines())
        head = [line for line in lines if line[:2] in ("! ", "> ") or _LAUNCH.fullmatch(line)]
        launched = next(filter(None, map(_LAUNCH.fullmatch, head)), None)
        said = launched.groupdict() if launched else {}
        instructions = re.sub(r":\n", ": ", "\n".join(line for line in lines if line and line not in head)).split("\n")
        sass, counted = zip(*(line.split(";") for line in instructions), strict=True)
        block = [int(size) for size in (said.get("block") or "32").split("x")]
        yield Program(
            title=title.rstrip("]"),
            code=code(*(text.strip() for text in sass), shared_bytes=int(said.get("bytes") or "0x1400", 16)),
            launch=Launch(
                grid=(int(said.get("grid") or 1), 1, 1),
                block=(*block, 1, 1)[:3],  # type: ignore[arg-type]
                shared_dynamic=int(said.get("more") or "0", 16),
                parameters=POINTER,
            ),
            expected=tuple(text.strip() for text in counted),
            run=said.get("run") or "",
            notes=tuple(line[2:] for line in head if line.startswith("> ")),
            error=next((line[2:] for line in head if line.startswith("! ")), ""),
        )


def _counts(row: InstructionCounts) -> str:
    counts = (row.executed, row.wavefronts, row.ideal)
    shown = " ".join("?" if count is None else str(count) for count in counts)
    return f'{shown} "{row.reason}"' if row.reason else shown


def _is(row: InstructionCounts, said: str) -> bool:
    counts, _, reason = said.partition('"')
    words = _counts(row).split('"')[0].split()
    return words[: len(counts.split())] == counts.split() and reason.strip('"') in row.reason
