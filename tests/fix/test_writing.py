"""Mappings stand in the source as a person would have written them, or it is said why they cannot."""

from __future__ import annotations

import pytest

from ncu_swizzle.fix.draft import Unfit
from tests.support.sources_in_cuda import FLAT, FOURS, LONGER, ROWS, body, rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t[y][x] = 1;", "t[y][x ^ y] = 1;"),
        ("t[y + j][x] = t[x][y + j];", "t[y + j][x ^ (y + j)] = t[x][(y + j) ^ x];"),
        ("float *row = t[y]; row[x] = 1;", "float *row = t[y]; row[x ^ y] = 1;"),
        ("t[i / 32][i % 32] = 1;", "t[i / 32][(i % 32) ^ (i / 32)] = 1;"),
    ],
)
def test_an_xor_of_subscripts(before: str, after: str) -> None:
    assert rewritten(body(before), ROWS) == body(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t[y * 32 + x] = 1;", "t[y * 32 + (x ^ (y & 31))] = 1;"),
        ("t[x + (y << 5)] = 1;", "t[(x ^ (y & 31)) + (y << 5)] = 1;"),
        ("t[s * 1024 + y * W + x] = 1;", "t[s * 1024 + y * W + (x ^ (y & 31))] = 1;"),
        ("float *p = t + s * 1024; p[y * W + x] = 1;", "float *p = t + s * 1024; p[y * W + (x ^ (y & 31))] = 1;"),
    ],
)
def test_an_xor_of_a_flat_index(before: str, after: str) -> None:
    assert rewritten(body(before, "t[2048]"), FLAT, constants={"W": 32}) == body(after, "t[2048]")


def test_a_constant_in_the_first_row_stays_and_one_below_a_whole_pattern_does_not() -> None:
    made = rewritten(body("t[3] = 1; t[N - 1] = 2; t[N + 3] = 3;", "t[2048]"), FLAT, constants={"N": 1024})
    assert "t[3] = 1; t[swizzled(N - 1)] = 2; t[N + 3] = 3;" in made


def test_vectors_stay_whole() -> None:
    before = body("float4 v = reinterpret_cast<float4 *>(t)[y * 8 + c];", "t[1024]")
    after = body("float4 v = reinterpret_cast<float4 *>(t)[y * 8 + (c ^ (y & 7))];", "t[1024]")
    assert rewritten(before, FOURS) == after
    with pytest.raises(Unfit, match="would be split"):
        rewritten(before, FLAT)
    with pytest.raises(Unfit, match="its 8 bytes would be split"):
        rewritten(body("o[0] = *(float2 *)&t[y][x];"), ROWS)


def test_an_index_that_cannot_be_split_goes_through_an_accessor() -> None:
    made = rewritten(body("for (int i = x; i < 1024; i += 256) t[i] = 1;", "t[1024]"), FLAT)
    assert "constexpr int swizzled(int i) { return i ^ ((i >> 5) & 31); }" in made
    assert "t[swizzled(i)] = 1;" in made


def test_lines_of_an_accessor_end_as_the_others() -> None:
    made = rewritten(body("t[i] = 1;", "t[1024]").replace("\n", "\r\n"), FLAT)
    assert made.count("\n") == made.count("\r\n")


@pytest.mark.parametrize(
    ("declared", "before", "after_declared", "after"),
    [
        ("t[32][32]", "t[y][x] = 1;", "t[32][33]", "t[y][x] = 1;"),
        ("t[N][N]", "t[y][x] = 1;", "t[N][N + 1]", "t[y][x] = 1;"),
        ("t[32 * 32]", "t[y * 32 + x] = 1;", "t[32 * 33]", "t[y * 33 + x] = 1;"),
        ("t[H * W]", "t[y * W + x] = 1;", "t[H * (W + 1)]", "t[y * (W + 1) + x] = 1;"),
        ("t[1024]", "t[(y << 5) + x] = 1;", "t[1056]", "t[(y * 33) + x] = 1;"),
        ("t[2048]", "t[s * 1024 + y * 32] = 1;", "t[2112]", "t[s * 1056 + y * 33] = 1;"),
    ],
)
def test_longer_rows(declared: str, before: str, after_declared: str, after: str) -> None:
    made = rewritten(body(before, declared), LONGER, constants={"W": 32, "H": 32, "N": 32})
    assert made == body(after, after_declared)


