"""Measure what one change of a layout saves, for many programs and sizes.

``python3 bench/figures/costs.py FOLDER``, on a GPU.

Pairs of launches, before the change and after it, from the catalogue (a kernel and its baseline), tests/data/fix (its
hand-written edits; with ``--patched`` what ``bench/figures/fix.py --patched`` left), bench/figures/costs (kernels of
many kinds, with -DFIXED=0 and 1) and, with ``--public``, a folder of other people's kernels: `before` and `after` with
the same descriptions (ncu-swizzle.toml), and sizes.json (program and problems, by name); none of it is in this
repository. ``--fresh`` measures bench/figures/fresh alone, which the simulated SM is judged by and nothing was made
with.

Outputs of both must agree. Each pair is timed with CUDA events, in turns, then profiled with our section, then its
durations alone are taken again. FOLDER gets `costs.json.xz`, after every batch: a row per pair with what the rule pack
needs of both launches. ``--compile`` needs no GPU, and ``--emulate NAME …`` prints degrees; ``--limit`` ends in time.

"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.costs_changes import FRESH, OWN, Change, Job, changes, compiled, emulated, jobs, of_own
from ncu_swizzle.base import child, paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import machine, ncu, reader
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.kernels import fills
from ncu_swizzle.reports import pack

RECORDED = OWN / "recorded" / "costs.json.xz"
BATCH = 64  # pairs of one process
DURATIONS = 3  # taken again of each launch
FAILURES = 8  # of a batch's timing process, after which the rest of the batch is given up
SLOW_MS = 25.0  # a launch that takes longer costs too much of a GPU's time
TIME_S = 120.0  # for the first batch's processes, of which nothing is known
DEVICE = ("device__attribute_multiprocessor_count", "device__attribute_max_warps_per_scheduler")
UNUSED = ("device__", "nvlink__", "c2clink__", "numa__", "sass__", "profiler__", "inst_executed")

# ---------------------------------------------------------------------------------------------- on a GPU


def measured(chosen: Sequence[Change], folder: Path, arguments: argparse.Namespace, start: float) -> None:
    """Measure batch after batch until the limit; write all rows after each."""
    rows: list[dict[str, Any]] = recorded() if arguments.more else []
    done = {row["pair"] for row in rows}
    every, longest = [job for job in jobs(chosen) if job.name not in done], 0.0
    with concurrent.futures.ProcessPoolExecutor(4) as readers:
        pending: list[tuple[list[dict[str, Any]], Any, Any]] = []
        for number in range(0, len(every), BATCH):
            begun = time.monotonic()
            left = arguments.limit - (begun - start)
            if left < (longest or 10):
                print(f"{left:.0f} s left: stopping before pair {number} of {len(every)}", flush=True)
                break
            pending.append(batch(every[number : number + BATCH], number, left, arguments, readers))
            longest = max(longest, time.monotonic() - begun)
            print(f"pairs {number} to {number + BATCH}: {time.monotonic() - begun:.0f} s", flush=True)
            while pending and (pending[0][1] is None or pending[0][1].done()):
                rows += joined(*pending.pop(0))
                write(rows, folder)
        for entry in pending:
            rows += joined(*entry)
            write(rows, folder)
    print(f"{len(rows)} pairs in {time.monotonic() - start:.0f} s", flush=True)


def batch(chosen: list[Job], number: int, left: float, arguments: argparse.Namespace, readers: Any) -> Any:
    """Time and profile some pairs; return their rows as far as known, and what will be read of the reports."""
    deadline = time.monotonic() + left
    timed = times([job.name for job in chosen], arguments, min(left, TIME_S))
    rows = [row for row in timed if row.get("us") and row["alike"]]
    for row in timed:
        if row not in rows:
            print(f"left out: {row}", flush=True)
    sources = {job.name: job for job in chosen}
    for row in rows:
        job = sources[row["pair"]]
        row |= {"program": job.change.program, "source": job.change.source, "problem": job.problem}
    names = [row["pair"] for row in rows]
    if not names:
        return [], None, None
    reports = [Path(arguments.work, f"{what}-{number}.ncu-rep") for what in ("sections", "durations")]
    options = options_.Options(launch_count=2 * len(names), launches=options_.Launches(profile_from_start="off"))
    again = replace(options, metrics="gpu__time_duration.sum", launch_count=2 * len(names) * DURATIONS)
    futures = []
    for report, given, turns, read in zip(
        reports, (options, again), (1, DURATIONS), (features, durations), strict=True
    ):
        command = launching("profile", names, arguments, turns)
        try:
            timeout = max(10.0, deadline - time.monotonic())
            ncu.collect(machine.find(), command, report, given, timeout, paths.child_environment())
            futures.append(readers.submit(read, report))
        except NcuSwizzleError as error:
            print(f"{report.name}: {error}", flush=True)
            futures.append(None)
    return rows, *futures


def times(names: list[str], arguments: argparse.Namespace, timeout_s: float) -> list[dict[str, Any]]:
    """Return a row per pair that could be launched; after a failure, which ends a process, go on behind it."""
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout_s
    for _ in range(FAILURES):
        if not names or time.monotonic() > deadline:
            break
        try:
            outcome = child.run(
                launching("time", names, arguments), max(5.0, deadline - time.monotonic()), Path(arguments.work),
                paths.child_environment(), kept_bytes=1 << 22,
            )  # fmt: skip
            log, status = outcome.log, outcome.status
        except NcuSwizzleError as error:
            print(f"timing: {error}", flush=True)
            break
        done = [json.loads(line) for line in log.splitlines() if line.startswith('{"pair"')]
        rows += done
        if status == 0:
            break
        print(f"{names[len(done)]} failed: {log.strip().splitlines()[-1:]}", flush=True)
        names = names[len(done) + 1 :]
    return rows


def launching(action: str, names: list[str], arguments: argparse.Namespace, turns: int = 1) -> list[str]:
    """Return the command of the process that launches pairs."""
    file = Path(arguments.work, f"{action}-{turns}-{len(names)}-{abs(hash(tuple(names)))}.json")
    file.write_text(json.dumps(names), encoding="utf-8")
    words = [sys.executable, str(Path(__file__).resolve()), str(arguments.work), "--launch", action]
    words += ["--pairs", str(file), "--turns", str(turns)]
    words += ["--fresh"] * arguments.fresh
    for option in ("patched", "public"):
        if folder := getattr(arguments, option):
            words += [f"--{option}", str(folder)]
    return words


def features(report: Path) -> list[dict[str, Any]]:
    """Return what the rule pack needs of each launch: metrics, accesses, and other instructions by their opcode."""
    return [launch(profile) for profile in reader.read(report)]


def launch(profile: Any) -> dict[str, Any]:
    """Return one launch's facts as plain data."""
    facts = pack.facts(profile)
    accesses, others = [], {}
    for instruction in facts.instructions:
        samples = dict(instruction.samples)
        if instruction.access:
            counts = [instruction.executed, instruction.wavefronts, instruction.ideal]
            accesses.append([instruction.sass.split(",")[0].split(" R")[0], *counts, samples])
        else:
            entry = others.setdefault(instruction.opcode.split(".")[0], [0, {}])
            entry[0] += instruction.executed
            for reason, count in samples.items():
                entry[1][reason] = entry[1].get(reason, 0) + count
    metrics = {
        name: value
        for name, value in facts.metrics.items()
        if name in DEVICE or not (name.startswith(UNUSED) or name.endswith("_not_issued"))
    }
    return {"metrics": metrics, "accesses": accesses, "others": others, "kernel": profile.kernel.function}


