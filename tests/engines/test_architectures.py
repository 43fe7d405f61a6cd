"""Code for sm_75 to sm_121: the counts of sm_90 where the accesses are the same, marked as such; the rest unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from tests.support.marks import NEEDS_ALL

ALL = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
SOURCE = """
extern "C" __global__ void turn(const float* x, float* y, int n) {
    __shared__ float tile[32][32];
    int column = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += 8)
        if (column < n && first + row < n) tile[threadIdx.y + row][threadIdx.x] = x[(first + row) * (long)n + column];
    __syncthreads();
    for (int row = 0; row < 32; row += 8)
        y[(blockIdx.x * 32 + threadIdx.y + row) * gridDim.y * 32 + blockIdx.y * 32 + threadIdx.x] =
            tile[threadIdx.x][threadIdx.y + row];
}
"""
TCGEN05 = """
extern "C" __global__ void product(unsigned long a, unsigned long b, unsigned memory, unsigned* y) {
    __shared__ unsigned tile[32];
    tile[threadIdx.x] = a;
    __syncthreads();
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; tcgen05.mma.cta_group::1.kind::f16 [%2], %0, %1, %2, p; }"
                 ::"l"(a), "l"(b), "r"(memory));
    y[threadIdx.x] = tile[31 - threadIdx.x];
}
"""


def turned(emulated: Callable[..., Profile], arch: str) -> Profile:
    matrix = np.zeros((128, 128), np.float32)
    return emulated(SOURCE, "turn", arch, [matrix, matrix, 128], (32, 8))


def counts(profile: Profile) -> dict[str, tuple[int | None, ...]]:
    totals: Counter[tuple[str, int]] = Counter()
    for one in profile.shared():
        for place, number in enumerate((one.executed, one.wavefronts, one.ideal)):
            assert number is not None, (one.sass, profile.notes)
            totals[one.access, place] += number
    return {access: tuple(totals[access, place] for place in range(3)) for access, _ in totals}


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize("arch", ALL)
def test_an_architecture_that_was_not_measured_has_the_counts_of_sm_90_and_says_so(
    emulated: Callable[..., Profile], arch: str
) -> None:
    here, there = turned(emulated, arch), turned(emulated, "sm_90")
    assert counts(here) == counts(there) == {"STS": (512, 512, 512), "LDS": (512, 16384, 512)}
    mark = "" if arch == "sm_90a" else "rule measured on sm_90"
    assert (there.rule_from, here.rule_from) == ("", mark)
    assert (f"turn: wavefronts: {mark}." in here.notes) == bool(mark)
    assert (f"turn: wavefronts: {mark}." in compare([here]).warnings) == bool(mark)
    (check, *_) = judge([here], Policy()).checks
    assert check.message.endswith(f" allowed ({mark})" if mark else " allowed")


@NEEDS_ALL
def test_what_no_rule_covers_is_unknown(emulated: Callable[..., Profile]) -> None:
    profile = emulated(TCGEN05, "product", "sm_100a", [0, 0, 0, np.zeros(32, np.uint32)], (32,))
    (product,) = [one for one in profile.shared() if one.access == "UTCHMMA"]
    assert product.wavefronts is None
    assert profile.total.excessive is None
    assert any("whether UTCHMMA accesses shared memory, and how, is not modelled" in note for note in profile.notes)
