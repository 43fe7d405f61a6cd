"""The recorded kernels of examples/python: ncu's counts on an H100, held against those computed from the cubins."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ncu_swizzle.engines import emulation
from ncu_swizzle.kernels.family import Target, read
from tests.support.places import DATA, ROOT

ARCHIVES = DATA / "python" / "recorded"  # one of what was compiled there, one of what was compiled elsewhere
EXAMPLES = ROOT / "examples" / "python"
FACTS = "facts.json"


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


@cache
def recorded() -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what was recorded, and the cubins by kernel."""
    facts: dict[str, Any] = {}
    cubins: dict[str, bytes] = {}
    for path in sorted(ARCHIVES.glob("*.tar.xz"), key=lambda path: len(path.name)):
        with tarfile.open(path) as archive:
            files = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
            content = {name: file.read() for name, file in files.items() if file}
        found = json.loads(content.pop(FACTS))
        assert found["machine"] == facts.get("machine", found["machine"]), f"{path} is of another machine"
        facts = {**found, "kernels": {**facts.get("kernels", {}), **found["kernels"]}}
        cubins |= {name.removesuffix(".cubin"): data for name, data in content.items()}
    return facts, cubins


def _with_launch(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a family or kernel as it is written today; recordings have its launch beside its other fields."""
    old = {name: value for name, value in entry.items() if name in ("grid", "block", "shared", "cluster")}
    launch = {"grid": [], "block": [], "shared": "", "cluster": [], **old}
    return {"launch": launch, **{name: value for name, value in entry.items() if name not in old}}


def launched(name: str) -> Target:
    """Return the launch of a recorded kernel."""
    facts = recorded()[0]["kernels"][name]
    family = _with_launch(facts["family"])
    family["kernels"] = [_with_launch(kernel) for kernel in family["kernels"]]
    with TemporaryDirectory() as folder:
        described = Path(folder) / "family.json"
        described.write_text(json.dumps({**family, "folder": folder}), encoding="utf-8")
        family = replace(read(described), folder=EXAMPLES)
    return Target(family, family.kernels[0], family.problem())


def counted(name: str) -> CountedKernel:
    """Emulate a recorded launch and hold every access to shared memory against ncu's counts."""
    content, cubins = recorded()
    facts = content["kernels"][name]
    profile = emulation.emulate_cubin(launched(name), cubins[name], facts["compiler"]).profile
    here = {access.pc: access for access in profile.instructions if access.access}
    accesses = []
    for offset, opcode, _, executed, wavefronts, ideal, *line in facts["counts"]["accesses"]:
        access = here.get(offset)
        computed = (access.executed, access.wavefronts, access.ideal) if access else (None, None, None)
        place = f"{Path(line[0][0]).name}:{line[0][1]}" if line else ""
        accesses.append(Counted(offset, opcode, place, (executed, wavefronts, ideal), computed))
    return CountedKernel(name, facts["compiler"], tuple(accesses), profile.notes)
