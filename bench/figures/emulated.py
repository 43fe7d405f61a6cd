"""The emulated engine compared with the recordings: ``python3 bench/figures/emulated.py [KERNEL …] [--write]``.

For each kernel of the catalogue: how many instructions that access shared memory have executions, wavefronts and
ideal wavefronts all equal to what ncu counted, different, or unknown; the same of the figures in other columns that the
catalogue's kernels were measured with (threads, sectors, tags, divergence; on an H200, whose sm_90 is the recordings'
H100's: tests/data/memory_catalog_h200.json.xz); the time from an empty cache, compilation included; the peak memory of
the process or the compiler. ``--write`` puts the table into docs/emulated.md. ``--measure FILE`` writes such a file on
a machine with a GPU and ncu, and is all it does.

Code of another compiler: ``--nvcc NVCC --build FOLDER`` compiles the kernels, ``--measure FILE --built FOLDER`` has ncu
count these cubins, and ``--nvcc NVCC --counted FILE`` compares all columns with that file, in place of the recordings.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base import paths

ROOT = Path(__file__).resolve().parents[2]

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.engines import emulation, machine, ncu, reader
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.settings import Options
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.model import Profile

MEASURED = ROOT / "tests" / "data" / "memory_catalog_h200.json.xz"
COMPILER = "compiler.txt"  # beside cubins: which release made them
TIMEOUT_S = 120  # of a family under ncu
PAGE = ROOT / "docs" / "emulated.md"
MARK = re.compile(
    r"(<!-- emulated: written by bench/figures/emulated.py -->\n).*?(<!-- end of emulated -->)", re.DOTALL
)
HEAD = [
    "| kernel | problem | equal | different | unknown | figures | blocks run | seconds | MB |",
    "|---|---|---|---|---|---|---|---|---|",
]


Counts = tuple[int | None, int | None, int | None]  # of an access: executed, wavefronts, ideal


def accesses_in(profile: Profile) -> dict[int, Counts]:
    """Return the counts of the accesses to shared memory in what ncu measured, by offset."""
    first = profile.instructions[0].pc
    return {
        each.pc - first: (each.executed, each.wavefronts, each.ideal) for each in profile.instructions if each.access
    }


def compared(emulated: Profile, recorded: Mapping[int, Counts]) -> dict[str, int]:
    """Return how many shared-memory accesses are equal, different and unknown; extra or missing ones are different."""
    theirs = dict(recorded)
    tally = dict.fromkeys(("equal", "different", "unknown"), 0)
    for ours in emulated.instructions:
        other = theirs.pop(ours.pc, None)
        if not ours.access and other is None:
            continue
        if ours.access and None in (ours.executed, ours.wavefronts, ours.ideal):
            tally["unknown"] += 1
        elif other is None:
            tally["equal" if not ours.executed else "different"] += 1  # ncu omits instructions that never executed
        else:
            tally["equal" if (ours.executed, ours.wavefronts, ours.ideal) == other else "different"] += 1
    tally["different"] += len(theirs)
    return tally


def build(folder: Path, compiler: Toolchain) -> None:
    """Write the cubin of each kernel that runs on an H100, and what compiled it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COMPILER).write_text(compiler.version() + "\n", encoding="utf-8")
    for family, kernel in catalog.shipped().run():
        if not kernel.library:
            arch = family.architecture(kernel, toolchain.ARCH)
            code = toolchain.cubin(family, kernel, arch, compiler, cached=False)
            (folder / f"{kernel.name}.cubin").write_bytes(code)
            print(f"{kernel.name}: {len(code):,} bytes", flush=True)


def measure_all(file: Path, built: Path | None) -> None:
    """Launch each family's kernels under one ncu; write their figures, by kernel and offset."""
    compiler = (built / COMPILER).read_text(encoding="utf-8").strip() if built else Toolchain().version()
    kept: dict[str, Any] = {"compiler": compiler, "accesses": {}, "columns": {}}
    for family in catalog.shipped().families:
        if family.never_run:
            continue
        with tempfile.TemporaryDirectory() as folder:
            report, names = Path(folder, "all.ncu-rep"), own(family.name)
            command = [sys.executable, __file__, "--launch", family.name, *(["--built", str(built)] if built else [])]
            try:
                options = Options(launch_count=len(names))
                ncu.collect(machine.find(), command, report, options, TIMEOUT_S, paths.child_environment())
            except NcuSwizzleError as error:
                print(f"{family.name}: {error}", file=sys.stderr)
                continue
            for name, profile in zip(names, reader.read(report), strict=True):
                first = profile.instructions[0].pc
                kept["accesses"][name] = accesses_in(profile)
                kept["columns"][name] = {each.pc - first: each.traffic.known for each in profile.instructions}
        print(f"{family.name}: {len(names)} kernels", flush=True)
        file.write_bytes(lzma.compress(json.dumps(kept, sort_keys=True).encode()))


def own(family: str) -> list[str]:
    """Return the names of a family's kernels that are compiled from the catalogue."""
    return [kernel.name for each, kernel in catalog.shipped() if each.name == family and not kernel.library]


