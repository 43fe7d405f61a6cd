"""Two versions of a program on the CPU, compiled by g++ with adversary/shim.h: do all launches give the same?"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.attacks.adversary_kernels import Launch, Program

SHIM = Path(__file__).resolve().parent / "adversary" / "shim.h"
COMPILER = ("g++", "-std=c++17", "-w")
_FOLDER = tempfile.TemporaryDirectory(prefix="adversary-shim-")
RUNNING = "-O0"  # of optimization
LEVELS = (RUNNING,)
WORTH_IT = 10  # pairs for which the shim is compiled beforehand
SAME, DIFFERENT, CRASHED, FAILS, REJECTED = "same", "differ", "crashed", "fails", "rejected"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A program with another version of its source."""

    name: str  # an identifier
    program: Program
    after: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a pair: the worst word of its launches, and the launch.

    A patch may state that a size must be a multiple of something: launches against that do not count.
    """

    word: str = SAME
    launch: Launch | None = None
    described: bool = False  # it differs in the described launch, too, where the proof sees it
    said: str = ""

    @property
    def wrong(self) -> bool:
        """Whether a launch gives something else."""
        return self.word in (DIFFERENT, CRASHED)


def verdicts(pairs: Sequence[Pair], folder: Path, timeout_s: float = 300) -> dict[str, Verdict]:
    """Compile all pairs into one executable, run it, and return what became of each by its name.

    What g++ rejects is left out of the next try, and REJECTED; a program that fails by itself FAILS, a fault of ours.
    """
    rejected: dict[str, Verdict] = {}
    left = list(pairs)
    while left:
        source, program = folder / "pairs.cpp", folder / "pairs"
        source.write_text(unit(left), encoding="utf-8")
        command = [*COMPILER, RUNNING, "-include", _shim_for(pairs), source, "-o", program]
        made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
        if made.returncode == 0:
            ran = subprocess.run([program], check=False, capture_output=True, text=True, timeout=timeout_s)
            return rejected | _judged(left, ran.stdout)
        bad = dict(reversed(re.findall(r"^(\w+):\d+:\d+: error: (.*)", made.stderr, re.MULTILINE)))
        if not bad:
            raise RuntimeError(made.stderr[:2000])
        for pair in left:
            if f"{pair.name}_after" in bad:
                rejected[pair.name] = Verdict(word=REJECTED, said=bad[f"{pair.name}_after"])
            elif f"{pair.program.name}_before" in bad:
                rejected[pair.name] = Verdict(word=FAILS, said=bad[f"{pair.program.name}_before"])
        left = [pair for pair in left if pair.name not in rejected]
    return rejected


def _shim_for(pairs: Sequence[Pair]) -> Path:
    return shim(RUNNING) if len(pairs) >= WORTH_IT or shim.cache_info().currsize else SHIM


@functools.cache
def shim(level: str) -> Path:
    """Return the shim, compiled beforehand for a level of optimization; both go when this process ends."""
    header = Path(_FOLDER.name) / f"{level.strip('-')}-{os.getpid()}" / SHIM.name  # forked workers share the folder
    header.parent.mkdir()
    shutil.copy(SHIM, header)
    subprocess.run([*COMPILER, level, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return header


def unit(pairs: Iterable[Pair]) -> str:
    """Return a translation unit that compares pairs."""
    parts, calls = [], []
    for made in {pair.program.name: pair.program for pair in pairs}.values():
        parts.append(in_namespace(f"{made.name}_before", made.text))
    for pair in pairs:
        parts.append(in_namespace(f"{pair.name}_after", pair.after))
        for number, launch in enumerate(launches(pair.program)):
            entries = f"{pair.program.name}_before::{launch.entry}, {pair.name}_after::{launch.entry}"
            case = (
                f"{{{{{launch.blocks}, 1, 1}}, {{32, 8, 1}}, shim::RANDOM, shim::{launch.other}, "
                f"{launch.n}, {launch.flag}, {launch.seed}}}"
            )
            calls.append(f'shim::compare<{pair.program.element}>("{pair.name}", {number}, {entries}, {case});')
    lines = "\n    ".join(calls)
    return "".join(parts) + f'\n#line 1 "main"\nint main() {{\n    {lines}\n}}\n'


def launches(program: Program) -> tuple[Launch, ...]:
    """Return the launches of a program, the described one first."""
    return (program.described, *program.others)


def in_namespace(name: str, text: str) -> str:
    """Return a CUDA text as C++ in a namespace; the compiler's messages name it."""
    text = re.sub(r"^#include.*$", "", text, flags=re.MULTILINE)
    # Dynamic shared memory has no name that a linker knows here.
    text = re.sub(r"extern\s+__shared__\s+([\w ]+?)\s*(\w+)\[\];", r"\1 *\2 = (\1 *)shim::dynamic;", text)
    macros = re.findall(r"^#\s*define\s+(\w+)", text, re.MULTILINE)
    undone = "".join(f"#undef {macro}\n" for macro in macros)
    return f'\nnamespace {name} {{\n#line 1 "{name}"\n{text}\n}}\n{undone}'


def _judged(pairs: Sequence[Pair], output: str) -> dict[str, Verdict]:
    said: dict[str, list[tuple[int, str]]] = {pair.name: [] for pair in pairs}
    for name, number, word in re.findall(r"^(\w+) (\d+) (\w+)$", output, re.MULTILINE):
        said[name].append((int(number), word))
    found = {}
    for pair in pairs:
        every = launches(pair.program)
        stated = re.search(r"// .*\bn must be a multiple of (\d+)", pair.after)
        least = int(stated[1]) if stated else 1
        said[pair.name] = [
            (at, word if every[at].n % least == 0 or word == FAILS else SAME) for at, word in said[pair.name]
        ]
        words = [word for _, word in said[pair.name]]
        worst = next((word for word in (FAILS, DIFFERENT, CRASHED) if word in words), SAME)
        if len(words) < len(every):
            worst = FAILS
        first = next((number for number, word in said[pair.name] if word == worst), 0)
        described = (0, SAME) not in said[pair.name]
        found[pair.name] = Verdict(word=worst, launch=every[first], described=described)
    return found