def durations(report: Path) -> list[float]:
    """Return the duration of each launch, in ns."""
    return [float(profile.duration_ns or 0) for profile in reader.read(report)]


def joined(rows: list[dict[str, Any]], sections: Any, again: Any) -> list[dict[str, Any]]:
    """Return the rows with what was read of both reports; none without the first."""
    launches = sections.result() if sections else []
    if len(launches) != 2 * len(rows):
        print(f"{len(rows)} pairs were launched, {len(launches)} launches were profiled", flush=True)
        return []
    taken = again.result() if again else []
    for number, row in enumerate(rows):
        row["before"], row["after"] = launches[2 * number : 2 * number + 2]
        if len(taken) == 2 * DURATIONS * len(rows):
            mine = taken[2 * DURATIONS * number : 2 * DURATIONS * (number + 1)]
            row["ns"] = [mine[0::2], mine[1::2]]
    return rows


def recorded() -> list[dict[str, Any]]:
    """Return the rows that are in this repository."""
    rows: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDED.read_bytes()))["rows"]
    return rows


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write all rows; small, so that they can be kept in the repository."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"rows": rows}, separators=(",", ":")).encode()
    (folder / RECORDED.name).write_bytes(lzma.compress(text, preset=6))


# ---------------------------------------------------------------------------------------------- the launching process


