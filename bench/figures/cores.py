"""All cores, first results in seconds, nothing lost: ``python3 bench/figures/cores.py [--cores N …] [--kills 50]``.

A launches file with sixteen equal launches is profiled without the cache on one core, once, and on N (2, and 16 or as
many as there are) ROUNDS times, and the ratio with the median is printed, next to how many times as soon so many loops
without ncu-swizzle end at once as one after the other: what a machine calls cores may be hyperthreads, or shared with
others. They are PyTorch's sorts of two rows as an H100 ran them; ``--of FILE:NUMBER`` takes another launch. Of launches
that take two or three seconds, what is not spread over cores (loading, the first disassembly, the page) is a large
share. Before that, it prints how long it takes until the first row of sixteen scans is there, and of PyTorch's ten
kernels, six times. Then the command is killed at random moments, KILLS times, as it profiles the scans, its workers are
looked for, and the same command goes on: each profile that was there has to be there afterwards, as it was, and in the
end what is printed has to be what a run prints that nothing ended. With ``--file FILE`` it profiles another file once,
on all cores, and compares with ncu's counts in FILE's .counts.json.xz beside it, if they are there. Ends with 1 if
something is lost, left or different, if a ratio is below its bar, 1.75 on two cores and 9 on sixteen, or if a first row
takes more than 3 s.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import os
import random
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.capture.launches import open_launches, write
from ncu_swizzle.reports import run_folder

RECORDED = ROOT / "tests" / "data" / "launches" / "torch.launches"
LAUNCHES = 16
BARS = {2: 1.75, 16: 9.0}
MARK = "NCU_SWIZZLE_BENCH_CORES"
FIRST_S = 3.0
ROW = re.compile(r"^\d+ .*: .*excessive wavefronts|^\d+ .*: unknown")
FEW = 2  # cores: a run takes a minute, and is not repeated
# What the emulator does most: small arrays, and Python between them.
LOOP = """
import time, numpy as np
a, b = np.arange(384, dtype=np.uint32).reshape(12, 32), np.ones((12, 32), bool)
began = time.perf_counter()
for number in range(400_000):
    c = np.where(b, a + np.uint32(number), a)
    b = (c & np.uint32(1)).astype(bool) | b
