"""What the launching program takes: of a function in a Python file, the kernel that was compiled for this GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.build.toolchain import ARCH
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.frontends.built import Built, built
from ncu_swizzle.ncu import gpu


def launchable(target: Target, folder: Path, timeout_s: float) -> Target:
    """Return a target that can be launched; the cubin of a function in Python is left in the folder."""
    return prepared(target, folder, timeout_s)[0]


def prepared(target: Target, folder: Path, timeout_s: float) -> tuple[Target, Built | None]:
    """Return a target that can be launched, and how it was built, if it is a function in Python."""
    if not target.python:
        return target, None
    found = gpu.devices()
    arch = "sm_{}{}".format(*found[0][1]) if found else ARCH
    made = built(target, arch, timeout_s)
    code = folder / f"{slug(target.name)}.cubin"
    write_atomically(code, made.code)
    kernel = replace(made.target.kernel, cubin=str(code.absolute()))
    return replace(made.target, kernel=kernel, family=replace(made.target.family, kernels=(kernel,))), made


def launchable_together(
    family: Family, kernels: Sequence[Kernel], problem: Mapping[str, int], folder: Path, timeout_s: float
) -> tuple[Family, Sequence[Kernel]]:
    """Return a family and kernels of it that can be launched in turn; raise UsageError if their launches differ."""
    made = [launchable(Target(family, kernel, dict(problem)), folder, timeout_s) for kernel in kernels]
    if all(target.family is family for target in made):
        return family, kernels
    alike = {(each.family.grid, each.family.block, each.family.shared, each.family.arguments) for each in made}
    if len(alike) > 1:
        names = " and ".join(kernel.name for kernel in kernels[:2])
        raise UsageError(
            f"{names} are launched differently, and so not timed in turn", f"ncu-swizzle run {kernels[0].name}"
        )
    compiled = tuple(target.kernel for target in made)
    return replace(made[0].family, kernels=compiled), compiled
