"""Arrays in classes are followed through methods and references; what may hold other objects is named."""

from __future__ import annotations

import pytest

from ncu_swizzle.fix.webs import Web
from tests.support.sources_in_cuda import web_of

TILE = """template <int R, int C>
class Tile {{
    float v[R][C];
  public:
    __device__ float& operator()(int r, int c) {{ return v[r][c]; }}
    __device__ float* operator[](int r) {{ return this->v[r]; }}
    __device__ float* part(int r) {{ return v[r * 2]; }}
    {method}
}};
{before}
__global__ void k(float *o, int x, int y) {{
    __shared__ Tile<32, 32> t;
    {body}
}}
"""


def web(body: str, before: str = "", method: str = "") -> Web:
    return web_of(TILE.format(body=f"t.part(0)[0] = 0; t[0][0] = 0; {body}", before=before, method=method))


def indices(found: Web) -> set[tuple[str, ...]]:
    """Return the indices of the accesses, but for those of the class itself."""
    own = {("r", "c"), ("0", "0"), ("r * 2", "0")}
    every = {
        tuple(step.node.text.decode() for step in reach.steps if step.node is not None and step.node.text is not None)
        for reach in found.reaches
        if reach.start.name == "v"
    }
    return every - own


@pytest.mark.parametrize(
    ("body", "before", "method", "found"),
    [
        ("t(x, y) = 1;", "", "", set()),
        ("t[y][x] = 1;", "", "", {("y", "x")}),
        ("t.part(y)[x] = 1;", "", "", {("r * 2", "x")}),
        ("t.fill(o);", "", "__device__ void fill(float *a) { v[1][2] = a[0]; }", {("1", "2")}),
        ("t.fill(3);", "", "__device__ void fill(int n) { (*this)[n][4] = 0; }", {("n", "4")}),
        ("get(t, x);", "__device__ void get(Tile<32, 32>& s, int i) { s[i][5] = 0; }", "", {("i", "5")}),
        ("get(&t, x);", "__device__ void get(Tile<32, 32>* s, int i) { (*s)[i][5] = 0; }", "", {("i", "5")}),
        ("get(t);", "template <class T> __device__ void get(T& s) { s[6][7] = 0; }", "", {("6", "7")}),
        ("auto& s = t; s[x][8] = 0;", "", "", {("x", "8")}),
        ("t.put();", "template <int R, int C> __device__ void Tile<R, C>::put() { v[9][R] = 0; }",
         "__device__ void put();", {("9", "R")}),
    ],
)  # fmt: skip
def test_methods_and_references_are_followed(body: str, before: str, method: str, found: set[tuple[str, ...]]) -> None:
    made = web(body, before, method)
    assert not made.obstacles, made.obstacles
    assert indices(made) == found


@pytest.mark.parametrize(
    ("body", "before", "line", "reason"),
    [
        ("auto s = t;", "", 13, "s = t uses t as a whole"),
        ("o[0] = reinterpret_cast<float *>(&t)[x];", "", 13, "takes t as bytes"),
        ("memcpy(&t, o, 4);", "", 13, "takes t as bytes"),
        ("o[0] = sizeof(t);", "", 13, "uses t as a whole"),
        ("o[0] = sizeof(Tile<32, 32>);", "", 13, "Tile is used where it cannot be followed"),
        ("float *p = &t(x, 0);", "", 13, "is an address that a method returns"),
        ("get(t);", "__device__ void get(Tile<32, 32> s) {}", 13, "get takes t by value"),
        ("other(t);", "", 13, "handed to other, which this file does not define"),
        ("", "__device__ Tile<32, 32> kept;", 10, "Tile is used where it cannot be followed"),
        ("", "using Other = Tile<32, 32>; Other kept;", 10, "Other is used where it cannot be followed"),
        ("", "__global__ void g(Tile<32, 32> *p) {}", 10, "Tile is used where it cannot be followed"),
        ("", "void h() { auto p = new Tile<32, 32>; }", 10, "Tile is used where it cannot be followed"),
        ("", "struct Pair { Tile<32, 32> one; };", 10, "Tile is used where it cannot be followed"),
        ("", "struct More : Tile<32, 32> {};", 10, "Tile is used where it cannot be followed"),
        ("", "std::vector<Tile<32, 32>> many;", 10, "Tile is used where it cannot be followed"),
    ],
)
def test_what_else_an_edit_of_the_class_would_change_is_named(body: str, before: str, line: int, reason: str) -> None:
    obstacles = web(body, before).obstacles
    assert {obstacle.start.name for obstacle in obstacles} == {"v"}
    assert any(obstacle.line == line and reason in obstacle.reason for obstacle in obstacles), obstacles


def test_an_object_of_a_class_from_elsewhere_is_named() -> None:
    (obstacle,) = web_of("__global__ void k() { __shared__ Other<3> t; t(1, 2) = 3; }\n").obstacles
    assert obstacle.reason == "t is an object of Other<3>, which is not defined in this file"
    union = "union Both { float a[32][32]; int b[1024]; };\n"
    (obstacle,) = web_of(f"{union}__global__ void k() {{ __shared__ Both t; t.b[1] = 3; }}\n").obstacles
    assert obstacle.reason == "t is an object of Both, which is a union, whose members share their bytes"


def test_a_method_that_is_not_called_may_give_the_address_away() -> None:
    text = "struct T { float v[4][8]; __device__ float* all() { return &v[0][0]; } };\n"
    (obstacle,) = web_of(f"{text}__global__ void k() {{ __shared__ T t; t.v[1][2] = 3; }}\n").obstacles
    assert (obstacle.line, obstacle.length) == (1, False)
    assert "all returns an address within v" in obstacle.reason


def test_other_objects_of_mere_data_are_only_in_the_way_of_longer_rows() -> None:
    text = "struct T { float v[4][8]; };\n__device__ T kept;\n"
    (obstacle,) = web_of(f"{text}__global__ void k() {{ __shared__ T t; t.v[1][2] = 3; }}\n").obstacles
    assert (obstacle.line, obstacle.length) == (2, True)