def test_longer_rows_are_told_to_functions() -> None:
    before = body("put(t);", before="__device__ void put(float (*p)[32]) { p[1][2] = 3; }\n")
    assert "put(float (*p)[33])" in rewritten(before, LONGER)


def test_dynamic_shared_memory_is_not_made_larger() -> None:
    text = "extern __shared__ float t[];\n__global__ void k(int y) { t[y * 32] = 1; }\n"
    with pytest.raises(Unfit, match="of a size that the launch gives"):
        rewritten(text, LONGER)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("t[y++][x] = 1;", "would be evaluated twice"),
        ("float *p = &t[y][x]; p[i] = 1;", "points into a row of t"),
        ("load_matrix_sync(f, &t[0][0], 32);", "an API computes the addresses"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(Unfit, match=reason) as refused:
        rewritten(body(text), ROWS)
    assert refused.value.line == 3


def test_each_part_of_a_carved_buffer_has_its_own_pattern() -> None:
    text = body("float *b = t + 1024; t[y * 32 + x] = b[y * 32 + x];", "t[2048]")
    made = rewritten(text, FLAT, offsets={"b": 4096})
    assert "t[y * 32 + (x ^ (y & 31))] = b[y * 32 + x];" in made


AT = "#define AT(y, x, w) ((y) * (w) + (x))\n"
OPEN = "#define AT(y, x, w) y * w + x\n"
INDEX = "__device__ int at(int y, int x) { return y * 32 + x; }\n"


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        (AT, "t[AT(r, c, W)] = 1;", "t[AT(r, c ^ (r & 31), W)] = 1;"),
        (AT, "t[AT(r + j, c + 1, 32)] = 1;", "t[AT(r + j, (c + 1) ^ ((r + j) & 31), 32)] = 1;"),
        (OPEN, "t[AT(r, c, W)] = 1;", "t[AT(r, (c ^ (r & 31)), W)] = 1;"),
        (INDEX, "t[at(r, c)] = 1;", "t[at(r, c ^ (r & 31))] = 1;"),
        (INDEX, "t[at(r, c) + 1] = 1;", "t[swizzled(at(r, c) + 1)] = 1;"),
    ],
)
def test_an_xor_within_the_arguments_of_what_computes_an_index(before: str, written: str, after: str) -> None:
    made = rewritten(body(written, "t[1024]", before), FLAT, constants={"W": 32})
    assert after in made
    assert before in made


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        (AT, "t[AT(r, c, W)] = 1;", "t[AT(r, c, W + 1)] = 1;"),
        (OPEN, "t[AT(r, c, W)] = 1;", "t[AT(r, c, (W + 1))] = 1;"),
        ("", "float *p = t + 64; p -= W; p[c] = 1;", "float *p = t + 66; p -= (W + 1); p[c] = 1;"),
    ],
)
def test_longer_rows_in_the_arguments_of_what_computes_an_index(before: str, written: str, after: str) -> None:
    made = rewritten(body(written, "t[1024]", before), LONGER, constants={"W": 32})
    assert after in made
    assert before in made


def test_the_length_of_rows_within_a_function_that_others_call_stays() -> None:
    with pytest.raises(Unfit, match="the row's length is not to be seen in it"):
        rewritten(body("t[at(r, c)] = 1;", "t[1024]", INDEX), LONGER)


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
    with pytest.raises(Unfit, match="Row is the type of more than this tile"):
        rewritten(f"{text}Row other;\n", LONGER)


def test_an_accessor_of_an_earlier_patch_is_used_again() -> None:
    once = rewritten(body("t[i] = u[j];", "t[1024], u[1024]"), FLAT)
    twice = rewritten(once, FLAT, "u")
    assert "t[swizzled(i)] = u[swizzled(j)];" in twice
    assert twice.count("int swizzled") == 1
