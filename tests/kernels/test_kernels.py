"""The kernels compile for every architecture that they are meant for, without spilling."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import family as catalog
from ncu_swizzle.kernels import recipe
from ncu_swizzle.kernels.catalog import shipped
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.kernels.recipe import OPTIONS
from tests.support import worked_example

# CuTe's headers take ten seconds a kernel; the GPU tests compile them all.
SLOW = {"cute-8x8-plain", "cute-8x8-swizzled", "cute-128x32-plain", "cute-128x32-swizzled", "cute-columns-plain",
        "cute-columns-half"}  # fmt: skip


def own_kernels() -> Iterator[tuple[Family, Kernel]]:
    return ((family, kernel) for family, kernel in shipped() if not kernel.library)


KERNELS = [(family, kernel) for family, kernel in own_kernels() if kernel.name not in SLOW]


def compile_(family: Family, kernel: Kernel, arch: str, folder: Path) -> str:
    """Compile a kernel as the launching program does, and return what the compiler says of it."""
    folders = [catalog.include_folder(family.folder), *map(recipe.locate, family.headers)]
    include = [f"-I{folder}" for folder in folders]
    done = subprocess.run(
        ["nvcc", "-cubin", f"-arch={arch}", *OPTIONS, *include, "-Xptxas", "-v", "-Werror", "all-warnings",
         "-o", str(folder / "out.cubin"), str(family.source(kernel))],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
@pytest.mark.parametrize(("family", "kernel"), KERNELS, ids=[kernel.name for _, kernel in KERNELS])
def test_it_compiles_without_spills(family: Family, kernel: Kernel, arch: str, tmp_path: Path) -> None:
    least = kernel.arch or "sm_{}{}".format(*family.compute_capability)
    if arch < least.rstrip("a"):
        pytest.skip(f"{kernel.name} needs {least}")
    try:
        [recipe.locate(name) for name in family.headers]
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    said = compile_(family, kernel, family.architecture(kernel, arch), tmp_path)
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said)
    assert "C75" not in said, "wgmma is serialized, or setmaxnreg ignored"


@pytest.mark.parametrize(("family", "kernel"), list(own_kernels()), ids=lambda item: item.name)
def test_stated_degrees_are_what_arithmetic_predicts(family: Family, kernel: Kernel) -> None:
    predicted = predict.by_kind(predict.target_predictions(Target(family, kernel, family.problem())))
    assert {one.access: one.degree for one in predicted} == dict(kernel.degree)


def test_the_worked_example_of_contributing_works(tmp_path: Path) -> None:
    family, kernel = worked_example.follow(tmp_path)
    assert kernel.baseline == "kernel1"
    test_stated_degrees_are_what_arithmetic_predicts(family, kernel)
    if shutil.which("nvcc"):
        compile_(family, kernel, "sm_90", tmp_path)
