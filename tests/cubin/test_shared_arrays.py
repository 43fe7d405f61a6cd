"""Shared arrays lie where the compiled code accesses them."""

import itertools
from functools import cache

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import find
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

pytestmark = NEEDS_ALL
SOURCE = (DATA / "kernels" / "shared_arrays.cu").read_text(encoding="utf-8")


@cache
def many() -> Cubin:
    return Cubin(Toolchain().compile(SOURCE, ["-lineinfo", "-O3", "-std=c++17"], "sm_90", []), "many.cubin")


def arrays(kernel: str) -> list[SharedArray]:
    return list(shared_arrays(many(), find(many(), kernel), 4096))


def test_each_kernel_has_its_own() -> None:
    assert [(array.name, array.start, array.size) for array in arrays("other")] == [("z", 1024, 16)]


def test_names_are_those_of_the_source() -> None:
    found = arrays("ns::many<32, float>")
    assert {array.name for array in found} == {"everywhere", "inner", "odd", "tile", "q", "dynamic"}
    assert len([array for array in found if array.name == "q"]) == 2
    assert [array.name for array in found if array.dynamic] == ["dynamic"]


def test_they_are_aligned_and_do_not_overlap() -> None:
    for kernel in ("ns::many<32, float>", "ns::many<16, double>"):
        found = arrays(kernel)
        assert all(array.start % array.align == 0 for array in found)
        assert all(one.start + one.size <= other.start for one, other in itertools.pairwise(found))
        assert next(array for array in found if array.name == "tile").align == 128


def test_nothing_is_claimed_without_the_ptx() -> None:
    bare = Cubin(Toolchain().compile(SOURCE, ["-O3", "-std=c++17"], "sm_90", []), "bare.cubin")
    assert shared_arrays(bare, find(bare, "other")) == ()
