"""The emulated engine beside cuxray, on the same binaries: ``python3 bench/cuxray.py [KERNEL …]``.

The binaries are those in the recordings of the catalogue, and of the stress kernels in tests/data where they were
recorded. Of each access to shared memory that ran, the degree (actual over ideal wavefronts) that a tool gives is held
against the one that ncu counted: right, wrong, or not analysed. cuxray is installed into an environment of its own, in
a temporary folder.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ncu_swizzle import paths
from ncu_swizzle.build.toolchain import NVDISASM, Toolchain  # noqa: E402
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.family import Family, Kernel  # noqa: E402
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines import emulation  # noqa: E402
from ncu_swizzle.errors import NcuSwizzleError  # noqa: E402
from ncu_swizzle.ncurep import (
    container,
    reader,  # noqa: E402
)
from ncu_swizzle.profiles.model import Profile  # noqa: E402

STRESS = ROOT / "tests" / "data" / "stress"
PROGRAM = Path(__file__).with_name("cuxray_accesses.py")
CUXRAY = "cuxray==0.6.0"
RIGHT, WRONG, SILENT = "right", "wrong", "not analysed"
CLOSE = 0.005  # degrees nearer than that are the same

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
    """Yield what was recorded: the catalogue's kernels, then the stress kernels."""
    for family, kernel in collection.shipped():
        report = paths.recordings() / "h100" / family.name / f"{kernel.name}.ncu-rep"
        if report.is_file() and (not names or kernel.name in names):
            result = container.inspect(report).results[0]
            yield Case(family, kernel, reader.read(report)[0], result.function, result.cubin)
    packed = STRESS / "recorded" / "stress.ncu-rep.xz"
    if not packed.is_file():
        return
    kernels = {kernel.name: (family, kernel) for family, kernel in collection.load(STRESS)}
    facts = json.loads((packed.parent / "facts.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "stress.ncu-rep")
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        results = zip(facts["kernels"], container.inspect(report).results, reader.read(report), strict=True)
        for name, result, profile in results:
            if not names or name in names:
                yield Case(*kernels[name], profile, result.function, result.cubin)


def measured(profile: Profile) -> dict[int, float]:
    """Return the degree of each access to shared memory that ran, by offset."""
    first = profile.instructions[0].pc
    return {one.pc - first: one.degree for one in profile.shared() if one.executed and one.degree is not None}


def ours(case: Case) -> Degrees:
    """Return the degrees that the emulated engine gives."""
    if case.kernel.library:
        return {}
    try:
        made = emulation.emulate_cubin(Target(case.family, case.kernel, case.family.problem()), case.cubin)
    except NcuSwizzleError as error:
        print(f"{case.kernel.name}: {error}", file=sys.stderr)
        return {}
    return {one.pc: one.degree for one in made.profile.instructions if one.access}


def theirs(python: Path, folder: Path) -> Callable[[Case], Degrees]:
    """Return a function that asks cuxray, which runs under that Python."""
    nvdisasm = str(Toolchain().find(NVDISASM))

    def ask(case: Case) -> Degrees:
        cubin = folder / "kernel.cubin"
        cubin.write_bytes(case.cubin)
        block = ",".join(map(str, case.recorded.block))
        command = [str(python), "-I", str(PROGRAM), nvdisasm, str(cubin), block]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{case.kernel.name}: cuxray failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return {}
        return {int(address): ways for address, ways in json.loads(done.stdout).get(case.function, {}).items()}

    return ask


def judged(counted: Mapping[int, float], said: Degrees) -> Counter[str]:
    found: Counter[str] = Counter()
    for offset, degree in counted.items():
        answer = said.get(offset)
        found[SILENT if answer is None else RIGHT if abs(answer - degree) < CLOSE else WRONG] += 1
    return found


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
            found = [judged(counted, tool(case)) for tool in (ours, ask)]
            totals = [total + new for total, new in zip(totals, found, strict=True)]
            print(_line(case.kernel.name, found), flush=True)
    print(_line("all", totals))


def _line(name: str, found: list[Counter[str]]) -> str:
    cells = [str(tool[kind]) for tool in found for kind in (RIGHT, WRONG, SILENT)]
    return f"| {name} | {found[0].total()} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
