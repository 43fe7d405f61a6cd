"""Shared arrays lie where the compiled code accesses them."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.cubin.symbols import find
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
SOURCE = """
namespace ns {
__shared__ float everywhere[128];
template <int N, class T> __device__ T* own() { __shared__ T inner[N]; return inner; }
template <int N, class T> __global__ void many(T* out) {
  __shared__ char odd[3];
  __shared__ alignas(128) T tile[N][N + 1];
  extern __shared__ double dynamic[];
  T* more = own<N, T>();
  const int x = threadIdx.x;
  more[x] = out[x]; tile[x][3] = x; everywhere[x] = 3 + x; odd[x % 3] = x; dynamic[x] = x;
  { __shared__ int q[4]; q[x & 3] = x; __syncthreads(); more[x] += q[(x + 1) & 3]; }
  { __shared__ int q[7]; q[x & 3] = x; __syncthreads(); more[x] += q[(x + 1) & 3]; }
  __syncthreads();
  out[x] = more[31 - x] + tile[31 - x][3] + everywhere[31 - x] + odd[(x + 1) % 3] + dynamic[31 - x];
}
template __global__ void many<32, float>(float*);
template __global__ void many<16, double>(double*);
}
__global__ void other(float* out) { __shared__ float z[4]; z[threadIdx.x & 3] = 1; __syncthreads(); out[0] = z[1]; }
"""


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


@pytest.mark.parametrize("kernel", ["ns::many<32, float>", "ns::many<16, double>"])
def test_they_are_aligned_and_do_not_overlap(kernel: str) -> None:
    found = arrays(kernel)
    assert all(array.start % array.align == 0 for array in found)
    assert all(one.start + one.size <= other.start for one, other in itertools.pairwise(found))
    assert next(array for array in found if array.name == "tile").align == 128


def test_nothing_is_claimed_without_the_ptx() -> None:
    bare = Cubin(Toolchain().compile(SOURCE, ["-O3", "-std=c++17"], "sm_90", []), "bare.cubin")
    assert shared_arrays(bare, find(bare, "other")) == ()
