"""Mappings stand in the source as a person would have written them, or it is said why they cannot."""

from __future__ import annotations

import numpy as np
import pytest

from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.draft import Swapped, Unfit
from ncu_swizzle.smem.swizzle import Padding
from tests.support.sources_in_cuda import FLAT, FOURS, LONGER, ROWS, body, rewritten, web_of

SIZES = {"W": 32, "H": 32, "N": 32, "K": 16}
ROWS_WITHIN = RowXor(columns=32, rows=32, bits=5, base=0, drop=0)
CUBE = RowXor(columns=8, rows=64, bits=3, base=0, drop=3, inner=8, outer=1)
BETWEEN = RowXor(columns=8, rows=32, bits=2, base=0, drop=3, inner=8, outer=1)
MACRO = "#define AT(y, x, w) ((y) * (w) + (x))\n"
OPEN_MACRO = "#define AT(y, x, w) y * w + x\n"
INDEX = "__device__ int at(int y, int x) { return y * 32 + x; }\n"
ROW = "__device__ float *row(float *p, int y) { return p + y * 32; }\n"
LOADER = "struct L { float *s; __device__ void load() { for (int y = 0; y < 32; ++y) s[y * 32 + x] = 1; } };\n"
VIEW = """struct V {
    float *p; int ld;
    __device__ float &operator()(int y, int x) const { return p[y * ld + x]; }
    __device__ float *operator[](int y) { return p + y * ld; }
    __device__ void set(int y, int x, float v) { this->p[index(y, x)] = v; }
    __device__ int index(int y, int x) const { return y * ld + x; }
};
"""
MADE = VIEW.replace("    __device__ f", "    __device__ V(float *q, int n) : p(q), ld(n) {}\n    __device__ f", 1)
LAYOUT = """struct RowMajor {
    int stride;
    __device__ RowMajor(int s) : stride(s) {}
    __device__ int operator()(int y, int x) const { return y * stride + x; }
};
template <class L> struct Ref { float *p; L layout; __device__ float &at(int y, int x) { return p[layout(y, x)]; } };
"""


def refused(text: str, transform: RowXor | Padding | Swapped) -> str:
    """Return why a mapping cannot be written."""
    with pytest.raises(Unfit) as reason:
        rewritten(text, transform)
    return str(reason.value)


@pytest.mark.parametrize(
    ("xor", "declared", "rows"),
    [
        pytest.param(ROWS, "t[32][32]", {
            "t[y][x] = 1;": "t[y][x ^ y] = 1;",
            "t[y + j][x] = t[x][y + j];": "t[y + j][x ^ (y + j)] = t[x][(y + j) ^ x];",
            "float *row = t[y]; row[x] = 1;": "float *row = t[y]; row[x ^ y] = 1;",
            "t[i / 32][i % 32] = 1;": "t[i / 32][(i % 32) ^ (i / 32)] = 1;",
        }, id="subscripts"),
        pytest.param(FLAT, "t[2048]", {
            "t[y * 32 + x] = 1;": "t[y * 32 + (x ^ (y & 31))] = 1;",
            "t[x + (y << 5)] = 1;": "t[(x ^ (y & 31)) + (y << 5)] = 1;",
            "t[s * 1024 + y * W + x] = 1;": "t[s * 1024 + y * W + (x ^ (y & 31))] = 1;",
            "float *p = t + s * 1024; p[y * W + x] = 1;": "float *p = t + s * 1024; p[y * W + (x ^ (y & 31))] = 1;",
        }, id="a flat index"),
        pytest.param(ROWS_WITHIN, "t[2][32 * 32]", {
            "t[s][y * 32 + x] = 1;": "t[s][y * 32 + (x ^ y)] = 1;",
            "float *p = t[s]; p[y * 32 + x] = 1;": "float *p = t[s]; p[y * 32 + (x ^ y)] = 1;",
            "float *p = &t[s][y * 32]; p[x] = 1;": "float *p = &t[s][y * 32]; p[x ^ y] = 1;",
        }, id="rows within a dimension"),
        pytest.param(CUBE, "t[8][8][8]", {
            "t[z][y][x] = t[x][y][z];": "t[z][y][x ^ z] = t[x][y][z ^ x];",
            "t[0][y][x] = t[z + 1][y][2];": "t[0][y][x] = t[z + 1][y][2 ^ (z + 1)];",
            "float (*p)[8][8] = t; p[z][y][x] = 1;": "float (*p)[8][8] = t; p[z][y][x ^ z] = 1;",
        }, id="a subscript further out"),
        pytest.param(BETWEEN, "t[2][4][8][8]", {
            "t[s][z][y][x] = t[s][x][y][z];": "t[s][z][y][x ^ z] = t[s][x][y][z ^ x];",
        }, id="a subscript between two others"),
        pytest.param(Swapped(columns=16, rows=64), "t[32][32]", {
            "t[x][k] = t[31 - x][k];": "t[k][x] = t[k][31 - x];",
        }, id="swapped"),
    ],
)  # fmt: skip
def test_what_is_written_into_an_index(xor: RowXor | Swapped, declared: str, rows: dict[str, str]) -> None:
    written = {before: rewritten(body(before, declared), xor, constants=SIZES) for before in rows}
    assert written == {before: body(after, declared) for before, after in rows.items()}


