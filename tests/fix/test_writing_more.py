"""The spellings of mappings that keep vectors, of rows within a dimension, of swapped indices, and through views."""

from __future__ import annotations

import numpy as np
import pytest

from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.draft import Swapped, Unfit
from tests.support.sources_in_cuda import FLAT, FOURS, LONGER, ROWS, body, rewritten, web_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t[y][x * 4 + k] = 1;", "t[y][(x ^ (y & 7)) * 4 + k] = 1;"),
        ("t[y][(x << 2) + k] = 1;", "t[y][((x ^ (y & 7)) << 2) + k] = 1;"),
        ("t[y][4 * (x + 1) + 3] = t[x][y * 4];", "t[y][4 * ((x + 1) ^ (y & 7)) + 3] = t[x][(y ^ (x & 7)) * 4];"),
        ("t[y][x * 4 + z * 8] = t[z][x * 4 + k];",
         "t[y][(x * 4 + z * 8) ^ ((y & 7) << 2)] = t[z][(x ^ (z & 7)) * 4 + k];"),
        ("t[0][x * 4 + k] = t[9][x * 4 + k];", "t[0][x * 4 + k] = t[9][(x ^ (9 & 7)) * 4 + k];"),
    ],
)  # fmt: skip
def test_the_number_of_a_granule_is_xored_where_it_is_a_factor(before: str, after: str) -> None:
    assert rewritten(body(before), FOURS, factors=True) == body(after)


def test_without_a_sum_that_has_such_a_factor_nothing_else_is_written() -> None:
    assert rewritten(body("t[y][x * 4] = 1;"), FOURS, factors=True) == body("t[y][x * 4] = 1;")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t[s][y * 32 + x] = 1;", "t[s][y * 32 + (x ^ y)] = 1;"),
        ("float *p = t[s]; p[y * 32 + x] = 1;", "float *p = t[s]; p[y * 32 + (x ^ y)] = 1;"),
        ("float *p = &t[s][y * 32]; p[x] = 1;", "float *p = &t[s][y * 32]; p[x ^ y] = 1;"),
    ],
)
def test_an_xor_of_rows_within_a_dimension(before: str, after: str) -> None:
    assert rewritten(body(before, "t[2][32 * 32]"), RowXor(columns=32, rows=32, bits=5, base=0, drop=0)) == body(
        after, "t[2][32 * 32]"
    )


CUBE = RowXor(columns=8, rows=64, bits=3, base=0, drop=3, inner=8, outer=1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t[z][y][x] = t[x][y][z];", "t[z][y][x ^ z] = t[x][y][z ^ x];"),
        ("t[0][y][x] = t[z + 1][y][2];", "t[0][y][x] = t[z + 1][y][2 ^ (z + 1)];"),
        ("float (*p)[8][8] = t; p[z][y][x] = 1;", "float (*p)[8][8] = t; p[z][y][x ^ z] = 1;"),
    ],
)
def test_an_xor_by_a_subscript_further_out(before: str, after: str) -> None:
    assert rewritten(body(before, "t[8][8][8]"), CUBE) == body(after, "t[8][8][8]")


def test_an_xor_by_the_subscript_between_two_others() -> None:
    made = rewritten(
        body("t[s][z][y][x] = t[s][x][y][z];", "t[2][4][8][8]"),
        RowXor(columns=8, rows=32, bits=2, base=0, drop=3, inner=8, outer=1),
    )
    assert made == body("t[s][z][y][x ^ z] = t[s][x][y][z ^ x];", "t[2][4][8][8]")


def test_a_pointer_into_a_cube_counts_all_rows_or_is_refused() -> None:
    made = rewritten(body("float *p = &t[0][0][0]; p[i] = t[x][y][z];", "t[8][8][8]"), CUBE)
    assert "p[swizzled(i)] = t[x][y][z ^ x];" in made
    assert "i ^ ((i >> 6) & 7)" in made
    with pytest.raises(Unfit, match=r"t\[z\] points into part of t"):
        rewritten(body("float (*p)[8] = t[z]; p[y][x] = 1;", "t[8][8][8]"), CUBE)


