"""Sweeps over many workers.

``python3 bench/figures/fleet.py --gpus 0 1 2`` on a machine with GPUs, ``--emulated`` anywhere.

With GPUs: a sweep of 16 points of the family gemm without workers, then with one worker per GPU for each number given;
then again with a worker that is killed in the middle. Without: small emulated kernels, the cost per point beyond the
kernel's own, and the same sweep over processes. Every table of counts is compared with the one without workers. Ends
with 1 if a point is lost or a count differs. Times include the start and the end of the workers. ``--simulated 3.3``
needs no GPU and measures nothing of one: each ncu sleeps, and what is around it takes its own time.

Two calls of at most 250 s each, on two GPUs and on four:

    python3 bench/figures/fleet.py --gpus 0 1 2 --limit 250
    python3 bench/figures/fleet.py --gpus 0 1 2 4 --limit 250

"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.figures.fleet_runs import SweepRun, logging_ncu, sweep, timeline
from bench.figures.tables import head, replace, row
from ncu_swizzle.engines import machine
from ncu_swizzle.kernels import device

GEMM = ("gemm", "--variants", "plain,swizzled", "--problem", "n=1024,2048,3072,4096,5120,6144,7168,8192")
ATTENTION = ("kernel1", "kernel2", "--problem", "seq=1024,2048,3072,4096,5120,6144,7168,8192")
MEASURED = ("--engine", "ncu")
PAGE = ROOT / "docs" / "fleet.md"
ALONE = 50  # points that are emulated without a sweep around them


def compared(title: str, run: SweepRun, alone: SweepRun) -> bool:
    """Print a line about a run; return whether it has every point, and the counts of the one without workers."""
    done = sum(point["state"] == "done" for point in run.points)
    same = run.table == alone.table
    ratio = alone.seconds / run.seconds
    print(f"{title:34} {run.seconds:7.1f} s {ratio:6.2f}x  {done} of {len(run.points)} points, "
          f"counts {'as' if same else 'NOT as'} without workers, exit code {run.status}", flush=True)  # fmt: skip
    return same and done == len(run.points) and run.status == 0


def with_gpus(given: argparse.Namespace, folder: Path) -> bool:
    """Measure with GPUs; return whether nothing was lost and no count differs. 0 GPUs: one, without workers."""
    began = time.monotonic()
    bench = simulation(given.simulated, folder) if given.simulated else measurement(folder)
    print(bench.title, flush=True)
    uuids = bench.uuids
    sweep(
        (*bench.words[:-1], bench.words[-1].partition(",")[0], *bench.ncu),
        folder / "warm",
        uuids[:1],
        more=bench.environment,
    )
    runs: dict[int, SweepRun] = {}
    fine, longest = True, 0.0
    for number in given.gpus:
        if number > len(uuids) or longest > given.limit - (time.monotonic() - began):
            why = f"this machine has {len(uuids)}" if number > len(uuids) else f"no time left of {given.limit} s"
            print(f"{number} GPUs: not measured, {why}")
            continue
        how = ("--workers", "gpus") if number else ()
        run = sweep(
            (*bench.words, *bench.ncu, *how), folder / f"gpus-{number}", uuids[: max(number, 1)], more=bench.environment
        )
        longest, runs[number] = max(longest, run.seconds), run
        first = next(iter(runs.values()))
        fine &= compared(
            f"--workers gpus, {number} GPU{'s' * (number > 1)}" if number else "no workers, one GPU", run, first
        )
        print(f"    {timeline(run)}", flush=True)
        if number > 1 and 1 in runs:
            print(f"    {runs[1].seconds / run.seconds:.2f}x as fast as one worker")
    most = max(runs, default=0)
    if most < 2 or 1.5 * runs[most].seconds > given.limit - (time.monotonic() - began):
        print("no worker was killed: fewer than two GPUs, or no time left")
        return fine
    words = (*bench.words, *bench.ncu, "--workers", "gpus")
    killed = sweep(words, folder / "killed", uuids[:most], kill=True, more=bench.environment)
    fine &= compared(f"a worker of {most} killed", killed, first)
    print("\n".join(f"    {note}" for note in killed.notes))
    return fine and any("started again" in note for note in killed.notes)


@dataclass(frozen=True)
class GpuBench:
    """What is swept with GPUs, real ones or stand-ins; the last of the words are the sizes."""

    title: str
    words: tuple[str, ...]
    uuids: list[str]
    ncu: tuple[str, ...]
    environment: dict[str, str]


def measurement(folder: Path) -> GpuBench:
    """Return the bench of this machine's GPUs."""
    found = device.identities()
    names = ", ".join(dict.fromkeys(name for _, name in found))
    ncu = logging_ncu(str(machine.find()), folder)
    title = f"{len(found)} GPUs: {names}; {os.cpu_count()} CPU cores"
    return GpuBench(title, (*MEASURED, *GEMM), [uuid for uuid, _ in found], ("--ncu", str(ncu)), {})


def simulation(point_s: float, folder: Path) -> GpuBench:
    """Return a bench without a GPU: each ncu sleeps and leaves a recorded report; the rest is as with a GPU."""
    from tests.support import fake_cuda, fake_ncu

    gpus = 4
    program = fake_ncu.install(folder / "bin" / "ncu", f"case $1 in --version) ;; *) sleep {point_s};; esac")
    library = fake_cuda.install(folder / "cuda", gpus)
    environment = {"FAKE_NCU": "ok", "LD_LIBRARY_PATH": str(library), "XDG_CACHE_HOME": str(folder / "cache")}
    uuids = [f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in range(gpus)]
    title = f"SIMULATED, nothing is measured: each of 16 ncu sleeps for {point_s} s; {os.cpu_count()} CPU cores"
    return GpuBench(
        title, (*MEASURED, *ATTENTION), uuids, ("--ncu", str(logging_ncu(str(program), folder))), environment
    )


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
        replace(PAGE, "emulated", __file__, text)
    return fine


def _alone_ms(sizes: Sequence[int]) -> float:
    """Return the CPU time of emulating one kernel without a sweep around it: the mean of some sizes of the sweep."""
    from ncu_swizzle.engines.emulation import EmulationSettings, emulate_target
    from ncu_swizzle.kernels import catalog

    settings = EmulationSettings()
    some = sizes[:: max(1, len(sizes) // ALONE)][:ALONE]
    targets = [catalog.shipped().target(name, {"n": n}) for n in some for name in ("transpose-plain", "transpose-xor")]
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
    parser.add_argument("--gpus", type=int, nargs="*", default=[0, 1, 2], help="how many; 0: one, without workers")
    parser.add_argument("--limit", type=float, default=3600, help="seconds; what would take longer is left out")
    parser.add_argument("--simulated", type=float, metavar="SECONDS", help="no GPU: each ncu sleeps as long")
    parser.add_argument("--emulated", action="store_true", help="measure without a GPU instead")
    parser.add_argument("--points", type=int, default=1000, help="of the emulated sweep")
    parser.add_argument("--workers", type=int, default=2, help="of the emulated sweep")
    parser.add_argument("--no-serial", dest="serial", action="store_false", help="leave out the sweep without workers")
    parser.add_argument("--write", action="store_true", help="put the emulated sweep's table into docs/fleet.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        fine = emulated(given, place) if given.emulated else with_gpus(given, place)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
