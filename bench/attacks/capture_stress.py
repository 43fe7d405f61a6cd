"""Whether ``capture --dry`` accounts for every launch.

``python3 bench/attacks/capture_stress.py [--runs 1000] [--seed 1]``.

A program launches from threads, forks and programs that it execs, closes descriptors that are not its own, asks for
what no device does, ends by exit, _exit and crashes, and counts what it launched (tests/data/runtime/stress.cu). Of
each run, the launches that were kept and those that the notes count must be as many; a call that a kill cut off may be
among them or not. Each launch that was kept must have its own contents, the program's files what it wrote, and no
process may be left. Needs nvcc, no GPU. Prints what was wrong with each run, then a line; ends with 1 if anything was.

"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError, NothingProfiled
from ncu_swizzle.capture.launches import LaunchesFile, open_launches
from ncu_swizzle.commands import profile
from ncu_swizzle.commands.profile import Wanted
from ncu_swizzle.commands.run_program import UserProgram
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain

SOURCE = ROOT / "tests" / "data" / "runtime" / "stress.cu"
TALLY = struct.Struct("=5Q")
COUNTS = (2, 15, 1000)  # of -c, in turn
WORDS = 8  # of a launch's table, each the launch's number
_NOTED = re.compile(
    r"\b(A|[\d,]+) launch(?:es)?(?: of \S+)? (?:was|were) (?:left out|refused|lost)|launched ([\d,]+) more"
)


@dataclass(kw_only=True)
class Run:
    """What the program counted, what was kept and noted of it, and what was wrong."""

    begun: int = 0
    returned: int = 0
    refused: int = 0
    kept: int = 0
    noted: int = 0
    wrong: str = ""


def built(folder: Path) -> Path:
    """Compile the program; return its path."""
    nvcc = str(Toolchain().find(NVCC))
    words = [nvcc, "-arch=sm_90", "-cudart", "shared", "-o", "stress", str(SOURCE)]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "stress"


def run(program: Path, folder: Path, seed: int) -> Run:
    """Capture one run in the folder, which is empty, and compare."""
    tally, out = folder / "tally", folder / "stress.launches"
    tally.write_bytes(bytes(TALLY.size))
    wanted = Wanted(launch_count=COUNTS[seed % len(COUNTS)], memory_limit=64, dry=True)
    found = Run()
    try:
        manifest = profile.captured(
            UserProgram((str(program), str(tally), str(seed)), folder), wanted, Request(timeout_s=120), out
        )
        found.kept = len(manifest.launches)
        found.noted = sum(map(noted, manifest.notes))
        with open_launches(out) as file:
            found.wrong = "; ".join(foreign(file))
    except NothingProfiled as error:
        found.noted = noted(str(error))
    except NcuSwizzleError as error:
        found.wrong = str(error)
    found.begun, found.returned, found.refused, wrong_answers, _ = TALLY.unpack(tally.read_bytes())
    if not found.returned <= found.kept + found.noted <= found.begun:
        found.wrong += f"; {found.kept} kept, {found.noted} noted, {found.returned} to {found.begun} launched"
    if wrong_answers:
        found.wrong += f"; {wrong_answers} answers that no device gives"
    if others := [file.name for file in folder.glob("own-*.txt") if file.read_bytes() != b"mine\n"]:
        found.wrong += f"; somebody wrote to {others[0]}"
    if left := [*running(folder)]:
        found.wrong += f"; still running: {left}"
    return found


def noted(text: str) -> int:
    """Return how many launches are counted in a note, or in several."""
    numbers = (one or more for one, more in _NOTED.findall(text))
    return sum(1 if number == "A" else int(number.replace(",", "")) for number in numbers)


def foreign(file: LaunchesFile) -> Iterator[str]:
    """Yield what is wrong with the launches: each has a number, and a table that holds it."""
    numbers = []
    for launch in file.manifest.launches:
        number = launch.parameters[1].bytes
        numbers.append(number)
        (table,) = launch.buffers
        if not table.contents.sha256:
            yield f"launch {launch.index} has no contents: {table.contents.why}"
        elif file.memory(table.contents.sha256) != number * WORDS:
            yield f"launch {launch.index} has the contents of another"
    if len(set(numbers)) < len(numbers):
        yield "a launch is there twice"


def running(folder: Path) -> Iterator[int]:
    """Yield the processes that work in a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder:
                yield int(process.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the following ones count on")
    arguments = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory(prefix="capture-stress-") as temporary:
        program = built(Path(temporary))
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            folder = Path(temporary) / str(seed)
            folder.mkdir()
            runs.append(run(program, folder, seed))
            shutil.rmtree(folder)
            if runs[-1].wrong:
                print(f"seed {seed}: {runs[-1].wrong.removeprefix('; ')}", flush=True)
    begun, returned, refused, kept, noted = (
        sum(getattr(one, name) for one in runs) for name in ("begun", "returned", "refused", "kept", "noted")
    )
    wrong = sum(bool(one.wrong) for one in runs)
    print(
        f"{len(runs)} runs from seed {arguments.seed}: {begun:,} launches begun, {begun - returned:,} of them cut off, "
        f"{refused:,} refused; {kept:,} kept and {noted:,} noted; {wrong} runs wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