def test_the_number_of_a_granule_is_xored_where_it_is_a_factor() -> None:
    rows = {
        "t[y][x * 4 + k] = 1;": "t[y][(x ^ (y & 7)) * 4 + k] = 1;",
        "t[y][(x << 2) + k] = 1;": "t[y][((x ^ (y & 7)) << 2) + k] = 1;",
        "t[y][4 * (x + 1) + 3] = t[x][y * 4];": "t[y][4 * ((x + 1) ^ (y & 7)) + 3] = t[x][(y ^ (x & 7)) * 4];",
        "t[y][x * 4 + z * 8] = t[z][x * 4 + k];":
            "t[y][(x * 4 + z * 8) ^ ((y & 7) << 2)] = t[z][(x ^ (z & 7)) * 4 + k];",
        "t[0][x * 4 + k] = t[9][x * 4 + k];": "t[0][x * 4 + k] = t[9][(x ^ (9 & 7)) * 4 + k];",
        "t[y][x * 4] = 1;": "t[y][x * 4] = 1;",  # no sum with such a factor
    }  # fmt: skip
    written = {before: rewritten(body(before), FOURS, factors=True) for before in rows}
    assert written == {before: body(after) for before, after in rows.items()}


def test_vectors_stay_whole() -> None:
    before = body("float4 v = reinterpret_cast<float4 *>(t)[y * 8 + c];", "t[1024]")
    after = body("float4 v = reinterpret_cast<float4 *>(t)[y * 8 + (c ^ (y & 7))];", "t[1024]")
    assert rewritten(before, FOURS) == after
    assert "would be split" in refused(before, FLAT)
    assert "its 8 bytes would be split" in refused(body("o[0] = *(float2 *)&t[y][x];"), ROWS)


def test_an_index_that_cannot_be_split_goes_through_an_accessor() -> None:
    loop = body("for (int i = x; i < 1024; i += 256) t[i] = u[j];", "t[1024], u[1024]")
    once = rewritten(loop, FLAT)
    assert "constexpr int swizzled(int i) { return i ^ ((i >> 5) & 31); }" in once
    assert "t[swizzled(i)] = u[j];" in once
    twice = rewritten(once, FLAT, "u")  # that of an earlier patch is used again
    assert "t[swizzled(i)] = u[swizzled(j)];" in twice
    assert twice.count("int swizzled") == 1
    lines = rewritten(loop.replace("\n", "\r\n"), FLAT)
    assert lines.count("\n") == lines.count("\r\n")
    constants = body("t[3] = 1; t[N - 1] = 2; t[N + 3] = 3;", "t[2048]")  # in the first row, below and above a pattern
    assert "t[3] = 1; t[swizzled(N - 1)] = 2; t[N + 3] = 3;" in rewritten(constants, FLAT, constants={"N": 1024})


