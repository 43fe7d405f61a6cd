"""Capturing programs, on a GPU: what it costs, and their replay next to ncu's counts.

``python3 bench/figures/capture.py``.

Programs of different kinds are run plainly and while they are captured, in turn, and once under ncu; then each captured
launch is replayed, and each instruction that accesses shared memory is compared with ncu's count. Prints a line per
program, then the reasons of what is unknown. Ends with 1 if anything differs. ``--record FOLDER`` also keeps small
files of launches there, and ncu's counts of them. The programs are copied to a neutral folder and run there.

"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture import running
from ncu_swizzle.capture.running import MIB, CaptureLimits
from ncu_swizzle.commands import profile as capture
from ncu_swizzle.commands.profile import Wanted
from ncu_swizzle.commands.run_program import UserProgram
from ncu_swizzle.engines import reader, replay
from ncu_swizzle.engines.replay import ReplaySettings
from ncu_swizzle.engines.settings import Request, silent
from ncu_swizzle.reports.model import Profile

PROGRAMS = ROOT / "tests" / "data" / "programs"
NEUTRAL = Path("/tmp/ncu-swizzle/capture")
LIMITS = CaptureLimits(count=40, timeout_s=120)
MEMORY = CaptureLimits(count=40, timeout_s=120, memory_bytes=256 * MIB)
RECORDED_BYTES = 100_000
LOOP = (
    "import torch; x = torch.zeros(1024, device='cuda'); [x.add_(1) for _ in range(100000)]; torch.cuda.synchronize()"
)

Nvcc = tuple[str, ...]
STATIC: Nvcc = ("-lineinfo", "-arch=sm_90")


@dataclass(frozen=True)
class Program:
    """A program to measure: what it is, how it is built and run; `counted` if ncu is to count it."""

    kind: str
    argv: tuple[str, ...]
    builds: tuple[Nvcc, ...] = ()
    counted: bool = True


def _built(name: str, *options: str, out: str = "") -> Nvcc:
    return (*STATIC, *options, "-o", out or name, f"{name}.cu")


MEASURED: Mapping[str, Program] = {
    "several": Program("C++, static runtime", ("./several", "--size", "512"), (_built("several"),)),
    "several-shared": Program(
        "C++, shared runtime", ("./several-shared", "--size", "512", "--pad"),
        (_built("several", "-cudart", "shared", out="several-shared"),),
    ),
    "graph": Program("CUDA graph", ("./several", "--size", "512", "--graph"), (_built("several"),)),
    "driver": Program(
        "driver API", ("./driver",), (_built("driver", "-lcuda"), _built("driver", "-cubin", out="driver.cubin")),
    ),
    "counting": Program("histogram, __constant__", ("./counting",), (_built("counting"),)),
    "alike": Program("histogram, equal keys", ("./counting", "--alike"), (_built("counting"),)),
    "shapes": Program("cluster, cooperative, child graph", ("./shapes",), (_built("shapes"),)),
    "sorting": Program("CUB", ("./sorting",), (_built("sorting"),)),
    "torch": Program("PyTorch", (sys.executable, "torch_program.py", "512")),
    "triton": Program("Triton", (sys.executable, "triton_program.py", "512")),
    "loop": Program("PyTorch, 100,000 launches", (sys.executable, "-c", LOOP), counted=False),
}  # fmt: skip


@dataclass
class Measured:
    """What came of one program."""

    plain_s: list[float] = field(default_factory=list)
    captured_s: list[float] = field(default_factory=list)
    memory_s: list[float] = field(default_factory=list)
    launches: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def ratio(self, seconds: Sequence[float]) -> str:
        return f"{statistics.median(seconds) / statistics.median(self.plain_s):.2f}" if seconds else "–"


def prepare(programs: Mapping[str, Program]) -> None:
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    NEUTRAL.mkdir(parents=True)
    for file in PROGRAMS.iterdir():
        if file.suffix in (".cu", ".py"):
            shutil.copy(file, NEUTRAL)
    builds = dict.fromkeys(build for program in programs.values() for build in program.builds)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda options: subprocess.run(["nvcc", *options], cwd=NEUTRAL, check=True), builds))


def times(program: Program, rounds: int) -> Measured:
    """Run a program plainly, captured, and captured with memory, in turn; the first round only warms up."""
    measured = Measured()
    for number in range(rounds + 1):
        start = time.perf_counter()
        subprocess.run(program.argv, cwd=NEUTRAL, check=True, capture_output=True)
        plain = time.perf_counter() - start
        taken = [_captured_s(program, limits) for limits in (LIMITS, MEMORY)]
        if number:
            measured.plain_s.append(plain)
            measured.captured_s.append(taken[0])
            measured.memory_s.append(taken[1])
    return measured


def _captured_s(program: Program, limits: CaptureLimits) -> float:
    """Return how long a program takes with the library in it, without our own work before and after."""
    with running.injected(limits) as (environment, _):
        start = time.perf_counter()
        subprocess.run(program.argv, cwd=NEUTRAL, check=True, capture_output=True, env=environment)
        return time.perf_counter() - start


def captured(name: str, program: Program, memory: bool) -> Path:
    out = NEUTRAL / f"{name}.launches"
    wanted = Wanted(launch_count=LIMITS.count, memory=memory, memory_limit=MEMORY.memory_bytes // MIB)
    capture.captured(UserProgram(program.argv, NEUTRAL), wanted, Request(timeout_s=LIMITS.timeout_s), out)
    return out


def counted(name: str, program: Program) -> Sequence[Profile]:
    """Return ncu's profiles of the program's launches."""
    folder = NEUTRAL / f"{name}-ncu"
    command = [sys.executable, "-m", "ncu_swizzle", "profile", "-c", str(LIMITS.count), "-f", "-o", str(folder), "--"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([*command, *program.argv], cwd=NEUTRAL, check=True, capture_output=True, env=environment)
    return reader.read(folder / "report.ncu-rep")


def by_offset(profile: Profile) -> dict[int, list[Any]]:
    """Return ncu's counts of the accesses to shared memory, by offset from the function's start."""
    start = min(instruction.pc for instruction in profile.instructions)
    return {
        instruction.pc - start: [instruction.sass, instruction.executed, instruction.wavefronts, instruction.ideal]
        for instruction in profile.instructions
        if instruction.access
    }


def compare(file: Path, theirs: Sequence[dict[int, list[Any]]], measured: Measured) -> None:
    """Replay each launch of a file and compare it with ncu's counts, launch by launch."""
    with replay.opened(file, ReplaySettings()) as launches:
        measured.launches = len(launches.chosen)
        if len(theirs) != len(launches.chosen):
            measured.verdicts["different"] += 1
            measured.differences.append(f"{len(launches.chosen)} launches, ncu {len(theirs)}")
            return
        for number, counts in enumerate(theirs):
            try:
                ours = launches.emulate(number, silent).counts.rows
            except NcuSwizzleError as error:
                measured.verdicts["unknown"] += len(counts)
                measured.reasons[f"{type(error).__name__}: {str(error)[:200]}"] += len(counts)
                continue
            compare_rows({row.offset: row for row in ours}, counts, measured)


