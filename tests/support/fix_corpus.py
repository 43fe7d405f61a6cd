"""The kernels of tests/data/fix, as they are and with other sources."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog import kernel_spec, project, project_kernels
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Context, Request
from ncu_swizzle.profiles.engine import EMULATED, Engine
from tests.support.places import DATA

CORPUS = DATA / "fix"


def specs() -> dict[str, Target]:
    """Return all kernels of the corpus by name, in the order of its file."""
    described = project_kernels.specs(project.read(CORPUS / project.OWN))
    families = [kernel_spec.family(spec) for spec in described]
    return {kernel.name: Target(family, kernel, family.problem()) for family in families for kernel in family.kernels}


def with_text(target: Target, text: str, folder: Path, shared: str = "") -> Target:
    """Return a kernel with another source, and maybe other dynamic shared memory, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for header in target.family.folder.glob("*.cuh"):
        shutil.copy(header, folder)
    (folder / target.source.name).write_text(text, encoding="utf-8")
    family = replace(target.family, folder=folder, shared=shared or target.family.shared)
    return Target(family, target.kernel, target.problem)


def context(folder: Path, timeout_s: float = 60) -> Context:
    """Return the context of the emulated engine."""
    return Context(Request(EMULATED, timeout_s=timeout_s), Engine(EMULATED), folder)
