"""Record the kernels of examples/python on this machine's GPU: ``python3 bench/recording/record_python.py [KERNEL …]``.

Each is compiled by its front end, and all are launched in one process under one ncu. tests/data/python/recorded gets
one archive: the cubin that was compiled here, the launch, and ncu's counts of every instruction, kernel by kernel. As
in recordings/record.py the program copies itself to /tmp/ncu-swizzle first, so that no folder of this machine ends up
in it. Where compile_python.py left cubins in ``compiled/``, those are recorded instead, in an archive of their own.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "data" / "python"
PARTS = ("ncu_swizzle", "rules", "kernels", "reports", "examples/python", "tests/data/python", "bench")
COMPILED = (
    HERE / "compiled"
)  # of kernels whose library this machine lacks: NAME.cubin, .json and .txt, from compile_python.py
LAUNCH = "--launch"
SEED = 1
TIMEOUT_S = 330

import numpy as np

sys.path.insert(0, str(ROOT))

from bench.recording import neutral
from bench.recording.neutral import NEUTRAL
from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import write_json
from ncu_swizzle.engines import machine, ncu, reader
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.engines.machine import System
from ncu_swizzle.frontends.contract import built
from ncu_swizzle.kernels import device, fills, launching, naming, references
from ncu_swizzle.kernels.__main__ import output_errors
from ncu_swizzle.kernels.family import Target, read, write
from ncu_swizzle.kernels.launching import Buffers
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.reports.model import Profile


def main(arguments: list[str]) -> int:
    """Record the kernels named, all of them by default; return 1 if any of them failed."""
    if arguments[:1] == [LAUNCH]:
        return launch_all(Path(arguments[1]), arguments[2:])
    if into := neutral.home():
        return record(into, arguments)
    into = Path(os.environ.get("RECORDED", HERE / "recorded"))
    return neutral.run_copy(__file__, PARTS, into, arguments, os.environ.get("PYTHONPATH", ""))


def record(home: Path, names: Sequence[str]) -> int:
    """Compile the kernels, run ncu over this program, and put the archive where recordings are."""
    folder = NEUTRAL / "swizzle-out"
    folder.mkdir(exist_ok=True)
    names = names or sorted(file.stem for file in COMPILED.glob("*.cubin"))
    archived = home / ("h100-elsewhere.tar.xz" if COMPILED.is_dir() else "h100.tar.xz")
    arch = "sm_{}{}".format(*device.devices()[0][1])
    catalog = naming.catalogue(CatalogOptions(str(NEUTRAL / "examples/python/ncu-swizzle.toml"), trust=True))
    chosen = [Target(family, kernel, family.problem()) for family, kernel in catalog if not family.shipped]
    chosen = [target for target in chosen if not names or target.name in names]
    chosen.sort(key=lambda target: "descriptors" in target.name or "cluster" in target.name)  # what can fail goes last
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda target: compile_one(target, arch, folder), chosen))
    failed = {target.name: text for target, text in zip(chosen, said, strict=True) if text.startswith("!")}
    compiled = {target.name: text for target, text in zip(chosen, said, strict=True) if not text.startswith("!")}
    report = folder / "python.ncu-rep"
    program = [sys.executable, str(Path(__file__).resolve()), LAUNCH, str(folder), *compiled]
    options = options_.Options(launch_count=len(compiled))
    ncu.collect(machine.find(), program, report, options, TIMEOUT_S, paths.child_environment())
    content = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    content["failed"] |= failed
    content["machine"]["ncu"] = ".".join(map(str, machine.version(System(), machine.find())))
    found = reader.read(report)
    if len(found) != len(content["kernels"]):
        raise SystemExit(f"{len(content['kernels'])} kernels were launched, {len(found)} were profiled")
    home.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archived, "w:xz", preset=9) as archive:
        for name, profile in zip(content["kernels"], found, strict=True):
            content["kernels"][name] |= {"compiler": compiled[name], "counts": counts(profile)}
            add(archive, f"{name}.cubin", (folder / f"{name}.cubin").read_bytes())
        add(archive, "facts.json", json.dumps(content).encode())
    size = archived.stat().st_size
    print(f"{len(found)} kernels, {size:,} bytes; failed: {json.dumps(content['failed'], indent=1)}", flush=True)
    return 1 if content["failed"] else 0


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file, with the folder of this machine's Python replaced by as many other characters: offsets stay."""
    python = sys.prefix.encode()
    data = data.replace(python, b"/site".ljust(len(python), b"-")[: len(python)])
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def counts(profile: Profile) -> dict[str, Any]:
    """Return ncu's counts by offset: of accesses to shared memory; of threads, sectors, tags and branches."""
    first = profile.instructions[0].pc
    return {
        "function": profile.kernel.function,
        "grid": profile.grid,
        "block": profile.block,
        "accesses": [
            [each.pc - first, each.opcode, each.access, each.executed, each.wavefronts, each.ideal, *each.stack[:1]]
            for each in profile.instructions
            if each.access
        ],
        "columns": {str(each.pc - first): each.traffic.known for each in profile.instructions if each.traffic.known},
    }


def compile_one(target: Target, arch: str, folder: Path) -> str:
    """Compile a kernel and leave its cubin and its launch in the folder; return its compiler, or "!" and why not."""
    if (COMPILED / f"{target.name}.cubin").is_file():
        for suffix in ("cubin", "json"):
            shutil.copy(COMPILED / f"{target.name}.{suffix}", folder)
        return (COMPILED / f"{target.name}.txt").read_text(encoding="utf-8")
    try:
        made = built(target, arch, TIMEOUT_S)
    except NcuSwizzleError as error:
        return f"!{error}"
    (folder / f"{target.name}.cubin").write_bytes(made.code)
    write(replace(made.target.family, kernels=(made.target.kernel,)), folder / f"{target.name}.json")
    return made.compiler


def launch_all(folder: Path, names: Sequence[str]) -> int:
    """Check and launch each kernel; the facts say in which order, what failed, and on what it ran."""
    machine = launching.describe(launching.open_device())
    content: dict[str, Any] = {"machine": machine, "seed": SEED, "kernels": {}, "failed": {}}
    for name in names:
        try:
            content["kernels"][name] = launch_one(folder, name)
        except Exception as error:  # it is recorded, whatever it is
            content["failed"][name] = f"{type(error).__name__}: {error}"
            print(f"{name}: {error}", flush=True)
        write_json(folder / "facts.json", content)
    return 0


def launch_one(folder: Path, name: str) -> dict[str, Any]:
    """Check one kernel against its reference, if it has one, and launch it for ncu; return its launch."""
    family = read(folder / f"{name}.json")
    kernel, problem, rng = family.kernels[0], family.problem(), np.random.default_rng(SEED)
    inputs = fills.inputs(family, problem, rng)
    buffers = Buffers.upload(family, problem, inputs)
    code = (folder / f"{name}.cubin").read_bytes()
    launch = launching.launcher(family, kernel, problem, code, buffers)
    expected = references.expected_outputs(family, problem, inputs, rng) if family.reference else {}
    errors = output_errors(family, kernel, problem, launch, buffers, expected)
    launching.profile_once(launch, family, problem)
    described = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return {"family": {**described, "folder": "", "origin": "", "reference": ""}, "errors": errors}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