def launch_all(action: str, names: list[str], chosen: Sequence[Change], folder: Path, turns: int) -> None:
    """Launch pairs: time them, or launch each kernel in turns where ncu profiles."""
    import numpy as np

    from ncu_swizzle.kernels import launching

    launching.open_device()
    cuda, pools = launching.cuda, {}
    wanted = {job.name: job for job in jobs(chosen)}

    def content(argument: Any, problem: dict[str, int]) -> np.ndarray:
        """Draw a million values at most, and repeat them: drawing takes longer than all launches."""
        shape = fills.shape(argument, problem)
        few = replace(argument, shape=(str(min(1 << 20, int(np.prod(shape)))),))
        key = (argument.dtype, argument.fill, few.shape)
        if key not in pools:
            pools[key] = fills.array(few, problem, np.random.default_rng(1))
        flat = pools[key].view(np.uint8)
        return np.resize(flat, int(np.prod(shape)) * pools[key].itemsize).view(pools[key].dtype).reshape(shape)

    for name in names:
        job = wanted[name]
        family = job.change.before.family
        needed = [a for a in family.arguments if a.shape and (a.fill or not a.output)]
        buffers = launching.Buffers.upload(family, job.problem, {a.name: content(a, job.problem) for a in needed})
        ready = []
        for side, target in job.change.sides:
            code = (folder / job.change.name / f"{side}.cubin").read_bytes()
            ready.append(launching.launcher(target.family, target.kernel, job.problem, code, buffers))
        if action == "time":
            print(json.dumps({"pair": name, **timed(ready, family, job.problem, cuda)}), flush=True)
        else:
            buffers.reset(family, job.problem)
            for kernel in ready:
                kernel()  # warm, outside the range
            launching.synchronize()
            cuda.start_profiler()
            for _ in range(turns):
                for kernel in ready:
                    kernel()
            launching.synchronize()
            cuda.stop_profiler()
        for pointer in buffers.device:
            if hasattr(pointer, "free"):
                pointer.free()


def timed(ready: Sequence[Any], family: Any, problem: dict[str, int], cuda: Any) -> dict[str, Any]:
    """Return whether the outputs of both agree, and the microseconds of both, in turns."""
    import numpy as np

    outputs, once = [], []
    start, stop = cuda.Event(), cuda.Event()
    for kernel in ready:
        kernel.buffers.reset(family, problem)
        kernel()
        outputs.append([kernel.buffers.output(a, family, problem) for a in family.arguments if a.output])
        start.record()
        kernel()
        stop.record()
        stop.synchronize()
        once.append(start.time_till(stop))
    if max(once) > SLOW_MS:
        return {"alike": False, "slow_ms": once}
    exact = all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(*outputs, strict=True))
    alike = exact or all(
        a.dtype.kind not in "iub"
        and np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-3, 1e-3, equal_nan=True)
        for a, b in zip(*outputs, strict=True)
    )
    count = max(1, min(20, int(0.4 / max(min(once), 1e-3))))
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(8):
        for kernel, mine in zip(ready, taken, strict=True):
            start.record()
            for _ in range(count):
                kernel()
            stop.record()
            stop.synchronize()
            if turn:  # the first one warms
                mine.append(1000 * start.time_till(stop) / count)
    return {"alike": alike, "exact": exact, "us": [round(median(mine), 3) for mine in taken]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the rows go")
    parser.add_argument("--limit", type=float, default=200, help="seconds after which no batch starts")
    parser.add_argument("--more", action="store_true", help="measure only what is not recorded, and write both")
    parser.add_argument("--patched", type=lambda text: Path(text).absolute(), help="as bench/figures/fix.py leaves it")
    parser.add_argument("--public", type=lambda text: Path(text).absolute(), help="other people's kernels")
    parser.add_argument("--fresh", action="store_true", help="the kernels of bench/figures/fresh alone")
    parser.add_argument("--compile", action="store_true", help="only compile everything")
    parser.add_argument("--emulate", nargs="*", help="emulate some changes at their usual size, all without a name")
    parser.add_argument("--launch", choices=("time", "profile"), help="be the process that launches")
    parser.add_argument("--pairs", type=Path, help="which of them, with --launch")
    parser.add_argument("--turns", type=int, default=1)
    arguments = parser.parse_args()
    start = time.monotonic()
    chosen = list(of_own(FRESH)) if arguments.fresh else changes(arguments.patched, arguments.public)
    if arguments.launch:
        names = json.loads(arguments.pairs.read_text(encoding="utf-8"))
        launch_all(arguments.launch, names, chosen, arguments.folder, arguments.turns)
        return
    if arguments.emulate is not None:
        for change in chosen:
            if not arguments.emulate or change.name in arguments.emulate:
                print(emulated(change), flush=True)
        return
    arguments.work = Path(tempfile.gettempdir(), "ncu-swizzle-costs", "cubins")
    ready = compiled(chosen, arguments.work)
    print(f"{len(ready)} of {len(chosen)} changes compiled, {len(jobs(ready))} pairs: {time.monotonic() - start:.0f} s",
          flush=True)  # fmt: skip
    if not arguments.compile:
        measured(ready, arguments.folder, arguments, start)


if __name__ == "__main__":
    main()
