"""Measure pairs of kernels unlike the catalogue's on this machine's GPU: ``python3 bench/figures/pairs.py [--check]``.

Compiles bench/figures/pairs, holds every output against its reference, times both kernels of each pair with CUDA
events, and profiles one launch of each with our section. bench/figures/pairs/recorded gets the report, compressed, and
the times, from which bench/figures/rules.py compares estimates with measurements. --check runs compute-sanitizer's
memcheck and racecheck over the pairs instead. ncu stores paths in a report, so everything happens in a copy in
/tmp/ncu-swizzle-pairs.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT
from ncu_swizzle.base import paths
from ncu_swizzle.base.files import write_atomically, write_json
from ncu_swizzle.engines import ncu, reader
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.engines.machine import find
from ncu_swizzle.reports.model import Profile

SOURCES = ROOT / "bench" / "figures" / "pairs"
RECORDED = SOURCES / "recorded"
REPORT, TIMES = "pairs.ncu-rep.xz", "times.json"
NEUTRAL = Path("/tmp/ncu-swizzle-pairs")
TIMEOUT_S = 400
SANITIZE = ("memcheck", "racecheck")


def recorded() -> Iterator[tuple[str, Profile, Profile]]:
    """Yield each recorded pair: its name, the launch with conflicts, the one without; nothing if none was recorded."""
    if not (RECORDED / REPORT).is_file():
        return
    names = [pair["pair"] for pair in json.loads((RECORDED / TIMES).read_text(encoding="utf-8"))["pairs"]]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "pairs.ncu-rep")
        report.write_bytes(lzma.decompress((RECORDED / REPORT).read_bytes()))
        launches = reader.read(report)
    for name, before, after in zip(names, launches[::2], launches[1::2], strict=True):
        assert before.grid == after.grid, name
        yield name, before, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="run compute-sanitizer over the pairs")
    arguments = parser.parse_args()
    program = compiled()
    if arguments.check:
        for tool in SANITIZE:
            run("compute-sanitizer", "--tool", tool, "--error-exitcode", "9", str(program), "--once")
    else:
        measure(program)


def compiled() -> Path:
    """Return the program, compiled in the neutral folder."""
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    shutil.copytree(SOURCES, NEUTRAL, ignore=shutil.ignore_patterns("recorded"))
    shutil.copy(ROOT / "kernels" / "common" / "ptx.cuh", NEUTRAL)
    program = NEUTRAL / "pairs"
    run("nvcc", "-O3", "-std=c++17", "-arch=sm_90", "-lineinfo", "-o", str(program), "pairs.cu")
    return program


def run(*command: str) -> str:
    """Return what a command prints; end the program if it fails."""
    done = subprocess.run(command, cwd=NEUTRAL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    print(done.stdout + done.stderr, flush=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}")
    return done.stdout


def measure(program: Path) -> None:
    """Time and profile all pairs, and write what was measured."""
    timed = [json.loads(line) for line in run(str(program)).splitlines()]
    report = NEUTRAL / "pairs.ncu-rep"
    options = options_.Options(launch_count=2 * len(timed), launches=options_.Launches())
    ncu.collect(find(), [str(program), "--once"], report, options, TIMEOUT_S, paths.child_environment())
    launches = reader.read(report)
    if len(launches) != 2 * len(timed):
        raise SystemExit(f"{2 * len(timed)} kernels were launched, {len(launches)} were profiled")
    for pair, before, after in zip(timed, launches[::2], launches[1::2], strict=True):
        print(line(pair, before, after))
    RECORDED.mkdir(exist_ok=True)
    write_atomically(RECORDED / REPORT, lzma.compress(report.read_bytes(), preset=9))
    machine = launches[0].machine
    write_json(RECORDED / TIMES, {"gpu": machine.gpu, "driver": machine.driver, "ncu": machine.ncu, "pairs": timed})


def line(pair: dict[str, Any], before: Profile, after: Profile) -> str:
    """Return a pair's degrees, and its times by ncu and by events."""
    degrees = f"degree {before.total.degree:.2f} → {after.total.degree:.2f}"
    ncu = f"{(before.duration_ns or 0) / 1e3:.2f} → {(after.duration_ns or 0) / 1e3:.2f} us by ncu"
    events = " → ".join(f"{us:.2f}" for us in pair["us"])
    return f"{pair['pair']}: {degrees}, {ncu}, {events} us by events"


if __name__ == "__main__":
    sys.exit(main())
