"""An array in a class is fixed in the class: in its declaration, or in its methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.fix import shown
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from tests.support.fix_corpus import CORPUS
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
CLASS = """
template <int R, int C>
struct Tile {
    float v[R * C];
    __device__ float& at(int r, int c) { return v[r * C + c]; }
    UNUSED
};
BEFORE
__global__ void k(const float* in, float* out) {
    __shared__ Tile<32, 32> t;
    t.at(threadIdx.y, threadIdx.x) = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = t.at(threadIdx.x, threadIdx.y);
}
"""
DESCRIBED = """
[kernel.{name}]
source = "k.cu"
entry = "{name}"
grid = 1
block = "32, 32"
args = ["in=float32[1024]:random", "out=float32[1024]:out"]
"""
OTHER = """
__global__ void other(const float* in, float* out) {
    __shared__ Tile<32, 32> t;
    t.at(threadIdx.y, threadIdx.x) = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = 2 * t.at(threadIdx.x, threadIdx.y);
}
"""


def fixed(
    folder: Path, only: MappingKind | None = None, unused: str = "", before: str = "", also: str = ""
) -> SourceFix:
    """Return the fix of the class with a method that is not called, and something before the kernel."""
    (folder / "k.cu").write_text(CLASS.replace("UNUSED", unused).replace("BEFORE", before), encoding="utf-8")
    described = "".join(DESCRIBED.format(name=name) for name in ("k", *also.split()))
    (folder / "ncu-swizzle.toml").write_text(described, encoding="utf-8")
    description = KernelDescription(sources=CatalogOptions(config=str(folder / "ncu-swizzle.toml")))
    return fix_all(str(folder / "k.cu"), FixQuery(description=description, options=FixOptions(only)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "only", "written"),
    [
        ("class-transpose", None, ["return cells[row][column ^ (row & 31)];", "this->cells[row][threadIdx.x ^ "]),
        ("class-transpose", MappingKind.PADDING, ["T cells[Rows][Columns + 1];"]),
        ("class-rows", None, ["data[H * (W + 4)]", "data + row * (W + 4)", "&data[row * (W + 4)]"]),
        ("class-stages", None, ["b[k][column]", "b[y][x] ="]),
        ("class-stages", MappingKind.SWIZZLE, ["b[column][k ^ column]", "b[x][y ^ x] ="]),
        ("class-stages", MappingKind.PADDING, ["float b[32][33];"]),
    ],
)  # fmt: skip
def test_classes_of_the_corpus(name: str, only: MappingKind | None, written: list[str]) -> None:
    description = KernelDescription(sources=CatalogOptions(config=str(CORPUS / "ncu-swizzle.toml")))
    made = fix_all(name, FixQuery(description=description, options=FixOptions(only)))
    assert made.outcome == "proved", made.kernels[0].tiles
    text = made.after.decode()
    assert all(piece in text for piece in written), shown.patch_of(made)


@pytest.mark.long
def test_a_method_that_is_not_called_follows_the_padding(tmp_path: Path) -> None:
    unused = "__device__ float* row(int r) { return v + r * C; } __device__ float sum() { return row(1)[0] + v[C]; }"
    made = fixed(tmp_path, MappingKind.PADDING, unused)
    text = made.after.decode()
    assert made.outcome == "proved"
    assert "return v + r * (C + 1);" in text
    assert "row(1)[0] + v[(C + 1)]" in text or "row(1)[0] + v[C + 1]" in text


@pytest.mark.long
def test_a_method_that_counts_through_the_array_goes_through_an_accessor(tmp_path: Path) -> None:
    made = fixed(tmp_path, MappingKind.PADDING, "__device__ float nth(int i) { return v[i]; }")
    text = made.after.decode()
    assert made.outcome == "proved"
    assert "return v[padded(i)];" in text
    assert text.index("int padded(int i)") < text.index("template <int R, int C>")


@pytest.mark.long
def test_objects_in_global_memory_are_refused_with_their_line(tmp_path: Path) -> None:
    made = fixed(tmp_path, before="__device__ Tile<32, 32> kept;")
    (tile,) = made.kernels[0].tiles
    assert not made.changed
    assert (tile.proved, tile.reason_line) == (False, 8)
    assert tile.reason == "Tile is used where it cannot be followed: __device__ Tile<32, 32> kept;"


@pytest.mark.long
def test_another_kernel_with_such_objects_is_proved_too_if_it_is_described(tmp_path: Path) -> None:
    unknown = fixed(tmp_path, before=OTHER)
    assert unknown.outcome == "unknown"
    assert "the patch changes other" in unknown.kernels[0].tiles[0].reason
    both = fixed(tmp_path, before=OTHER, also="other")
    assert both.outcome == "proved"
