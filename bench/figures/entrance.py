"""What a new user gets for files as they are: ``lint FILE``, nothing else typed. Prints a table by file and reason.

    python3 bench/figures/entrance.py FOLDER_OR_FILE …            all .cu files with __shared__ and __global__ in them
    python3 bench/figures/entrance.py --list files.txt --jobs 2

A file is judged if each of its kernels that access shared memory has a verdict: free, of a degree, or dependent on a
named thing. CPU time is that of the command and of its compilers, without any cache.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 600.0  # of wall-clock time
REASON = 90  # characters
UNKNOWN = "not known"


@dataclass(frozen=True)
class Row:
    """What became of a file: how many of its kernels with shared memory were judged, and why not the others."""

    file: str
    kernels: int
    judged: int
    known: int  # kernels of which every access is known
    outcome: str
    cpu_s: float
    reason: str


def sources(places: list[Path]) -> Iterator[Path]:
    """Yield the .cu files that declare a kernel and shared memory."""
    for place in places:
        for file in sorted(place.rglob("*.cu")) if place.is_dir() else [place]:
            text = file.read_text(errors="replace")
            if "__shared__" in text and "__global__" in text:
                yield file


def measured(file: Path) -> Row:
    """Lint a file in a process of its own, whose children's time counts, too."""
    with tempfile.TemporaryDirectory() as cache:
        words = [sys.executable, __file__, "--one", str(file)]
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        try:
            done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return Row(str(file), 0, 0, 0, "time", LIMIT_S, f"more than {LIMIT_S:.0f} s")
    if done.returncode:
        return Row(str(file), 0, 0, 0, "error", 0.0, done.stderr.strip().splitlines()[-1][:REASON])
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def one(file: Path) -> Row:
    """Lint a file and say what came of it."""
    lint = subprocess.run(
        [sys.executable, "-m", "ncu_swizzle", "lint", str(file), "--json", "-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = round(used.ru_utime + used.ru_stime, 1)
    try:
        verdict = json.loads(lint.stdout)
    except ValueError:
        words = [line for line in lint.stderr.splitlines() if line.strip()]
        reason = next((line for line in words if "headers that are not here" in line), words[0] if words else "nothing")
        return Row(str(file), 0, 0, 0, "error", cpu_s, reason[:REASON])
    by_kernel: dict[str, list[dict[str, str]]] = {}
    for check in verdict["checks"]:
        by_kernel.setdefault(check["kernel"], []).append(check)
    unjudged = [
        check
        for checks in by_kernel.values()
        for check in checks
        if check["outcome"] == "error" or check["code"] == "UN010"
    ]
    unknown = {name for name, checks in by_kernel.items() if any(UNKNOWN in each["message"] for each in checks)}
    lacking = [note for note in verdict["notes"] if "(with shared memory) was not compiled" in note]
    judged = len(by_kernel) - len({check["kernel"] for check in unjudged})
    reasons = [check["message"] for check in unjudged] + lacking
    reasons += [each["message"] for name in unknown for each in by_kernel[name] if UNKNOWN in each["message"]]
    return Row(
        str(file), len(by_kernel) + len(lacking), judged, judged - len(unknown), verdict["outcome"], cpu_s,
        (reasons[0] if reasons else "")[:REASON],
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", type=Path)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(vars(one(given.one))))
        return
    listed = [Path(line) for line in given.list.read_text().split("\n") if line] if given.list else []
    print(
        "| file | kernels | judged | every access known | outcome | CPU s | reason |\n|---|---:|---:|---:|---|---:|---|"
    )
    rows = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(measured, [*listed, *sources(given.places)]):
            rows.append(row)
            cells = (row.file, row.kernels, row.judged, row.known, row.outcome, row.cpu_s, row.reason.replace("|", "/"))
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    whole = sum(row.kernels == row.judged > 0 and row.cpu_s <= 60 for row in rows)
    print(
        f"\n{len(rows)} files; every kernel judged within 60 s of CPU: {whole} ({whole / max(len(rows), 1):.0%}); ",
        end="",
    )
    print(", ".join(f"{name}: {count}" for name, count in Counter(row.outcome for row in rows).items()))


if __name__ == "__main__":
    main()
