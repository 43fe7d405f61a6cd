"""Sweeps over many workers: ``python3 bench/fleet.py --gpus 1 2`` on a machine with GPUs, ``--emulated`` anywhere.

With GPUs: a sweep of 16 points of the family gemm without workers, then with one worker per GPU for each number given;
then again with a worker that is killed in the middle. Without: small emulated kernels, the cost per point beyond the
kernel's own, and the same sweep over processes. Every table of counts is compared with the one without workers. Ends
with 1 if a point is lost or a count differs. Times include the start and the end of the workers.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tables import head, replace, row

from ncu_swizzle.ncu import gpu
from ncu_swizzle.paths import child_environment

GEMM = ("gemm", "--variants", "plain,swizzled", "--problem", "n=1024,2048,3072,4096,5120,6144,7168,8192")
MEASURED = ("--engine", "ncu")
COUNTS = ("kernel", "state", "executed", "wavefronts", "ideal", "excessive")
PAGE = ROOT / "docs" / "fleet.md"
LIMIT_S = 3600
KILL_AFTER = 4  # points
ALONE = 50  # points that are emulated without a sweep around them


@dataclass(frozen=True)
class SweepRun:
    """One run of the command: its time, its table without what differs from run to run, and its notes."""

    seconds: float
    cpu_s: float  # of all its processes
    table: list[tuple[str, ...]]
    points: list[dict[str, str]]
    notes: list[str]
    status: int


def sweep(words: Sequence[str], folder: Path, visible: Sequence[str] = (), kill: bool = False) -> SweepRun:
    """Run a sweep in a new process; with `kill`, end one of its workers once KILL_AFTER points are done."""
    shutil.rmtree(folder, ignore_errors=True)
    environment = child_environment() | ({"CUDA_VISIBLE_DEVICES": ",".join(visible)} if visible else {})
    command = [sys.executable, "-m", "ncu_swizzle", "sweep", *words, "-o", str(folder)]
    files = ["--csv", str(folder.with_suffix(".csv")), "--json", str(folder.with_suffix(".json"))]
    started, before = time.monotonic(), _children_s()
    process = subprocess.Popen([*command, *files], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if kill:
        _kill_a_worker(process, folder)
    said, _ = process.communicate(timeout=LIMIT_S)
    seconds = time.monotonic() - started
    if not folder.with_suffix(".csv").exists():
        sys.exit(f"{' '.join(words)[:200]} failed:\n{said.decode()[-3000:]}")
    points = list(csv.DictReader(folder.with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
    sizes = [name for name in points[0] if name == "n"]
    table = [tuple(point[name] for name in (*sizes, *COUNTS)) for point in points]
    notes = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))["notes"]
    return SweepRun(seconds, _children_s() - before, table, points, notes, process.returncode)


def _children_s() -> float:
    """Return the CPU time of the processes that have ended, which those that they started and waited for are in."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _kill_a_worker(process: subprocess.Popen[bytes], folder: Path) -> None:
    while len(list(folder.glob("points/*/*/point.json"))) < KILL_AFTER and process.poll() is None:
        time.sleep(0.05)
    for worker in _workers(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)