def test_a_pointer_to_the_first_element_counts_elements_of_all_rows() -> None:
    made = rewritten(body("float *p = &t[0][0]; p[i] = t[x][y];"), ROWS)
    assert "p[swizzled(i)] = t[x][y ^ x];" in made
    assert "(&t[0][0])[swizzled(i)] = 1;" in rewritten(body("(&t[0][0])[i] = 1;"), ROWS)
    made = rewritten(body("float *p = &t[0][0][0]; p[i] = t[x][y][z];", "t[8][8][8]"), CUBE)
    assert "p[swizzled(i)] = t[x][y][z ^ x];" in made
    assert "i ^ ((i >> 6) & 7)" in made
    assert "t[z] points into part of t" in refused(body("float (*p)[8] = t[z]; p[y][x] = 1;", "t[8][8][8]"), CUBE)


def test_longer_rows() -> None:
    rows = [
        ("t[32][32]", "t[y][x] = 1;", "t[32][33]", "t[y][x] = 1;"),
        ("t[N][N]", "t[y][x] = 1;", "t[N][N + 1]", "t[y][x] = 1;"),
        ("t[32 * 32]", "t[y * 32 + x] = 1;", "t[32 * 33]", "t[y * 33 + x] = 1;"),
        ("t[H * W]", "t[y * W + x] = 1;", "t[H * (W + 1)]", "t[y * (W + 1) + x] = 1;"),
        ("t[1024]", "t[(y << 5) + x] = 1;", "t[1056]", "t[(y * 33) + x] = 1;"),
        ("t[2048]", "t[s * 1024 + y * 32] = 1;", "t[2112]", "t[s * 1056 + y * 33] = 1;"),
        ("t[1000]", "t[y * 32 + x] = 1;", "t[(1000 + 31) / 32 * 33]", "t[y * 33 + x] = 1;"),
        ("t[960]", "t[y * 32 + x] = 1;", "t[990]", "t[y * 33 + x] = 1;"),
        ("t[2][32 * 32]", "float *p = t[s]; t[s][y * 32 + x] = p[y * 32];", "t[2][32 * 33]",
         "float *p = t[s]; t[s][y * 33 + x] = p[y * 33];"),
    ]  # fmt: skip
    written = [rewritten(body(before, declared), LONGER, constants=SIZES) for declared, before, _, _ in rows]
    assert written == [body(after, declared) for _, _, declared, after in rows]


def test_longer_rows_are_told_to_functions_whose_parameters_have_only_one_such_length() -> None:
    assert "put(float (*p)[33])" in rewritten(
        body("put(t);", before="__device__ void put(float (*p)[32]) { p[1][2] = 3; }\n"), LONGER
    )
    square = "template <int N> __device__ void put(float (&p)[N][N]) { p[1][2] = 3; }\n"
    assert "N is the length of two dimensions" in refused(body("put(t);", before=square), LONGER)
    oblong = square.replace("<int N>", "<int M, int N>").replace("[N][N]", "[M][N]")
    assert "t[32][33]" in rewritten(body("put(t);", before=oblong), LONGER)
    assert "the row's length is not to be seen in it" in refused(body("t[at(r, c)] = 1;", "t[1024]", INDEX), LONGER)


def test_dynamic_shared_memory_is_not_made_larger() -> None:
    text = "extern __shared__ float t[];\n__global__ void k(int y) { t[y * 32] = 1; }\n"
    assert "of a size that the launch gives" in refused(text, LONGER)


def test_what_cannot_be_written_is_refused_with_its_line() -> None:
    for text, reason in (
        ("t[y++][x] = 1;", "would be evaluated twice"),
        ("float *p = &t[y][x]; p[i] = 1;", "points into a row of t"),
        ("load_matrix_sync(f, &t[0][0], 32);", "an API computes the addresses"),
    ):
        with pytest.raises(Unfit, match=reason) as refusal:
            rewritten(body(text), ROWS)
        assert refusal.value.line == 3, reason


def test_each_part_of_a_carved_buffer_has_its_own_pattern() -> None:
    text = body("float *b = t + 1024; t[y * 32 + x] = b[y * 32 + x];", "t[2048]")
    assert "t[y * 32 + (x ^ (y & 31))] = b[y * 32 + x];" in rewritten(text, FLAT, offsets={"b": 4096})


