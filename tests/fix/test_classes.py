"""What some blocks do differently is found: a fix that is wrong in one block of many is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix.claims import About, ClaimState, Proof
from ncu_swizzle.fix.proving import prove
from ncu_swizzle.kernels import build
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from tests.support.fix_corpus import with_text
from tests.support.fixes import array, swizzled
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
PLAIN = """
__global__ void turned(const float* in, float* out, int odd) {
  __shared__ float tile[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  const unsigned b = blockIdx.x;
  tile[y][x ^ b % 4] = in[b * 1024 + y * 32 + x];
  __syncthreads();
  out[b * 1024 + y * 32 + x] = tile[x][y ^ b % 4];
}
"""
FIXED = PLAIN.replace("[x ^ b % 4]", "[x ^ b % 4 ^ y]").replace("[y ^ b % 4]", "[y ^ b % 4 ^ x]")


def described(folder: Path, text: str) -> Target:
    source = folder / "turned.cu"
    source.write_text(text, encoding="utf-8")
    args = ("in=float32[4000,1024]:random", "out=float32[4000,1024]:out", "odd=int32:77")
    family = build.family_of(
        KernelSpec(name="turned", source=source, launch=LaunchOptions(grid="4000", block="32,32", args=args))
    )
    return Target(family, family.kernels[0], family.problem())


def judged(tmp_path: Path, settings: EmulationSettings, text: str) -> Proof:
    before = described(tmp_path, PLAIN)
    after = with_text(before, text, tmp_path / "after")
    return prove(before, after, [array("tile", 1024, 4, swizzled(32))], settings)


@pytest.mark.long
def test_blocks_that_stand_for_all_are_enough(tmp_path: Path, settings: EmulationSettings) -> None:
    proof = judged(tmp_path, settings, FIXED)
    assert proof.held, proof.obstacle
    assert "which stand for all 4,000" in proof.compared[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    [
        "(b == 1234 ? x + 1 & 31 : x)",
        "(b >= 3999 ? 31 - x : x)",
        "(b % 1000 == 999 ? x ^ 1 : x)",
        "(b > odd ? x : x ^ 2)",
    ],
)
def test_one_wrong_block_of_thousands_is_found(wrong: str, tmp_path: Path, settings: EmulationSettings) -> None:
    proof = judged(tmp_path, settings, FIXED.replace("[x ^ b % 4 ^ y]", f"[{wrong} ^ b % 4 ^ y]"))
    claim = proof.claim(About.MEANING)
    assert claim is not None
    assert claim.state is ClaimState.FAILED, claim
    assert claim.line == ("turned.cu", 6)


@pytest.mark.long
def test_an_access_too_many_is_found_even_if_the_results_are_the_same(
    tmp_path: Path, settings: EmulationSettings
) -> None:
    more = "if (b == 7) *(volatile float*)&tile[y][31] = *(volatile float*)&tile[y][31];"
    proof = judged(tmp_path, settings, FIXED.replace("__syncthreads();", f"{more} __syncthreads();"))
    claim = proof.claim(About.MEANING)
    assert claim is not None
    assert claim.state is ClaimState.FAILED
    assert "block (7, 0, 0)" in claim.reason