def compare_rows(ours: Mapping[int, Any], counts: Mapping[int, list[Any]], measured: Measured) -> None:
    for offset, (sass, *numbers) in counts.items():
        row = ours.get(offset)
        found = [row.executed, row.wavefronts, row.ideal] if row else []
        if None in found:
            measured.verdicts["unknown"] += 1
            measured.reasons[row.reason] += 1
        else:
            same = found == numbers
            measured.verdicts["equal" if same else "different"] += 1
            measured.differences += [] if same else [f"{offset:#x} {sass}: {found}, ncu {numbers}"]
    for offset in ours.keys() - counts.keys():  # a generic access of which none was to shared memory has none here
        if ours[offset].access and ours[offset].executed and ours[offset].wavefronts:
            measured.verdicts["different"] += 1
            measured.differences.append(f"{offset:#x} {ours[offset].sass}: ncu counts nothing")


def line(name: str, program: Program, measured: Measured) -> str:
    verdicts = " | ".join(str(measured.verdicts[verdict]) for verdict in ("equal", "different", "unknown"))
    plain = f"{statistics.median(measured.plain_s):.2f}" if measured.plain_s else "–"
    costs = f"{plain} | {measured.ratio(measured.captured_s)} | {measured.ratio(measured.memory_s)}"
    return f"| {name}: {program.kind} | {measured.launches} | {verdicts} | {costs} |"


def kept(folder: Path, name: str, file: Path, theirs: Sequence[dict[int, list[Any]]]) -> None:
    """Keep a small file and ncu's counts of it, for the tests."""
    if file.stat().st_size <= RECORDED_BYTES:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / file.name)
        text = json.dumps(theirs).replace("}, {", "},\n{")
        (folder / f"{name}.counts.json").write_text(f"{text}\n", encoding="utf-8")


@contextlib.contextmanager
def failing(name: str) -> Iterator[None]:
    """Name a program that fails, and go on with the next."""
    try:
        yield
    except (NcuSwizzleError, subprocess.CalledProcessError) as error:
        print(f"| {name} failed: {str(error)[:300]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs, all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only-times", action="store_true", help="no ncu and no replay")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    chosen = {name: program for name, program in MEASURED.items() if not arguments.names or name in arguments.names}
    prepare(chosen)
    print("| program | launches | equal | different | unknown | plain, s | captured | with memory |\n|" + "---|" * 8)
    reasons: Counter[str] = Counter()
    different = 0
    for name, program in chosen.items():
        with failing(name):
            measured = times(program, arguments.rounds)
            if program.counted and not arguments.only_times:
                theirs = [by_offset(profile) for profile in counted(name, program)]
                file = captured(name, program, memory=True)
                compare(file, theirs, measured)
                if arguments.record:
                    kept(arguments.record, name, file, theirs)
            print(line(name, program, measured), flush=True)
            for difference in measured.differences[:3]:
                print(f"  DIFFERENT {difference}", flush=True)
            reasons += measured.reasons
            different += measured.verdicts["different"]
    print(f"\n{'accesses':>8}  reason")
    for reason, number in reasons.most_common():
        print(f"{number:8}  {reason}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
