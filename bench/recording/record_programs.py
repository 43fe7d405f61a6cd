"""Record reports of programs on this machine's GPU: ``python3 bench/recording/record_programs.py [NAME …]``.

They go to tests/data/programs/*.ncu-rep, for the tests that need no GPU. ncu stores its command line and the sources'
paths, so the programs are copied to /tmp/ncu-swizzle-programs, built and run there. A report that turned out large, or
that names a folder of this machine, is not kept, and said so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "data" / "programs"
NEUTRAL = Path("/tmp/ncu-swizzle-programs")
MOST_BYTES = 1_000_000
TIMEOUT_S = 300
ARCHITECTURE = "sm_90"
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base import paths
from ncu_swizzle.engines import machine
from ncu_swizzle.engines import settings as options_

OURS = ("--section-folder", f"{NEUTRAL}/rules", "--section", options_.SECTION, "--import-source", "yes")
RANGES = ("--metrics", "gpu__time_duration.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")
SEVERAL = ("./several", "--size", "512")

# What is recorded under which name: ncu's options, the program.
RECORDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "several": (OURS, SEVERAL),
    "several-pad": (OURS, (*SEVERAL, "--pad")),
    "basic": (("--set", "basic"), SEVERAL),
    "source-counters": (("--section", "SourceCounters"), SEVERAL),
    "columns": (("--section", "SourceCounters", "--import-source", "yes"), ("./columns",)),
    "range": (("--replay-mode", "range", *RANGES), (*SEVERAL, "--range")),
    "graph": (("--graph-profiling", "graph", *RANGES), (*SEVERAL, "--graph")),
    "graph-nodes": (OURS, (*SEVERAL, "--graph")),
    "torch-softmax": ((*OURS, "-k", "regex:[sS]oft[mM]ax", "-c", "1"), ("python3", "torch_program.py", "1024")),
    "torch-histc": ((*OURS, "-k", "regex:istogram", "-c", "1"), ("python3", "torch_program.py", "1024")),
    "triton": ((*OURS, "-k", "turn_tiles"), ("python3", "triton_program.py", "1024")),
}


def main(names: list[str]) -> int:
    """Record what is named, everything by default; return how many could not be had."""
    prepare()
    failed = 0
    for name in names or RECORDS:
        problem = record(name)
        failed += bool(problem)
        kept = PROGRAMS / f"{name}.ncu-rep"
        print(f"{name}: {problem or f'{kept.stat().st_size:,} bytes'}", flush=True)
    return failed


def prepare() -> None:
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    NEUTRAL.mkdir(parents=True)
    for file in PROGRAMS.glob("*.*"):
        if file.suffix in (".cu", ".cuh", ".py"):
            shutil.copy(file, NEUTRAL)
    shutil.copytree(paths.rules(), NEUTRAL / "rules", ignore=shutil.ignore_patterns("__pycache__"))
    for program in ("several", "columns"):
        command = ["nvcc", f"-arch={ARCHITECTURE}", "-lineinfo", "-o", program, f"{program}.cu"]
        subprocess.run(command, cwd=NEUTRAL, check=True)


def record(name: str) -> str:
    """Record one report; return why it is not kept, or nothing."""
    options, program = RECORDS[name]
    report = NEUTRAL / f"{name}.ncu-rep"
    where = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": where, "TRITON_CACHE_DIR": f"{NEUTRAL}/cache"}
    command = [
        str(machine.find()), "--clock-control", "none", *options,
        "--export", report.name, "--force-overwrite", "--", *program,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=NEUTRAL, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    if done.returncode or not report.is_file():
        return f"not recorded (exit code {done.returncode}):\n{(done.stdout + done.stderr)[-2000:]}"
    data = report.read_bytes()
    if len(data) > MOST_BYTES:
        return f"not kept: {len(data):,} bytes, over {MOST_BYTES:,}"
    private = [folder for folder in (str(ROOT), str(Path.home()), sys.prefix) if is_private(folder)]
    named = [folder for folder in private if folder.encode() in data]
    if named:
        return f"not kept: it names {', '.join(named)}"
    shutil.copy(report, PROGRAMS / report.name)
    return ""


def is_private(folder: str) -> bool:
    return folder not in ("/", "/usr", "/usr/local")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