def test_a_mapping_within_the_arguments_of_what_computes_an_index() -> None:
    rows = [
        (FLAT, MACRO, "t[AT(r, c, W)] = 1;", "t[AT(r, c ^ (r & 31), W)] = 1;"),
        (FLAT, MACRO, "t[AT(r + j, c + 1, 32)] = 1;", "t[AT(r + j, (c + 1) ^ ((r + j) & 31), 32)] = 1;"),
        (FLAT, OPEN_MACRO, "t[AT(r, c, W)] = 1;", "t[AT(r, (c ^ (r & 31)), W)] = 1;"),
        (FLAT, INDEX, "t[at(r, c)] = 1;", "t[at(r, c ^ (r & 31))] = 1;"),
        (FLAT, INDEX, "t[at(r, c) + 1] = 1;", "t[swizzled(at(r, c) + 1)] = 1;"),
        (LONGER, MACRO, "t[AT(r, c, W)] = 1;", "t[AT(r, c, W + 1)] = 1;"),
        (LONGER, OPEN_MACRO, "t[AT(r, c, W)] = 1;", "t[AT(r, c, (W + 1))] = 1;"),
        (LONGER, "", "float *p = t + 64; p -= W; p[c] = 1;", "float *p = t + 66; p -= (W + 1); p[c] = 1;"),
    ]
    for mapping, before, statement, after in rows:
        made = rewritten(body(statement, "t[1024]", before), mapping, constants=SIZES)
        assert after in made
        assert before in made


def test_rows_as_long_as_the_launch_says_come_with_their_condition() -> None:
    made = rewritten(body("t[r * d + c] = 1;", "t[1024]"), FLAT, launched={"d": 32})
    assert "    // Columns are XORed with their row's number: d must be a multiple of 32.\n    __shared__" in made
    assert "t[r * d + (c ^ (r & 31))] = 1;" in made
    with pytest.raises(Unfit, match="only the launch decides d"):
        rewritten(body("t[r * d + c] = t[i];", "t[1024]"), FLAT, launched={"d": 32})


def test_an_alias_of_an_array_has_its_dimensions() -> None:
    alias = "typedef float Row[32];\n__device__ void put(Row *p) { p[1][x] = 3; }\n"
    text = f"{alias}__global__ void k() {{ __shared__ Row t[32]; put(t); t[y][x] = 1; }}\n"
    made = rewritten(text, ROWS)
    assert "p[1][x ^ 1] = 3;" in made
    assert "t[y][x ^ y] = 1;" in made
    assert "typedef float Row[33];" in rewritten(text, LONGER)
    assert "Row is the type of more than this tile" in refused(f"{text}Row other;\n", LONGER)


def test_swapped_indices() -> None:
    rows = [
        ("t[2][64][16]", "t[s][x][k] = 1;", "t[2][16][64]", "t[s][k][x] = 1;"),
        ("t[N][K + 1]", "float &e = t[x][k]; e = 1;", "t[K + 1][N]", "float &e = t[k][x]; e = 1;"),
    ]
    swap = Swapped(columns=16, rows=64)
    written = [rewritten(body(before, declared), swap) for declared, before, _, _ in rows]
    assert written == [body(after, declared) for _, _, declared, after in rows]
    for text in ("float *r = t[x]; r[k] = 1;", "*(float2 *)(&t[x][k] + 2) = v;", "t[x][t[k][0]] = 1;"):
        assert refused(body(text), Swapped(columns=32, rows=32)), text
    each_tile = Swapped(columns=3, rows=2)(np.arange(12))
    assert each_tile.tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