def _workers(parent: int) -> list[int]:
    """Return the worker processes of a command, which Python's multiprocessing started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            its_parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if its_parent == parent and b"spawn_main" in command:
            found.append(int(folder.name))
    return sorted(found)


def compared(title: str, run: SweepRun, alone: SweepRun) -> bool:
    """Print a line about a run; return whether it has every point, and the counts of the one without workers."""
    done = sum(point["state"] == "done" for point in run.points)
    same = run.table == alone.table
    ratio = alone.seconds / run.seconds
    print(f"{title:34} {run.seconds:7.1f} s {ratio:6.2f}x  {done} of {len(run.points)} points, "
          f"counts {'as' if same else 'NOT as'} without workers, exit code {run.status}", flush=True)  # fmt: skip
    return same and done == len(run.points) and run.status == 0


def with_gpus(numbers: Sequence[int], folder: Path) -> bool:
    """Measure with GPUs; return whether nothing was lost and no count differs."""
    found = gpu.identities()
    print(f"{len(found)} GPUs: {', '.join(dict.fromkeys(name for _, name in found))}; {os.cpu_count()} CPU cores")
    uuids = [uuid for uuid, _ in found]
    sweep((*GEMM, *MEASURED), folder / "warm", uuids[:1])  # compiles, and fills caches
    alone = sweep((*GEMM, *MEASURED), folder / "alone", uuids[:1])
    fine = compared("no workers, one GPU", alone, alone)
    one = None
    for number in numbers:
        if number > len(uuids):
            print(f"{number} GPUs: not measured, this machine has {len(uuids)}")
            continue
        words = (*GEMM, *MEASURED, "--workers", "gpus")
        run = sweep(words, folder / f"gpus-{number}", uuids[:number])
        fine &= compared(f"--workers gpus, {number} GPU{'s' * (number > 1)}", run, alone)
        one = run if number == 1 else one
        if one and number > 1:
            print(f"{'':34} {one.seconds / run.seconds:16.2f}x as fast as one worker")
    most = max(number for number in numbers if number <= len(uuids))
    killed = sweep((*GEMM, *MEASURED, "--workers", "gpus"), folder / "killed", uuids[:most], kill=True)
    fine &= compared(f"a worker of {most} killed", killed, alone)
    print("\n".join(f"    {note}" for note in killed.notes))
    return fine and any("started again" in note for note in killed.notes)


def emulated(given: argparse.Namespace, folder: Path) -> bool:
    """Measure small emulated kernels; return whether nothing was lost and no count differs."""
    cache = folder / "cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)  # compiled kernels are kept there, counts only within a run
    sizes = list(range(1, given.points // 2 + 1))

    def words(n: Sequence[int], *more: str) -> tuple[str, ...]:
        shutil.rmtree(cache / "ncu-swizzle" / "emulations", ignore_errors=True)
        size = f"n={','.join(map(str, n))}"
        return ("transpose", "--problem", size, "--variants", "plain,xor", "--engine", "emulated", *more)

    two = ("--workers", str(given.workers))
    sweep(words(sizes[:1]), folder / "warm")
    started = {
        "no workers": sweep(words(sizes[:1]), folder / "one"),
        "workers": sweep(words(sizes[:1], *two), folder / "few"),
    }
    own_ms = _alone_ms(sizes)
    fine, runs = True, {}
    if given.serial:
        runs["no workers"] = sweep(words(sizes), folder / "alone")
    runs[f"--workers {given.workers}"] = run = sweep(words(sizes, *two), folder / "workers")
    lines = [head("", "points", "time", "CPU time", "time per point", "CPU per point", "of it emulation")]
    for title, each in runs.items():
        fine &= compared(title, each, runs.get("no workers", each))
        before = started["no workers" if title == "no workers" else "workers"]
        cells = _costs(each, before, own_ms)
        lines.append(row(title, *cells))
    print(text := "\n".join([_conditions(), "", *lines, "", _page_of(folder / "workers", run)]) + "\n")
    if given.write:
        replace(PAGE, "emulated", Path(__file__).name, text)
    return fine


def _alone_ms(sizes: Sequence[int]) -> float:
    """Return the CPU time of emulating one kernel without a sweep around it: the mean of some sizes of the sweep."""
    from ncu_swizzle.catalog import collection
    from ncu_swizzle.engines.emulation import EmulationSettings, emulate_target

    settings = EmulationSettings()
    some = sizes[:: max(1, len(sizes) // ALONE)][:ALONE]
    targets = [
        collection.shipped().target(name, {"n": n}) for n in some for name in ("transpose-plain", "transpose-xor")
    ]
    for target in targets[:2]:
        emulate_target(target, settings)  # disassembles
    started = time.process_time()
    for target in targets[2:]:
        emulate_target(target, settings)
    return 1000 * (time.process_time() - started) / len(targets[2:])


def _costs(run: SweepRun, started: SweepRun, own_ms: float) -> tuple[str, ...]:
    """Return a run's cells: what starting costs is in its time, but not in the cost per point."""
    points = len(run.points) - len(started.points)
    wall, busy = (1000 * (a - b) / points for a, b in ((run.seconds, started.seconds), (run.cpu_s, started.cpu_s)))
    times = (f"{run.seconds:.0f} s", f"{run.cpu_s:.0f} s", f"{wall:.1f} ms", f"{busy:.1f} ms", f"{own_ms:.1f} ms")
    return (f"{len(run.points):,}", *times)


def _conditions() -> str:
    """Return what was measured on, in a sentence."""
    model = next((line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                  if line.startswith("model name")), "unknown")  # fmt: skip
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} CPU cores ({model}), load average {load:.1f} at the end; transpose, plain and xor."


def _page_of(folder: Path, run: SweepRun) -> str:
    size = (folder / "report.html").stat().st_size / 1e6
    return f"The page of {len(run.points):,} points has {size:.1f} MB."


def main() -> int:
    """Measure; return 1 if a point was lost or a count differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="*", default=[1, 2, 4], help="numbers of GPUs to measure with")
    parser.add_argument("--emulated", action="store_true", help="measure without a GPU instead")
    parser.add_argument("--points", type=int, default=1000, help="of the emulated sweep")
    parser.add_argument("--workers", type=int, default=2, help="of the emulated sweep")
    parser.add_argument("--no-serial", dest="serial", action="store_false", help="leave out the sweep without workers")
    parser.add_argument("--write", action="store_true", help="put the emulated sweep's table into docs/fleet.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        fine = emulated(given, place) if given.emulated else with_gpus(given.gpus, place)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