print(time.perf_counter() - began)
"""

SORT, SCAN = 0, 4  # of those recorded
TIMES = 6  # that all of them are in a file: 60 launches


def repeated(out: Path, recorded: Path, number: int | None = None) -> Path:
    """Write a file with one launch of another sixteen times, or with all of them six times."""
    with open_launches(recorded) as file, tempfile.TemporaryDirectory() as scratch:
        launches = file.manifest.launches * TIMES if number is None else (file.manifest.launches[number],) * LAUNCHES
        memory = {}
        for digest in {each.sha256 for launch in launches for each in launch.contents if each.sha256}:
            memory[digest] = Path(scratch) / digest
            memory[digest].write_bytes(file.memory(digest))
        cubins = {launch.cubin: file.cubin(launch.cubin) for launch in launches}
        manifest = replace(
            file.manifest,
            launches=tuple(replace(launch, index=index, outputs=()) for index, launch in enumerate(launches)),
            cubins={digest: len(cubin) for digest, cubin in cubins.items()},
            memory={digest: path.stat().st_size for digest, path in memory.items()},
        )
        write(out, manifest, cubins, memory)
    return out


def whole_cores(number: int) -> list[int]:
    """Return so many processors, on cores of their own: a virtual machine may not say which share one.

    Those are neighbours, or the first and the second half of all.
    """
    usable = sorted(os.sched_getaffinity(0))
    first: dict[str, int] = {}
    for processor in usable:
        siblings = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        core = siblings.read_text(encoding="ascii") if siblings.exists() else str(processor)
        first.setdefault(core, processor)
    whole = [*first.values(), *(each for each in usable if each not in first.values())]
    half = whole[: len(whole) // 2]
    apart = next((each for each in (half[::2], half) if len(each) >= number), whole)
    return apart[:: max(1, len(apart) // number)][:number]


def ceiling(cores: int) -> float:
    """Return how many times as soon so many processes end at once as one after the other, with nothing of ours."""

    def seconds(many: int) -> float:
        started = []
        for core in whole_cores(many):
            started.append(subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True))
            os.sched_setaffinity(started[-1].pid, [core])
        return max(float(process.communicate()[0]) for process in started)

    return cores * min(seconds(1) for _ in range(3)) / seconds(cores)


class Command:
    """``profile`` of a file into a folder, on so many cores of this machine."""

    def __init__(self, file: Path, folder: Path, cores: int, environment: dict[str, str], *more: str) -> None:
        path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self._words = [sys.executable, "-m", "ncu_swizzle", "profile", str(file), "-o", str(folder), *more]
        self._words += ["--jobs", str(cores)]
        self._cores = whole_cores(cores)
        self._environment = {**os.environ, **environment, "PYTHONPATH": path}

    def start(self) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            self._words, env=self._environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        os.sched_setaffinity(started.pid, self._cores)  # which those that it starts inherit
        return started

    def first_row(self) -> float:
        """Run it until its first row is there, and return the seconds that this takes."""
        began = time.monotonic()
        with self.start() as started:
            assert started.stderr is not None
            row = started.stderr.readline()
            first_s = time.monotonic() - began
            started.kill()
        if not ROW.search(row):
            sys.exit(f"{self._words} printed {row!r} first")
        return first_s

    def run(self) -> tuple[float, float, str]:
        """Run it; return the seconds that it took, those until its first row, and what it printed."""
        began = time.monotonic()
        with self.start() as started:
            assert started.stderr is not None
            assert started.stdout is not None
            first = started.stderr.readline()
            first_s = time.monotonic() - began
            rest = started.stderr.read()
            printed = started.stdout.read()
        if started.returncode:
            sys.exit(f"{self._words} ended with {started.returncode}:\n{first}{rest}")
        return time.monotonic() - began, first_s, printed


def ratios(file: Path, scratch: Path, cores: Sequence[int], rounds: int) -> bool:
    """Print the ratios; return whether all are as good as they have to be."""
    seconds: dict[int, list[float]] = {}
    for many in sorted({1, *cores}, key=lambda many: (many == FEW, -many)):  # the least certain first
        for number in range(rounds if many > FEW else 1):
            took = Command(file, scratch / f"{many}-{number}", many, {}, "--no-cache").run()[0]
            seconds.setdefault(many, []).append(took)
            print(f"{LAUNCHES} launches: {took:.2f} s on {many}", flush=True)
    good = True
    for many in cores:
        ratio, bar = seconds[1][0] / statistics.median(seconds[many]), BARS.get(many)
        most = f"; {many} loops over small arrays, without ncu-swizzle: {ceiling(many):.2f} times"
        print(f"{many} cores: {ratio:.2f} times as fast as one{f' (at least {bar})' if bar else ''}{most}", flush=True)
        good &= bar is None or ratio >= bar
    return good


def first_row(file: Path, scratch: Path) -> bool:
    """Print when the first row of short launches is there, on all cores; return whether that is soon enough."""
    cores = len(os.sched_getaffinity(0))
    commands = [Command(file, scratch / f"{file.stem}-{number}", cores, {}, "--no-cache") for number in range(3)]
    taken = sorted(command.first_row() for command in commands)
    said = ", ".join(f"{each:.2f}" for each in taken)
    print(f"{file.stem}: the first row after {said} s on {cores} cores (at most {FIRST_S})", flush=True)
    return statistics.median(taken) <= FIRST_S


def kills(file: Path, scratch: Path, times: int) -> bool:
    """Kill the command at random moments; print and return whether nothing was lost or left."""
    mark, cores = secrets.token_hex(8), 2
    took, _, whole = Command(file, scratch / "whole", cores, {MARK: mark}, "--no-cache").run()
    lost = left = finished = runs = 0
    folder, before = scratch / "killed-0", dict[Path, bytes]()
    draw = random.Random(1)
    for number in range(times):
        started = Command(file, folder, cores, {MARK: mark}, "--no-cache").start()
        time.sleep(draw.uniform(0, took))
        started.send_signal(signal.SIGKILL)
        started.communicate()
        left += not_gone(mark)
        now = {path: path.read_bytes() for path in folder.glob("[0-9]*.json")}
        lost += sum(now.get(path) != content for path, content in before.items())
        finished += len(now.keys() - before.keys())
        before = now
        if (folder / "run.json").is_file() and '"rows"' in (folder / "run.json").read_text(encoding="utf-8"):
            runs, folder, before = runs + 1, scratch / f"killed-{number + 1}", {}
    if before:
        _, _, printed = Command(file, folder, cores, {MARK: mark}, "--no-cache").run()
        same = re.sub(r"killed-\d+", "whole", printed) == whole
        lost += sum(path.read_bytes() != content for path, content in before.items())
    else:
        same = True
    print(
        f"killed {times} times: {finished} launches finished, {lost} of them lost, {left} processes left, "
        f"{runs} runs finished in between; what the last one printed is {'the same' if same else 'DIFFERENT'}",
        flush=True,
    )
    return same and not lost and not left


def counts_of(file: Path) -> Path:
    return file.with_suffix(".counts.json.xz")


def as_counted(file: Path, folder: Path) -> bool:
    """Print how many accesses of a run are counted as ncu counted them; return whether none is different."""
    theirs = json.loads(lzma.decompress(counts_of(file).read_bytes()))
    verdicts: Counter[str] = Counter()
    for profile in run_folder.load(folder).subjects:
        rows = {each.pc: each for each in profile.instructions}
        for offset, (_, *numbers) in theirs[profile.launch.index][1].items():
            row = rows[int(offset)]
            known = [row.executed, row.wavefronts, row.ideal]
            verdicts["unknown" if None in known else "equal" if known == numbers else "different"] += 1
    print(f"accesses as ncu counts them: {', '.join(f'{number} {verdict}' for verdict, number in verdicts.items())}")
    return not verdicts["different"]


def not_gone(mark: str) -> int:
    """Return how many processes with a mark in their environment still run, five seconds after the command."""
    deadline = time.monotonic() + 5
    while (number := sum(1 for _ in marked(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return number


def marked(mark: str) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.name != str(os.getpid()) and f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                yield int(process.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = len(os.sched_getaffinity(0))
    parser.add_argument("--cores", type=int, nargs="*", default=sorted({2, min(here, 16)}))
    parser.add_argument("--of", default=f"{RECORDED}:{SORT}", metavar="FILE:NUMBER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ncu-swizzle-cores-") as name:
        scratch = Path(name)
        if given.file:
            took, first, printed = Command(given.file, scratch / "file", here, {}, "--no-cache").run()
            print(f"{printed}\n{given.file.name}: {took:.1f} s on {here} cores, the first row after {first:.1f} s")
            sys.exit(counts_of(given.file).exists() and not as_counted(given.file, scratch / "file"))
        scans = repeated(scratch / "scans.launches", RECORDED, SCAN)
        good = first_row(scans, scratch)
        good &= first_row(repeated(scratch / "kernels.launches", RECORDED), scratch)
        recorded, _, number = given.of.rpartition(":")
        if given.cores:
            file = repeated(scratch / "many.launches", Path(recorded), int(number))
            good &= ratios(file, scratch, given.cores, given.rounds)
        good &= not given.kills or kills(scans, scratch, given.kills)
    sys.exit(not good)


if __name__ == "__main__":
    main()
