"""Fixes of the kernels of tests/data/fix, right and wrong: written by hand, mutated, and what becomes of them."""

import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.kernels import catalog, naming, project
from ncu_swizzle.kernels.family import Family, Target
from tests.support.places import DATA

CORPUS = DATA / "fix"


def specs() -> dict[str, Target]:
    """Return all kernels of the corpus by name, in the order of its file, those in CuTe last."""
    families = [*_described(CORPUS), *[family for family, _ in catalog.load(CORPUS / "families")][:1]]
    return _targets(families)


def _described(folder: Path) -> list[Family]:
    """Return the kernels that a folder's project file describes."""
    return [naming.family_of_spec(spec) for spec in project.specs(project.project_in(folder / project.OWN))]


def _targets(families: Iterable[Family]) -> dict[str, Target]:
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


OnceEmulated = Callable[[str], Executable]
"""Emulates a kernel of the corpus by its name, once."""
Projects = Callable[[str], Path]
"""Copies a project to fix by its name, and makes it the current folder."""


REFUSED: dict[str, tuple[str, str, int]] = {
    name: tuple(why) for name, why in json.loads((CORPUS / "refused.json").read_text(encoding="utf-8")).items()
}
"""What stands in the way of a proof: the beginning of the reason, and the line."""


@dataclass(frozen=True)
class Fix:
    """What to write in place of what, and the arrays that move; `shared` is the new dynamic shared memory."""

    edits: tuple[tuple[str, str], ...]
    moved: tuple[str, ...]
    shared: str = ""

    def text(self, target: Target) -> str:
        """Return the new source."""
        text = target.source.read_text(encoding="utf-8")
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def apply(name: str, folder: Path) -> tuple[Target, Target]:
    """Return a kernel of the corpus, and its fixed version in a folder of its own."""
    target, fix = specs()[name], FIXES[name]
    return target, with_text(target, fix.text(target), folder, fix.shared)


FIXES: dict[str, Fix] = {
    name: Fix(
        edits=tuple((old, new) for old, new in fix["edits"]),
        moved=tuple(fix["moved"]),
        shared=fix.get("shared", ""),
    )
    for name, fix in tomllib.loads((CORPUS / "fixes.toml").read_text(encoding="utf-8")).items()
}


FOLDER = CORPUS / "adversaries"
PLAIN, XOR = "#define AT(y, x) tile[y][x]\n", "#define AT(y, x) tile[y][(x) ^ (y)]\n"


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """A kernel, and by what they do edits that are wrong: each replaces one text by another, once.

    A tile of 32 rows and columns that a macro AT accesses is mapped by an XOR in every version.
    """

    target: Target
    wrong: Mapping[str, tuple[str, str]]

    @property
    def right(self) -> str:
        """A version that means the same: mapped, and one line further down."""
        return "\n" + self._text.replace(PLAIN, XOR)

    def version(self, what: str) -> str:
        """Return a wrong version."""
        old, new = self.wrong[what]
        assert old in self._text, old
        return self._text.replace(old, new, 1).replace(PLAIN, XOR)

    @property
    def _text(self) -> str:
        return self.target.source.read_text(encoding="utf-8")


def adversaries() -> dict[str, Adversary]:
    """Return all by the names of their kernels."""
    targets = _targets(_described(FOLDER))
    edits = tomllib.loads((FOLDER / "edits.toml").read_text(encoding="utf-8"))
    return {
        name: Adversary(target=targets[name], wrong={what: (old, new) for what, (old, new) in wrong.items()})
        for name, wrong in edits.items()
    }
