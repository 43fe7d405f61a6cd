"""The emulated engine and cuxray on the same binaries: ``python3 bench/figures/cuxray.py [KERNEL …]``.

The binaries come from the recordings of the catalogue and, if recorded, of the stress kernels in
bench/recording/stress. For each executed shared-memory access, the degree (actual over ideal wavefronts) that a tool
reports is compared with the one that ncu counted: right, wrong, or not analysed. cuxray is installed into its own
environment in a temporary folder.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base import paths

ROOT = Path(__file__).resolve().parents[2]

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import emulation, reader
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile

STRESS = ROOT / "bench" / "recording" / "stress"
PROGRAM = Path(__file__).with_name("cuxray_accesses.py")
CUXRAY = "cuxray==0.6.0"
RIGHT, WRONG, SILENT = "right", "wrong", "not analysed"
CLOSE = 0.005  # degrees closer than this are equal

Degrees = Mapping[int, float | None]  # by offset


@dataclass(frozen=True)
class Case:
    """A recorded launch: what ncu counted, the cubin, and the kernel in its family."""

    family: Family
    kernel: Kernel
    recorded: Profile
    function: str
    cubin: bytes


def cases(names: list[str]) -> Iterator[Case]:
    """Yield the recorded launches: the catalogue's kernels, then the stress kernels."""
    for family, kernel in catalog.shipped().run():
        report = paths.recordings() / "h100" / family.name / f"{kernel.name}.ncu-rep"
        if report.is_file() and (not names or kernel.name in names):
            result = container.inspect(report).results[0]
            yield Case(family, kernel, reader.read(report)[0], result.function, result.cubin)
    packed = STRESS / "recorded" / "stress.ncu-rep.xz"
    if not packed.is_file():
        return
    kernels = {kernel.name: (family, kernel) for family, kernel in catalog.load(STRESS)}
    facts = json.loads((packed.parent / "facts.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "stress.ncu-rep")
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        results = zip(facts["kernels"], container.inspect(report).results, reader.read(report), strict=True)
        for name, result, profile in results:
            if not names or name in names:
                yield Case(*kernels[name], profile, result.function, result.cubin)


def measured(profile: Profile) -> dict[int, float]:
    """Return the degree of each executed shared-memory access, by offset."""
    first = profile.instructions[0].pc
    return {each.pc - first: each.degree for each in profile.shared() if each.executed and each.degree is not None}


def ours(case: Case) -> Degrees:
    """Return the degrees that the emulated engine computes."""
    if case.kernel.library:
        return {}
    try:
        emulated = emulation.emulate_cubin(Target(case.family, case.kernel, case.family.problem()), case.cubin)
    except NcuSwizzleError as error:
        print(f"{case.kernel.name}: {error}", file=sys.stderr)
        return {}
    return {each.pc: each.degree for each in emulated.profile.instructions if each.access}


def theirs(python: Path, folder: Path) -> Callable[[Case], Degrees]:
    """Return a function that asks cuxray, run by that Python."""
    nvdisasm = str(Toolchain().find(NVDISASM))

    def ask(case: Case) -> Degrees:
        cubin = folder / "kernel.cubin"
        cubin.write_bytes(case.cubin)
        block = ",".join(map(str, case.recorded.block))
        command = [str(python), "-I", str(PROGRAM), nvdisasm, str(cubin), block]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(f"{case.kernel.name}: cuxray failed: {ended.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return {}
        return {int(address): ways for address, ways in json.loads(ended.stdout).get(case.function, {}).items()}

    return ask


def judged(counted: Mapping[int, float], answers: Degrees) -> Counter[str]:
    tally: Counter[str] = Counter()
    for offset, degree in counted.items():
        answer = answers.get(offset)
        tally[SILENT if answer is None else RIGHT if abs(answer - degree) < CLOSE else WRONG] += 1
    return tally


def main() -> None:
    print("| kernel | accesses | ours: right | wrong | not analysed | cuxray: right | wrong | not analysed |")
    print("|---|---|---|---|---|---|---|---|")
    totals = [Counter[str](), Counter[str]()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", CUXRAY], check=True, stdout=sys.stderr)
        ask = theirs(python, folder)
        for case in cases(sys.argv[1:]):
            counted = measured(case.recorded)
            tallies = [judged(counted, tool(case)) for tool in (ours, ask)]
            totals = [total + new for total, new in zip(totals, tallies, strict=True)]
            print(_line(case.kernel.name, tallies), flush=True)
    print(_line("all", totals))


def _line(name: str, tallies: list[Counter[str]]) -> str:
    cells = [str(tally[kind]) for tally in tallies for kind in (RIGHT, WRONG, SILENT)]
    return f"| {name} | {tallies[0].total()} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