@pytest.mark.parametrize(
    "made", ["V v{t, 32};", "V v = {t, 32};", "auto v = V{t, 32};", "const V v{.p = t, .ld = 32};"]
)
def test_an_xor_through_a_view(made: str) -> None:
    rows = {
        "v(y, x + 1) = 1;": "v(y, (x + 1) ^ (y & 31)) = 1;",
        "v[y][x] = 1;": "v[y][x ^ (y & 31)] = 1;",
        "v.set(y + j, x, 1);": "v.set(y + j, x ^ ((y + j) & 31), 1);",
        "v.p[y * 32 + x] = v.ld;": "v.p[y * 32 + (x ^ (y & 31))] = v.ld;",
        "auto w = v; w(y, x) = 1;": "auto w = v; w(y, x ^ (y & 31)) = 1;",
    }
    written = {before: rewritten(body(f"{made} {before}", "t[1024]", VIEW), FLAT) for before in rows}
    assert written == {before: body(f"{made} {after}", "t[1024]", VIEW) for before, after in rows.items()}


def test_longer_rows_are_told_to_a_view() -> None:
    rows = {
        "V v(t, 32);": "V v(t, 33);",
        "auto v = V(t, 32);": "auto v = V(t, 33);",
        "V v(t, N);": "V v(t, N + 1);",  # what the grammar takes for the declaration of a function
    }
    written = {made: rewritten(body(f"{made} v(y, x) = 1;", "t[1024]", MADE), LONGER, constants=SIZES) for made in rows}
    assert written == {made: body(f"{longer} v(y, x) = 1;", "t[1056]", MADE) for made, longer in rows.items()}


def test_a_view_that_asks_its_layout_for_the_index() -> None:
    for made in ("Ref<RowMajor> v{t, RowMajor(32)};", "RowMajor l(32); Ref<RowMajor> v{t, l};"):
        before = body(f"{made} v.at(y, x) = 1;", "t[1024]", LAYOUT)
        assert rewritten(before, FLAT) == body(f"{made} v.at(y, x ^ (y & 31)) = 1;", "t[1024]", LAYOUT)
        opaque = before.replace("y * stride + x", "hash(y, x)")
        assert "cannot be split" in refused(opaque, FLAT) or "not understood" in refused(opaque, FLAT)
        assert "not understood" in refused(opaque, LONGER) or "cannot be split" in refused(opaque, LONGER)


def test_a_view_is_followed_into_functions_and_out_of_them() -> None:
    put = "__device__ void put(V v, int y, int x) { v(y, x) = 1; }\n"
    made = rewritten(body("put(V{t, 32}, 1, 2); V w{t, 32}; put(w, 3, 4);", "t[1024]", VIEW + put), FLAT)
    assert "{ v(y, x ^ (y & 31)) = 1; }" in made
    for returned in ("{q, n}", "V{q, n}"):
        before = VIEW + f"__device__ V made(float *q, int n) {{ return {returned}; }}\n"
        text = body("auto v = made(t, 32); v(y, x) = 1;", "t[1024]", before)
        assert rewritten(text, FLAT) == body("auto v = made(t, 32); v(y, x ^ (y & 31)) = 1;", "t[1024]", before)
        assert rewritten(text, LONGER) == body("auto v = made(t, 33); v(y, x) = 1;", "t[1056]", before)


def test_an_address_that_a_function_computes_is_followed_to_its_calls() -> None:
    for before, within in ((ROW, ""), ("", "auto row = [&](float *, int y) { return t + y * 32; };")):
        text = body(f"{within} row(t, y + 1)[x] = 1; float *r = row(t, z); r[x] = 2;", "t[1024]", before)
        made = rewritten(text, FLAT)
        assert "row(t, y + 1)[x ^ ((y + 1) & 31)] = 1; float *r = row(t, z); r[x ^ (z & 31)] = 2;" in made
        assert before in made


def test_methods_with_loops_are_edited_themselves() -> None:
    made = rewritten(body("L l{t}; l.load();", "t[1024]", LOADER), FLAT)
    assert "s[y * 32 + (x ^ (y & 31))] = 1;" in made


def test_a_view_that_goes_elsewhere_is_in_the_way() -> None:
    for text in ("V v{t, 32}; V *w = &v;", "V v{t, 32}; other(v);", "V v{t, 32}; v.find(1);", "V a[1] = {{t, 32}};"):
        (obstacle,) = web_of(body(text, "t[1024]", VIEW)).obstacles
        assert obstacle.line == len(VIEW.splitlines()) + 3, text
