"""Functions of CuTe DSL's, compiled here without a GPU."""

from pathlib import Path

import pytest

from ncu_swizzle.frontends.compiled import Built, built
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from tests.support.process import run
from tests.support.python_kernels import EXAMPLES, NEEDS_CUTE_DSL, OURS, Linted, Profiled, Refused, line_of

pytestmark = [NEEDS_CUTE_DSL, pytest.mark.long]

SQUARE = ("--arg", "x=float32[256,256]", "--arg", "y=float32[256,256]:out")
PRODUCT = ("--problem", "m=256,n=256,k=128", "--arg", "a=float16[m,k]", "--arg", "b=float16[n,k]",
           "--arg", "c=float16[m,n]:out")  # fmt: skip


def described(name: str) -> Built:
    """Return a kernel of the examples' project file, compiled."""
    catalog = naming.everything(CatalogOptions(str(EXAMPLES / "ncu-swizzle.toml"), trust=True))
    family, kernel = next((family, kernel) for family, kernel in catalog if kernel.name == name)
    return built(Target(family, kernel, family.problem()), "sm_90", 120)


def test_a_conflict_is_on_the_line_of_python_that_has_it(cute: Path, linted: Linted) -> None:
    line = line_of(cute / "cute_kernels.py", "target[row + step, column] = held[column, row + step]")
    code, said = linted("cute_kernels.py::transpose", *SQUARE)
    assert (code, "LDS: degree 32" in said, f"(cute_kernels.py:{line})" in said) == (1, True, True), said
    code, said = linted("cute_kernels.py::transpose", *SQUARE, "--arg", "WIDTH=33")
    assert code == 0, said


def test_an_access_in_a_function_of_another_file_has_its_callers(cute: Path, profiled: Profiled) -> None:
    profile = profiled("kernels.py::turn", "--arg", "x=float32[32,32]", "--arg", "y=float32[32,32]:out")
    inner = line_of(cute / "helpers.py", "tile[row, column] = value")
    outer = line_of(cute / "kernels.py", "put(tile, row, thread, x[row, thread])")
    stacks = {access.stack for access in profile.instructions if access.access == "STS"}
    assert stacks == {(("helpers.py", inner), ("kernels.py", outer))}


@pytest.mark.usefixtures("cute")
def test_the_host_function_says_how_the_kernel_is_launched(profiled: Profiled) -> None:
    profile = profiled("cute_kernels.py::tensor_core", *PRODUCT)
    assert (profile.grid, profile.block) == ((2, 2, 1), (128, 1, 1))
    assert profile.metrics["launch__shared_mem_per_block_dynamic"].value == 2 * 128 * 32 * 2
    assert profile.sources.keys() == {"cute_kernels.py"}


def test_a_tensor_map_points_to_a_matrix_that_is_no_parameter_and_a_dynamic_layout_passes_sizes_and_strides() -> None:
    hopper = described("cute-hopper")
    arguments = {argument.name: argument for argument in hopper.target.family.arguments}
    assert arguments["parameter0"].value.startswith("pointer:a+0,uint64:")
    assert arguments["parameter1"].value.startswith("pointer:b+0,uint64:")
    assert [name for name, argument in arguments.items() if not argument.passed] == ["a", "b"]
    assert arguments["c"].passed
    assert described("cute-hopper").target.family.arguments == hopper.target.family.arguments
    dynamic = described("cute-row-sums-dynamic").target.family
    assert dynamic.arguments[0].value == f"pointer:x+0,uint64:{2000 << 32 | 512},uint64:2000"
    assert dynamic.launch.grid == ("512", "1", "1")


def test_one_of_several_kernels_is_named_and_an_object_that_is_called_is_compiled_with_its_cluster(
    cute: Path, refused: Refused, profiled: Profiled
) -> None:
    array = ("--arg", "x=float32[64]")
    wrong = line_of(cute / "several.py", "first(x, 7).launch(grid=[1, 1, 1], block=[64, 1, 1])")
    for name, said, hint in (
        ("both", "both launches first, second", "name one: "),
        ("both::third", "both::third launches first, second, not third", ""),
        ("first", "first is under @cute.kernel; a function under @cute.jit launches it", "name that: "),
        ("none", "none launches no kernel", ""),
        ("broken", f"broken does not compile for sm_90:\nline {wrong}: error[ARG_BIND_FAILED]: ", ""),
    ):
        error, offered = refused(f"several.py::{name}", *array)
        assert said in error
        assert offered.startswith(hint)
    done = run("profile", "several.py::both::second", *array, *OURS, folder=cute)
    assert "second is launched 2 times; this is the first of them." in done.stdout
    assert profiled("several.py::both::second", *array).grid == (2, 1, 1)
    assert profiled("several.py::doubled", *array, "--arg", "scale=2.5").grid == (8, 1, 1)