def launch(name: str, built: Path | None) -> None:
    """Check a family's kernels and launch each once for ncu, in this process; `built` has their cubins."""
    from ncu_swizzle.kernels import launching
    from ncu_swizzle.kernels.__main__ import prepare

    family, kernels = catalog.shipped().named_together(own(name))
    if built:
        kernels = [replace(kernel, cubin=str(built.absolute() / f"{kernel.name}.cubin")) for kernel in kernels]
    problem, gpu = family.problem(), launching.open_device()
    for run in prepare(family, kernels, problem, gpu, {"seed": 1, "errors": {}}).values():
        launching.profile_once(run, family, problem)


def kept_in(file: Path, what: str, name: str) -> dict[int, Any]:
    """Return what a measured file has of a kernel, by offset."""
    content = json.loads(lzma.decompress(file.read_bytes()))[what] if file.exists() else {}
    return {int(offset): counts for offset, counts in content.get(name, {}).items()}


def measure(name: str, nvcc: Path | None, counted: Path | None) -> dict[str, object]:
    """Emulate one kernel in this process and compare it with its recording, or with what was counted of its code."""
    from bench.oracles.counted import figures  # with what only tests need

    family, kernel = catalog.shipped().named(name)
    if counted:
        recorded = {offset: tuple(counts) for offset, counts in kept_in(counted, "accesses", name).items()}
    else:
        recorded = accesses_in(reader.read(paths.recordings() / "h100" / family.name / f"{name}.ncu-rep")[0])
    start = time.perf_counter()
    settings = EmulationSettings(Toolchain(nvcc))
    emulated = emulation.emulate_target(Target(family, kernel, family.problem()), settings)
    seconds = time.perf_counter() - start
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ran = f"{emulated.counts.blocks_run:,} of {emulated.counts.blocks:,}"
    sizes = in_words(family.problem())
    ours = ((each.pc, each.traffic) for each in emulated.profile.instructions)
    told = {"problem": sizes, "ran": ran, "seconds": seconds, "mb": most / 1024}
    return {
        **compared(emulated.profile, recorded),
        **told,
        "figures": figures(ours, kept_in(counted or MEASURED, "columns", name)),
    }


def line(name: str, options: Sequence[str]) -> str:
    """Return a kernel's line of the table, computed in a separate process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        command = [sys.executable, __file__, "--kernel-as-json", name, *options]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        return f"| {name} | {ended.stderr.strip().splitlines()[-1]} | | | | | | | |"
    result = json.loads(ended.stdout)
    counts = f"{result['equal']} | {result['different']} | {result['unknown']}"
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in result["figures"].items())
    costs = f"{result['ran']} | {result['seconds']:.1f} | {result['mb']:.0f}"
    return f"| {name} | {result['problem']} | {counts} | {said} | {costs} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulated.md")
    parser.add_argument("--kernel-as-json", help="print one kernel's result as JSON")
    parser.add_argument(
        "--measure", type=Path, metavar="FILE", help="on a GPU: write ncu's figures beside shared memory"
    )
    parser.add_argument("--launch", metavar="FAMILY", help="launch its kernels, for --measure")
    parser.add_argument("--nvcc", type=Path, help="another compiler")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="write the cubins")
    parser.add_argument("--built", type=Path, metavar="FOLDER", help="measure these cubins")
    parser.add_argument("--counted", type=Path, metavar="FILE", help="compare with what --measure wrote")
    arguments = parser.parse_args()
    if arguments.build:
        build(arguments.build, Toolchain(arguments.nvcc))
    elif arguments.measure:
        measure_all(arguments.measure, arguments.built)
    elif arguments.launch:
        launch(arguments.launch, arguments.built)
    elif arguments.kernel_as_json:
        try:
            print(json.dumps(measure(arguments.kernel_as_json, arguments.nvcc, arguments.counted)))
        except NcuSwizzleError as error:
            sys.exit(f"{type(error).__name__}: {error}; {error.hint}")
    else:
        ran = [kernel.name for _, kernel in catalog.shipped().run() if not kernel.library]
        given = {"--nvcc": arguments.nvcc, "--counted": arguments.counted}
        options = [part for name, value in given.items() if value for part in (name, str(value.absolute()))]
        table(arguments.kernels or ran, arguments.write, options)


def table(names: list[str], write: bool, options: Sequence[str]) -> None:
    """Print a line for each kernel; put them into the page, if wanted."""
    lines = list(HEAD)
    print("\n".join(lines), flush=True)
    for name in names:
        lines.append(line(name, options))
        print(lines[-1], flush=True)
    cells = [[cell.strip() for cell in row.split("|")] for row in lines[len(HEAD) :]]
    done = [counts for _, _, _, *counts in cells if counts[0]]
    equal, different, unknown = (sum(int(counts[place]) for counts in done) for place in range(3))
    print(f"\n{len(done)} of {len(names)} kernels: {equal:,} equal, {different:,} different, {unknown:,} unknown")
    if len(done) < len(names):
        sys.exit("nothing is written: a kernel could not be compiled" if write else 1)
    if write:
        text, rows = PAGE.read_text(encoding="utf-8"), "\n".join(lines)
        PAGE.write_text(MARK.sub(lambda match: f"{match[1]}{rows}\n{match[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
