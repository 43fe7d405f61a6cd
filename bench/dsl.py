"""Kernels written in Python, counted by ncu on an H100 and computed here from the same cubins: ``python3 bench/dsl.py``.

A row per kernel: accesses whose wavefronts and ideal are equal, different, and unknown here. The recordings are those of
tests/data/python; NAME … selects kernels, ``--details`` prints every access that differs or is unknown.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "data" / "python" / "recorded" / "h100.tar.xz"
sys.path.insert(0, str(ROOT))

from ncu_swizzle.catalog import family_json
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import NcuSwizzleError


@dataclass(frozen=True)
class Counted:
    """One access: its offset, SASS opcode and line, and its counts on the GPU and here; None if unknown."""

    offset: int
    opcode: str
    line: str
    measured: tuple[int | None, ...]  # executed, wavefronts, ideal
    computed: tuple[int | None, ...]

    @property
    def unknown(self) -> bool:
        return None in self.computed

    @property
    def equal(self) -> bool:
        return self.measured == self.computed


@dataclass(frozen=True)
class CountedKernel:
    """A recorded kernel: its compiler, its accesses, and why some are unknown."""

    name: str
    compiler: str
    accesses: tuple[Counted, ...]
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> int:
        return sum(access.equal for access in self.accesses)

    @property
    def unknown(self) -> int:
        return sum(access.unknown for access in self.accesses)

    @property
    def different(self) -> int:
        return len(self.accesses) - self.equal - self.unknown


def recorded(archive: Path = RECORDED) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what was recorded, and the cubins by kernel."""
    with tarfile.open(archive) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers()}
    return json.loads(files.pop("facts.json")), {name.removesuffix(".cubin"): data for name, data in files.items()}


def compared(name: str, facts: dict[str, Any], code: bytes) -> CountedKernel:
    """Emulate a recorded launch and hold every access to shared memory against ncu's counts."""
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "family.json"
        described.write_text(json.dumps({**facts["family"], "folder": folder}), encoding="utf-8")
        family = replace(family_json.read(described), folder=ROOT / "examples" / "python")
    target = Target(family, family.kernels[0], family.problem())
    emulated = emulation.emulate_cubin(target, code, facts["compiler"], EmulationSettings())
    here = {access.pc: access for access in emulated.profile.instructions if access.access}
    accesses = []
    for offset, opcode, _, executed, wavefronts, ideal, *line in facts["counts"]["accesses"]:
        access = here.get(offset)
        computed = (access.executed, access.wavefronts, access.ideal) if access else (0, 0, 0)
        place = f"{Path(line[0][0]).name}:{line[0][1]}" if line else ""
        accesses.append(Counted(offset, opcode, place, (executed, wavefronts, ideal), computed))
    return CountedKernel(name, facts["compiler"], tuple(accesses), emulated.profile.notes)


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if anything differs."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    content, cubins = recorded()
    machine = content["machine"]
    print(f"Recorded on {machine['gpu']}, driver {machine['driver']}, ncu {machine['ncu']}.\n")
    print("| kernel | compiler | accesses | equal | different | unknown |\n|---|---|---:|---:|---:|---:|")
    rows = []
    for name, facts in content["kernels"].items():
        if names and name not in names:
            continue
        try:
            row = compared(name, facts, cubins[name])
        except NcuSwizzleError as error:
            every = len(facts["counts"]["accesses"])
            print(f"| {name} | {facts['compiler']} | {every} | 0 | 0 | {every}: {error} |", flush=True)
            continue
        rows.append(row)
        print(f"| {name} | {row.compiler} | {len(row.accesses)} | {row.equal} | {row.different} | {row.unknown} |", flush=True)
        if "--details" in arguments:
            show(row)
    total, equal = sum(len(row.accesses) for row in rows), sum(row.equal for row in rows)
    unknown, different = sum(row.unknown for row in rows), sum(row.different for row in rows)
    print(f"\n{len(rows)} kernels, {total} accesses: {equal} equal, {different} different, {unknown} unknown.")
    return 1 if different else 0


def show(row: CountedKernel) -> None:
    for access in row.accesses:
        if not access.equal:
            print(f"    {access.offset:#x} {access.opcode} {access.line}: ncu {access.measured}, here {access.computed}")
    for note in row.notes:
        print(f"    {note}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
