"""The kernels compile for every architecture that they are meant for, without spilling."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import tensor_cores
from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import device, toolchain
from ncu_swizzle.kernels import family as catalog
from ncu_swizzle.kernels.catalog import shipped
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.kernels.toolchain import NVCC, OPTIONS, Toolchain, cubin
from tests.support import worked_example
from tests.support.marks import NEEDS_NVCC


def own_kernels() -> Iterator[tuple[Family, Kernel]]:
    return ((family, kernel) for family, kernel in shipped() if not kernel.library)


# What ptxas says of wgmma it says for no other kernels; the rest is for `make test-all`, and the GPU tests compile all.
KERNELS = [
    pytest.param(family, kernel, marks=[pytest.mark.slow] * (not kernel.arch), id=kernel.name)
    for family, kernel in own_kernels()
]


def compile_(family: Family, kernel: Kernel, arch: str, folder: Path) -> str:
    """Compile a kernel as the launching program does, and return what the compiler says of it."""
    folders = [catalog.include_folder(family.folder), *map(toolchain.locate, family.headers)]
    include = [f"-I{folder}" for folder in folders]
    nvcc = str(Toolchain().find(NVCC))
    done = subprocess.run(
        [nvcc, "-cubin", f"-arch={arch}", *OPTIONS, *include, "-Xptxas", "-v", "-Werror", "all-warnings",
         "-o", str(folder / "out.cubin"), str(family.source(kernel))],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.long
@NEEDS_NVCC
@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
@pytest.mark.parametrize(("family", "kernel"), KERNELS)
def test_it_compiles_without_spills(family: Family, kernel: Kernel, arch: str, tmp_path: Path) -> None:
    least = kernel.arch or "sm_{}{}".format(*family.compute_capability)
    if arch < least.rstrip("a"):
        pytest.skip(f"{kernel.name} needs {least}")
    try:
        [toolchain.locate(name) for name in family.headers]
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    said = compile_(family, kernel, family.architecture(kernel, arch), tmp_path)
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said)
    assert "C75" not in said, "wgmma is serialized, or setmaxnreg ignored"


def different_degrees(family: Family, kernel: Kernel) -> dict[str, tuple[float | None, float | None]]:
    """Return the degrees by access kind, stated and predicted, where they differ."""
    predicted = predict.by_kind(predict.target_predictions(Target(family, kernel, family.problem())))
    degrees, stated = {one.access: one.degree for one in predicted}, kernel.degree
    kinds = degrees.keys() | stated.keys()
    return {kind: (stated.get(kind), degrees.get(kind)) for kind in kinds if stated.get(kind) != degrees.get(kind)}


def test_stated_degrees_are_what_arithmetic_predicts() -> None:
    ran = [(family, kernel) for family, kernel in own_kernels() if not family.never_run]
    different = {kernel.name: different_degrees(family, kernel) for family, kernel in ran}
    assert {name: degrees for name, degrees in different.items() if degrees} == {}


def test_the_worked_example_of_contributing_works(tmp_path: Path) -> None:
    family, kernel = worked_example.follow(tmp_path)
    assert kernel.baseline == "kernel1"
    assert different_degrees(family, kernel) == {}
    with contextlib.suppress(EnvironmentLacking):
        assert cubin(family, kernel, "sm_90", Toolchain())


# By an architecture: the GPUs that run its code, and some that do not.
RUNS_ON = {
    "sm_90": ("9.0", "10.0 8.9"),
    "sm_80": ("8.0 8.6 8.9", "9.0 7.5"),
    "sm_90a": ("9.0", "10.0"),
    "sm_100a": ("10.0", "10.3 9.0"),
    "sm_100f": ("10.0 10.3", "12.0 9.0"),
    "sm_103f": ("10.3", "10.0"),
    "sm_120f": ("12.0 12.1", "10.0"),
    "": ("7.5 9.0 12.1", ""),
}


@pytest.mark.parametrize("name", tensor_cores.KERNELS)
def test_kernels_that_never_ran_compute_their_products(name: str) -> None:
    error, tolerance = tensor_cores.error_and_tolerance(name)
    assert error < tolerance


@pytest.mark.parametrize("arch", RUNS_ON)
def test_code_runs_on_its_own_family_of_gpus(arch: str) -> None:
    shipped_family, kernel = next(pair for pair in own_kernels() if not pair[1].arch)
    family = replace(shipped_family, arch=arch)
    for outcome, capabilities in zip((True, False), RUNS_ON[arch], strict=True):
        for capability in capabilities.split():
            pair = tuple(map(int, capability.split(".")))
            gpu = SimpleNamespace(compute_capability=lambda pair=pair: pair, name=lambda: "a GPU")
            with contextlib.nullcontext() if outcome else pytest.raises(UsageError, match="does not run code for"):
                device.refuse_other_architecture(gpu, family, kernel)
