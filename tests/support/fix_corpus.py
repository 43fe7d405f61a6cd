"""The kernels of tests/data/fix, as they are and with other sources."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.kernels import build, catalog, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.project import specs as specs_project_kernels
from tests.support.places import DATA

CORPUS = DATA / "fix"


def specs() -> dict[str, Target]:
    """Return all kernels of the corpus by name, in the order of its file, those in CuTe last."""
    settings = project.project_in(CORPUS / project.OWN)
    families = [build.family_of(spec) for spec in specs_project_kernels(settings)]
    families += [family for family, _ in catalog.load(*settings.catalog)][:1]
    return {kernel.name: Target(family, kernel, family.problem()) for family in families for kernel in family.kernels}


def with_text(target: Target, text: str, folder: Path, shared: str = "") -> Target:
    """Return a kernel with another source, and maybe other dynamic shared memory, in a folder of its own."""
    if not target.family.standalone:
        folder = folder.joinpath(*target.family.folder.parts[-2:])
    folder.mkdir(parents=True, exist_ok=True)
    for header in target.family.folder.glob("*.cuh"):
        shutil.copy(header, folder)
    (folder / target.source.name).write_text(text, encoding="utf-8")
    launch = replace(target.family.launch, shared=shared or target.family.launch.shared)
    family = replace(target.family, folder=folder, launch=launch)
    return Target(family, target.kernel, target.problem)


class OnceEmulated(Protocol):
    """Emulates a kernel of the corpus by its name, once."""

    def __call__(self, name: str) -> Executable: ...


class Projects(Protocol):
    """Copies a project to fix by its name, and makes it the current folder."""

    def __call__(self, name: str) -> Path: ...


def described_too(project: Path, name: str, source: str) -> None:
    """Add a kernel to a project, launched as its first one is."""
    file = project / "ncu-swizzle.toml"
    described = file.read_text(encoding="utf-8")
    first = described.partition("\n\n")[0]
    launch = "\n".join(line for line in first.splitlines() if not line.startswith(("[", "source", "entry")))
    file.write_text(
        f'{described}\n[kernel.{name}]\nsource = "{source}"\nentry = "{name}"\n{launch}\n', encoding="utf-8"
    )


REFUSED: dict[str, tuple[str, str, int]] = {
    name: tuple(why) for name, why in json.loads((CORPUS / "refused.json").read_text(encoding="utf-8")).items()
}
"""What stands in the way of a proof: the beginning of the reason, and the line."""
