"""Kernels with wrong versions of the kinds that no mapping of a tile makes, but a careless edit does.

Barriers, fences and waits left out or moved; guards; types; what only one block, or only the last one, does. They are
in tests/data/fix/adversaries, where edits.toml has their wrong versions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.fix.excess import Moved
from ncu_swizzle.kernels import build, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.project import specs
from tests.support.fix_corpus import CORPUS, with_text
from tests.support.fixes import array, swizzled

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
    def moved(self) -> list[Moved]:
        return [array("tile", 1024, 4, swizzled(32))] if PLAIN in self._text else []

    def right(self, folder: Path) -> Target:
        """Return a version that means the same: mapped, and one line further down."""
        return with_text(self.target, "\n" + self._text.replace(PLAIN, XOR), folder / "right")

    def version(self, what: str, folder: Path) -> Target:
        """Return a wrong version in a folder of its own."""
        old, new = self.wrong[what]
        assert old in self._text, old
        text = self._text.replace(old, new, 1).replace(PLAIN, XOR)
        return with_text(self.target, text, folder / str(list(self.wrong).index(what)))

    @property
    def _text(self) -> str:
        return self.target.source.read_text(encoding="utf-8")


def adversaries() -> dict[str, Adversary]:
    """Return all by the names of their kernels."""
    families = [build.family_of(spec) for spec in specs(project.project_in(FOLDER / project.OWN))]
    targets = {family.kernels[0].name: Target(family, family.kernels[0], family.problem()) for family in families}
    edits = tomllib.loads((FOLDER / "edits.toml").read_text(encoding="utf-8"))
    return {
        name: Adversary(target=targets[name], wrong={what: (old, new) for what, (old, new) in wrong.items()})
        for name, wrong in edits.items()
    }
