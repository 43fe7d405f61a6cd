"""Tests of the kernels' bank conflicts, without a GPU: pytest examples/python

Each is skipped if its library is missing. With --ncu-swizzle-engine ncu, and without `engine=` here, ncu measures.
"""

import sys
from pathlib import Path

import pytest

from ncu_swizzle import NcuSwizzleError, assert_no_excess

sys.path.insert(0, str(Path(__file__).parent))

HERE = Path(__file__).parent
SQUARE = ["float32[256,256]", "float32[256,256]:out"]


def test_triton_swizzles_the_transposes_tile(ncu_profile):
    pytest.importorskip("triton")
    import tiles

    profile = ncu_profile(tiles.transpose, engine="emulated", grid=(8, 8), args=[*SQUARE, 256, 256], BM=32, BN=32)
    assert_no_excess(profile)


def test_a_sum_over_rows_conflicts_with_this_shape(ncu_profile):
    triton = pytest.importorskip("triton")
    if not triton.__version__.startswith("3.6."):
        pytest.skip("the layout is the compiler's, and this is about Triton 3.6: that of 3.9 has no conflict")
    import tiles

    profile = ncu_profile(
        tiles.column_sums,
        engine="emulated",
        grid=4,
        args=["float32[256,256]", "float32[256]:out", 256, 256],
        BM=32,
        BN=64,
    )
    with pytest.raises(AssertionError, match="STS"):
        assert_no_excess(profile)


def test_a_swizzle_in_cute_dsl_frees_the_transpose_of_conflicts(ncu_profile):
    pytest.importorskip("cutlass.cute")
    import cute_kernels

    how = {"engine": "emulated", "args": SQUARE, "config": "none"}
    assert_no_excess(ncu_profile(cute_kernels.transpose_swizzled, **how))
    with pytest.raises(AssertionError, match="63,488 excessive"):
        assert_no_excess(ncu_profile(cute_kernels.transpose, **how), "LDS")


def test_numbas_padded_tile_has_no_conflicts(ncu_profile):
    pytest.importorskip("numba.cuda")
    import numba_kernels

    how = {"engine": "emulated", "grid": (8, 8), "block": (32, 8), "args": SQUARE}
    assert_no_excess(ncu_profile(numba_kernels.transpose_padded, **how))
    with pytest.raises(AssertionError, match="63,488 excessive"):
        assert_no_excess(ncu_profile(numba_kernels.transpose_plain, **how), "LDS")


def test_what_does_not_fit_is_an_error_with_a_hint(ncu_profile):
    pytest.importorskip("triton")
    import tiles

    with pytest.raises(NcuSwizzleError, match="lacks BM, BN") as lacking:
        ncu_profile(tiles.transpose, engine="emulated", grid=(8, 8), args=[*SQUARE, 256, 256])
    assert "--arg BM=64 --arg BN=64" in lacking.value.hint
