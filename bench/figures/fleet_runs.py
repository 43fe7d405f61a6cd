"""One sweep as a process of its own, for bench/figures/fleet.py: its time, its table, and when its ncu ran."""

from __future__ import annotations

import csv
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base.paths import child_environment
from tests.support.processes import workers_of

COUNTS = ("kernel", "state", "executed", "wavefronts", "ideal", "excessive")
SIZES = ("n", "seq")
LIMIT_S = 3600
KILL_AFTER = 4  # points


@dataclass(frozen=True)
class Span:
    """One run of ncu: on which GPU, and from when to when."""

    gpu: str
    start: float
    end: float


@dataclass(frozen=True)
class SweepRun:
    """One run of the command: its time, its table without what differs from run to run, and its notes."""

    seconds: float
    cpu_s: float  # of all its processes
    table: list[tuple[str, ...]]
    points: list[dict[str, str]]
    notes: list[str]
    status: int
    begun: float = 0.0
    spans: list[Span] = field(default_factory=list)


def sweep(words: Sequence[str], folder: Path, visible: Sequence[str] = (), kill: bool = False,
          more: Mapping[str, str] = {}) -> SweepRun:  # fmt: skip
    """Run a sweep in a new process; with `kill`, end one of its workers once KILL_AFTER points are done."""
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**child_environment(), **more, **({"CUDA_VISIBLE_DEVICES": ",".join(visible)} if visible else {})}
    command = [sys.executable, "-m", "ncu_swizzle", "sweep", *words, "-o", str(folder)]
    files = ["--csv", str(folder.with_suffix(".csv")), "--json", str(folder.with_suffix(".json"))]
    log = logged(folder)
    log.unlink(missing_ok=True)
    environment["FLEET_LOG"] = str(log)
    started, before, begun = time.monotonic(), _children_s(), time.time()
    process = subprocess.Popen([*command, *files], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if kill:
        _kill_a_worker(process, folder)
    said, _ = process.communicate(timeout=LIMIT_S)
    seconds = time.monotonic() - started
    if not folder.with_suffix(".csv").exists():
        sys.exit(f"{' '.join(words)[:200]} failed:\n{said.decode()[-3000:]}")
    points = list(csv.DictReader(folder.with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
    sizes = [name for name in points[0] if name in SIZES]
    table = [tuple(point[name] for name in (*sizes, *COUNTS)) for point in points]
    notes = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))["notes"]
    return SweepRun(seconds, _children_s() - before, table, points, notes, process.returncode, begun, _spans(log))


def _children_s() -> float:
    """Return the CPU time of the processes that have ended, which those that they started and waited for are in."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _kill_a_worker(process: subprocess.Popen[bytes], folder: Path) -> None:
    while len(list(folder.glob("points/*/*/point.json"))) < KILL_AFTER and process.poll() is None:
        time.sleep(0.05)
    for worker in workers_of(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)


def logged(folder: Path) -> Path:
    """Return the file in which the ncu of `logging_ncu` notes when it ran for the sweep into a folder."""
    return folder.with_suffix(".ncu")


def logging_ncu(ncu: str, place: Path) -> Path:
    """Write a program that runs ncu and notes when, and on which GPU, beside the sweep's folder: for ``--ncu``."""
    program = place / "ncu"
    program.write_text(
        f"""#!/bin/sh
case "$*" in *--version*) exec {ncu} "$@";; esac
start=$(date +%s.%N)
{ncu} "$@"
status=$?
echo "${{CUDA_VISIBLE_DEVICES-}} $start $(date +%s.%N)" >> "$FLEET_LOG"
exit $status
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


def _spans(log: Path) -> list[Span]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    parts = [line.split(" ") for line in lines]
    return [Span(gpu, float(start), float(end)) for gpu, start, end in parts]


def timeline(run: SweepRun) -> str:
    """Return where a sweep's time went, as far as its runs of ncu tell: per worker, on average."""
    if not run.spans:
        return "ncu did not run"
    workers = {span.gpu for span in run.spans}
    first, last = min(span.start for span in run.spans), max(span.end for span in run.spans)
    each = [sorted((span for span in run.spans if span.gpu == gpu), key=lambda span: span.start) for gpu in workers]
    busy = sum(span.end - span.start for span in run.spans) / len(workers)
    late = sum(own[0].start - first for own in each) / len(workers)
    idle = sum(last - own[-1].end for own in each) / len(workers)
    between = last - first - busy - late - idle
    parts = {
        "before the first ncu": first - run.begun,
        "ncu": busy,
        "between two": between,
        "later than the first worker": late,
        "waiting for the last worker": idle,
        "after the last ncu": run.begun + run.seconds - last,
    }
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items())
