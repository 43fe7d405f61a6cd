"""Functions of CuTe DSL's: what their compiled launches take for parameters. What commands say of them is a session."""

import pytest

from ncu_swizzle.frontends.compiled import Built, built
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from tests.support.python_kernels import EXAMPLES, NEEDS_CUTE_DSL

pytestmark = [NEEDS_CUTE_DSL, pytest.mark.long]


def described(name: str) -> Built:
    """Return a kernel of the examples' project file, compiled."""
    catalog = naming.everything(CatalogOptions(str(EXAMPLES / "ncu-swizzle.toml"), trust=True))
    family, kernel = next((family, kernel) for family, kernel in catalog if kernel.name == name)
    return built(Target(family, kernel, family.problem()), "sm_90", 120)


def test_a_tensor_map_points_to_a_matrix_that_is_no_parameter_and_a_dynamic_layout_passes_sizes_and_strides() -> None:
    hopper = described("cute-hopper")
    arguments = {argument.name: argument for argument in hopper.target.family.arguments}
    assert arguments["parameter0"].value.startswith("pointer:a+0,int64:")
    assert arguments["parameter1"].value.startswith("pointer:b+0,int64:")
    assert [name for name, argument in arguments.items() if not argument.passed] == ["a", "b"]
    assert arguments["c"].passed
    assert described("cute-hopper").target.family.arguments == hopper.target.family.arguments
    dynamic = described("cute-row-sums-dynamic").target.family
    assert dynamic.arguments[0].value == f"pointer:x+0,int64:{2000 << 32 | 512},int64:2000"
    assert dynamic.launch.grid == ("512", "1", "1")