def test_longer_rows_within_a_dimension() -> None:
    made = rewritten(body("float *p = t[s]; t[s][y * 32 + x] = p[y * 32];", "t[2][32 * 32]"), LONGER)
    assert made == body("float *p = t[s]; t[s][y * 33 + x] = p[y * 33];", "t[2][32 * 33]")


def test_a_pointer_to_the_first_element_counts_elements_of_all_rows() -> None:
    made = rewritten(body("float *p = &t[0][0]; p[i] = t[x][y];"), ROWS)
    assert "p[swizzled(i)] = t[x][y ^ x];" in made
    assert "(&t[0][0])[swizzled(i)] = 1;" in rewritten(body("(&t[0][0])[i] = 1;"), ROWS)


def test_a_length_that_two_dimensions_share_cannot_grow_in_one() -> None:
    square = "template <int N> __device__ void put(float (&p)[N][N]) { p[1][2] = 3; }\n"
    with pytest.raises(Unfit, match="N is the length of two dimensions"):
        rewritten(body("put(t);", before=square), LONGER)
    oblong = square.replace("<int N>", "<int M, int N>").replace("[N][N]", "[M][N]")
    assert "t[32][33]" in rewritten(body("put(t);", before=oblong), LONGER)


@pytest.mark.parametrize(
    ("declared", "before", "after_declared", "after"),
    [
        ("t[32][32]", "t[x][k] = t[31 - x][k];", "t[32][32]", "t[k][x] = t[k][31 - x];"),
        ("t[2][64][16]", "t[s][x][k] = 1;", "t[2][16][64]", "t[s][k][x] = 1;"),
        ("t[N][K + 1]", "float &e = t[x][k]; e = 1;", "t[K + 1][N]", "float &e = t[k][x]; e = 1;"),
    ],
)
def test_swapped_indices(declared: str, before: str, after_declared: str, after: str) -> None:
    assert rewritten(body(before, declared), Swapped(columns=16, rows=64)) == body(after, after_declared)


@pytest.mark.parametrize("text", ["float *r = t[x]; r[k] = 1;", "*(float2 *)(&t[x][k] + 2) = v;", "t[x][t[k][0]] = 1;"])
def test_what_does_not_name_row_and_column_is_not_swapped(text: str) -> None:
    with pytest.raises(Unfit):
        rewritten(body(text), Swapped(columns=32, rows=32))


def test_each_tile_is_transposed() -> None:
    places = Swapped(columns=3, rows=2)(np.arange(12))
    assert places.tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


VIEW = """struct V {
    float *p; int ld;
    __device__ float &operator()(int y, int x) const { return p[y * ld + x]; }
    __device__ float *operator[](int y) { return p + y * ld; }
    __device__ void set(int y, int x, float v) { this->p[index(y, x)] = v; }
    __device__ int index(int y, int x) const { return y * ld + x; }
};
"""
MADE = VIEW.replace("    __device__ f", "    __device__ V(float *q, int n) : p(q), ld(n) {}\n    __device__ f", 1)


@pytest.mark.parametrize(
    "made", ["V v{t, 32};", "V v = {t, 32};", "auto v = V{t, 32};", "const V v{.p = t, .ld = 32};"]
)
@pytest.mark.parametrize(
    ("used", "after"),
    [
        ("v(y, x + 1) = 1;", "v(y, (x + 1) ^ (y & 31)) = 1;"),
        ("v[y][x] = 1;", "v[y][x ^ (y & 31)] = 1;"),
        ("v.set(y + j, x, 1);", "v.set(y + j, x ^ ((y + j) & 31), 1);"),
        ("v.p[y * 32 + x] = v.ld;", "v.p[y * 32 + (x ^ (y & 31))] = v.ld;"),
        ("auto w = v; w(y, x) = 1;", "auto w = v; w(y, x ^ (y & 31)) = 1;"),
    ],
)
def test_an_xor_through_a_view(made: str, used: str, after: str) -> None:
    before = body(f"{made} {used}", "t[1024]", VIEW)
    assert rewritten(before, FLAT) == body(f"{made} {after}", "t[1024]", VIEW)


