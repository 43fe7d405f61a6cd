"""Record the stress kernels on this machine's GPU: ``python3 bench/recording/record_stress.py [KERNEL …]``.

All of them are compiled, held against `reference.py` and profiled in one process under one ncu: ``recorded/`` gets one
report with a result per kernel, compressed, and what is known of each. As in recordings/record.py the program copies
itself to /tmp/ncu-swizzle first, so that no folder of this machine ends up in the report.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STRESS = ROOT / "bench" / "recording" / "stress"
PARTS = ("ncu_swizzle", "rules", "kernels", "bench")
REPORT, FACTS = "stress.ncu-rep", "facts.json"
LAUNCH = "--launch"
SEED = 1
TIMEOUT_S = 570

import numpy as np

sys.path.insert(0, str(ROOT))

from bench.recording import neutral
from bench.recording.neutral import NEUTRAL
from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import write_atomically, write_json
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines import machine, ncu, reader
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.kernels import catalog, fills, launching, references, toolchain
from ncu_swizzle.kernels.__main__ import output_errors
from ncu_swizzle.kernels.family import Family, Kernel
from ncu_swizzle.kernels.launching import Buffers, PyCudaCompiler


def main(arguments: list[str]) -> int:
    """Record the kernels named, all of them by default; return 1 where any of them failed."""
    if arguments[:1] == [LAUNCH]:
        return launch_all(Path(arguments[1]), arguments[2:])
    if into := neutral.home():
        return record(into, arguments)
    return neutral.run_copy(__file__, PARTS, STRESS / "recorded", arguments, os.environ.get("PYTHONPATH", ""))


def record(home: Path, names: list[str]) -> int:
    """Run ncu over this program and put the report and the facts where recordings are."""
    folder = NEUTRAL / "swizzle-out"
    folder.mkdir(exist_ok=True)
    report, facts = folder / REPORT, folder / FACTS
    program = [sys.executable, str(Path(__file__).resolve()), LAUNCH, str(facts), *names]
    options = options_.Options(launch_count=len(list(catalog.load(STRESS))))
    ncu.collect(machine.find(), program, report, options, TIMEOUT_S, paths.child_environment())
    content = json.loads(facts.read_text(encoding="utf-8"))
    found = reader.read(report)
    if len(found) != len(content["kernels"]):
        raise SystemExit(f"{len(content['kernels'])} kernels were launched, {len(found)} were profiled")
    packed = lzma.compress(report.read_bytes(), preset=9)
    content["report"] = {"sha256": hashlib.sha256(report.read_bytes()).hexdigest(), "bytes": report.stat().st_size}
    write_atomically(home / f"{REPORT}.xz", packed)
    write_json(home / FACTS, content)
    print(f"{len(found)} kernels, {len(packed):,} bytes; failed: {', '.join(content['failed']) or 'none'}", flush=True)
    return 1 if content["failed"] else 0


def launch_all(facts: Path, names: list[str]) -> int:
    """Compile, check and launch each kernel; `facts` says in which order, what failed, and on what it ran."""
    gpu = launching.open_device()
    machine = launching.describe(gpu)
    arch = "sm_{}{}".format(*gpu.compute_capability())
    chosen = [(family, kernel) for family, kernel in catalog.load(STRESS) if not names or kernel.name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda variant: compile_one(*variant, arch), chosen))
    content: dict[str, Any] = {"machine": machine, "seed": SEED, "kernels": {}, "failed": {}, "sources": sources()}
    for family, kernel in chosen:
        try:
            content["kernels"][kernel.name] = launch_one(family, kernel, arch)
        except NcuSwizzleError as error:
            content["failed"][kernel.name] = str(error)
            print(f"{kernel.name}: {error}", flush=True)
    write_json(facts, content)
    return 0


def compile_one(family: Family, kernel: Kernel, arch: str) -> None:
    with contextlib.suppress(NcuSwizzleError):  # it is said where the kernel is launched
        toolchain.cubin(family, kernel, arch, PyCudaCompiler())


def launch_one(family: Family, kernel: Kernel, arch: str) -> dict[str, Any]:
    """Check one kernel against its reference and launch it for ncu; raise WrongOutput."""
    problem, rng = family.problem(), np.random.default_rng(SEED)
    inputs = fills.inputs(family, problem, rng)
    buffers = Buffers.upload(family, problem, inputs)
    cubin = toolchain.cubin(family, kernel, arch, PyCudaCompiler())
    launch = launching.launcher(family, kernel, problem, cubin, buffers)
    errors = output_errors(
        family, kernel, problem, launch, buffers, references.expected_outputs(family, problem, inputs, rng)
    )
    launching.profile_once(launch, family, problem)
    function = names.find(Cubin(cubin, family.source(kernel).name), kernel.entry)
    return {"family": family.name, "function": function, "problem": problem, "errors": errors}


def sources() -> dict[str, str]:
    """Return the SHA-256 of every source, by its path: what was recorded is what is there."""
    files = sorted(file for file in STRESS.rglob("*") if file.suffix in (".cu", ".toml"))
    return {file.relative_to(STRESS).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
