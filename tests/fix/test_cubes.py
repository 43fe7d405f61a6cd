"""Arrays of three dimensions and more, whose conflict only an index further out can spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.fix import shown
from ncu_swizzle.fix.sources import FixQuery, fix_all
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
CUBE = """
__global__ void k(const float* x, float* y) {
    __shared__ float t[8][8][8];
    int i = threadIdx.x, j = threadIdx.y, k = threadIdx.z;
    t[k][j][i] = x[(k * 8 + j) * 8 + i];
    __syncthreads();
    y[(k * 8 + j) * 8 + i] = t[i][j][k];
}
"""
STAGES = """
__global__ void k(const float* x, float* y) {
    __shared__ float t[2][4][8][8];
    int i = threadIdx.x, j = threadIdx.y, k = threadIdx.z;
    for (int s = 0; s < 2; ++s) t[s][k][j][i] = x[((s * 4 + k) * 8 + j) * 8 + i];
    __syncthreads();
    for (int s = 0; s < 2; ++s) y[((s * 4 + k) * 8 + j) * 8 + i] = t[s][i % 4][j][k + 4 * (i / 4)];
}
"""
DESCRIBED = """
[kernel.k]
source = "k.cu"
grid = 1
block = "8, 8, {deep}"
args = ["x=float32[512]:random", "y=float32[512]:out"]
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "deep", "written"),
    [
        (CUBE, 8, ["t[k][j][i ^ k] =", "= t[i][j][k ^ i];"]),
        (STAGES, 4, ["t[s][k][j][i ^ k] =", "= t[s][i % 4][j][(k + 4 * (i / 4)) ^ (i % 4)];"]),
    ],
)
def test_the_column_is_xored_with_an_index_further_out(
    source: str, deep: int, written: list[str], tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    (tmp_path / "ncu-swizzle.toml").write_text(DESCRIBED.format(deep=deep), encoding="utf-8")
    made = fix_all(
        str(tmp_path / "k.cu"),
        FixQuery(
            description=KernelDescription(sources=CatalogOptions(config=str(tmp_path / "ncu-swizzle.toml"))),
        ),
    )
    assert made.outcome == "proved", made.kernels[0].tiles
    assert made.kernels[0].tiles[0].excess_after == 0
    assert all(piece in made.after.decode() for piece in written), shown.patch_of(made)