@pytest.mark.parametrize("made", ["V v(t, 32);", "V v(t, N);", "auto v = V(t, 32);"])
def test_longer_rows_are_told_to_a_view(made: str) -> None:
    before = body(f"{made} v(y, x) = 1;", "t[1024]", MADE)
    if "N" in made:  # what the grammar takes for the declaration of a function
        longer = rewritten(before, LONGER, constants={"N": 32})
        assert longer == body(made.replace("N", "N + 1") + " v(y, x) = 1;", "t[1056]", MADE)
    else:
        assert rewritten(before, LONGER) == body(made.replace("32", "33") + " v(y, x) = 1;", "t[1056]", MADE)


LAYOUT = """struct RowMajor {
    int stride;
    __device__ RowMajor(int s) : stride(s) {}
    __device__ int operator()(int y, int x) const { return y * stride + x; }
};
template <class L> struct Ref { float *p; L layout; __device__ float &at(int y, int x) { return p[layout(y, x)]; } };
"""


@pytest.mark.parametrize("made", ["Ref<RowMajor> v{t, RowMajor(32)};", "RowMajor l(32); Ref<RowMajor> v{t, l};"])
def test_a_view_that_asks_its_layout_for_the_index(made: str) -> None:
    before = body(f"{made} v.at(y, x) = 1;", "t[1024]", LAYOUT)
    assert rewritten(before, FLAT) == body(f"{made} v.at(y, x ^ (y & 31)) = 1;", "t[1024]", LAYOUT)


def test_a_view_whose_index_is_not_understood_is_refused() -> None:
    opaque = LAYOUT.replace("y * stride + x", "hash(y, x)")
    for transform in (FLAT, LONGER):
        with pytest.raises(Unfit, match=r"not understood|cannot be split"):
            rewritten(body("Ref<RowMajor> v{t, RowMajor(32)}; v.at(y, x) = 1;", "t[1024]", opaque), transform)


@pytest.mark.parametrize("returned", ["{q, n}", "V{q, n}"])
def test_a_view_that_a_function_makes_has_the_shape_of_the_call(returned: str) -> None:
    before = VIEW + f"__device__ V made(float *q, int n) {{ return {returned}; }}\n"
    text = body("auto v = made(t, 32); v(y, x) = 1;", "t[1024]", before)
    assert rewritten(text, FLAT) == body("auto v = made(t, 32); v(y, x ^ (y & 31)) = 1;", "t[1024]", before)
    assert rewritten(text, LONGER) == body("auto v = made(t, 33); v(y, x) = 1;", "t[1056]", before)


def test_a_view_is_followed_into_functions() -> None:
    put = "__device__ void put(V v, int y, int x) { v(y, x) = 1; }\n"
    made = rewritten(body("put(V{t, 32}, 1, 2); V w{t, 32}; put(w, 3, 4);", "t[1024]", VIEW + put), FLAT)
    assert "{ v(y, x ^ (y & 31)) = 1; }" in made


ROW = "__device__ float *row(float *p, int y) { return p + y * 32; }\n"
LAMBDA = "auto row = [&](float *, int y) { return t + y * 32; };"


@pytest.mark.parametrize(("before", "within"), [(ROW, ""), ("", LAMBDA)])
def test_an_address_that_a_function_computes_is_followed_to_its_calls(before: str, within: str) -> None:
    made = rewritten(body(f"{within} row(t, y + 1)[x] = 1; float *r = row(t, z); r[x] = 2;", "t[1024]", before), FLAT)
    assert "row(t, y + 1)[x ^ ((y + 1) & 31)] = 1; float *r = row(t, z); r[x ^ (z & 31)] = 2;" in made
    assert before in made


def test_methods_with_loops_are_edited_themselves() -> None:
    loader = "struct L { float *s; __device__ void load() { for (int y = 0; y < 32; ++y) s[y * 32 + x] = 1; } };\n"
    made = rewritten(body("L l{t}; l.load();", "t[1024]", loader), FLAT)
    assert "s[y * 32 + (x ^ (y & 31))] = 1;" in made


@pytest.mark.parametrize(
    "text", ["V v{t, 32}; V *w = &v;", "V v{t, 32}; other(v);", "V v{t, 32}; v.find(1);", "V a[1] = {{t, 32}};"]
)
def test_a_view_that_goes_elsewhere_is_in_the_way(text: str) -> None:
    (obstacle,) = web_of(body(text, "t[1024]", VIEW)).obstacles
    assert obstacle.line == len(VIEW.splitlines()) + 3
