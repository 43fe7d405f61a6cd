"""Mappings stand in the source as a person would have written them, or it is said why they cannot."""

import numpy as np
import pytest

from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import Swapped
from ncu_swizzle.smem.swizzle import Padding
from tests.support.places import table
from tests.support.sources_in_cuda import FLAT, FOURS, LONGER, ROWS, body, rewritten, web_of

SIZES = {"W": 32, "H": 32, "N": 32, "K": 16}
MAPPINGS: dict[str, RowXor | Padding | Swapped] = {
    "rows": ROWS,
    "flat": FLAT,
    "fours": FOURS,
    "longer": LONGER,
    "rows within": RowXor(columns=32, rows=32, bits=5, base=0, drop=0),
    "swapped": Swapped(columns=16, rows=64),
}
FACTS = table("facts/writing.toml")
BEFORE = FACTS["before"]
INDEX, VIEW = BEFORE["index"], BEFORE["view"]
ROW = "__device__ float *row(float *p, int y) { return p + y * 32; }\n"


def refused(text: str, transform: RowXor | Padding | Swapped) -> str:
    """Return why a mapping cannot be written."""
    with pytest.raises(Unfit) as reason:
        rewritten(text, transform)
    return str(reason.value)


def test_what_is_written_into_an_index() -> None:
    otherwise = {}
    for fact in FACTS["written"]:
        declared, before = fact.get("declared", "t[32][32]"), BEFORE.get(fact.get("before"), "")
        for statement, meant in fact["rows"].items():
            text, how = body(statement, declared, before), MAPPINGS[fact["mapping"]]
            written = rewritten(text, how, constants=SIZES, factors=fact.get("factors", False))
            if written != body(meant, fact.get("after", declared), before):
                otherwise[fact["about"], statement] = written
    assert otherwise == {}
    accessor = rewritten(body("t[at(r, c) + 1] = 1;", "t[1024]", INDEX), FLAT)
    assert "t[swizzled(at(r, c) + 1)] = 1;" in accessor


def test_an_index_that_a_layout_computes_is_refused_if_it_is_not_understood() -> None:
    opaque = BEFORE["layout"].replace("y * stride + x", "hash(y, x)")
    for made in ("Ref<RowMajor> v{t, RowMajor(32)};", "RowMajor l(32); Ref<RowMajor> v{t, l};"):
        text = body(f"{made} v.at(y, x) = 1;", "t[1024]", opaque)
        for mapping in (FLAT, LONGER):
            reason = refused(text, mapping)
            assert "cannot be split" in reason or "not understood" in reason


def test_swapped_indices_need_both_of_them() -> None:
    for text in ("float *r = t[x]; r[k] = 1;", "*(float2 *)(&t[x][k] + 2) = v;", "t[x][t[k][0]] = 1;"):
        assert refused(body(text), Swapped(columns=32, rows=32)), text
    each_tile = Swapped(columns=3, rows=2)(np.arange(12))
    assert each_tile.tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


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


def test_a_view_is_followed_into_functions() -> None:
    put = "__device__ void put(V v, int y, int x) { v(y, x) = 1; }\n"
    made = rewritten(body("put(V{t, 32}, 1, 2); V w{t, 32}; put(w, 3, 4);", "t[1024]", VIEW + put), FLAT)
    assert "{ v(y, x ^ (y & 31)) = 1; }" in made


def test_an_address_that_a_function_computes_is_followed_to_its_calls() -> None:
    for before, within in ((ROW, ""), ("", "auto row = [&](float *, int y) { return t + y * 32; };")):
        text = body(f"{within} row(t, y + 1)[x] = 1; float *r = row(t, z); r[x] = 2;", "t[1024]", before)
        made = rewritten(text, FLAT)
        assert "row(t, y + 1)[x ^ ((y + 1) & 31)] = 1; float *r = row(t, z); r[x ^ (z & 31)] = 2;" in made
        assert before in made


def test_a_view_that_goes_elsewhere_is_in_the_way() -> None:
    for text in ("V v{t, 32}; V *w = &v;", "V v{t, 32}; other(v);", "V v{t, 32}; v.find(1);", "V a[1] = {{t, 32}};"):
        (obstacle,) = web_of(body(text, "t[1024]", VIEW)).obstacles
        assert obstacle.line == len(VIEW.splitlines()) + 3, text
