"""What reaches into a shared array is found, through pointers, functions, macros, methods; what escapes is named."""

from __future__ import annotations

import pytest

from ncu_swizzle.fix.webs import BYTES, Web
from tests.support.sources_in_cuda import web_of

KERNEL = "__global__ void k(float *o) {{ __shared__ float t[{size}]; int x = threadIdx.x; {body} }}\n"
CLASS = """template <int R, int C>
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
    t.part(0)[0] = 0; t[0][0] = 0; {body}
}}
"""
OF_THE_CLASS = [("v", "r c"), ("v", "0 0"), ("v", "r * 2 0")]


def in_kernel(body: str, size: str = "32][32", before: str = "") -> Web:
    return web_of(before + KERNEL.format(body=body, size=size))


def in_class(body: str, before: str = "", method: str = "") -> Web:
    return web_of(CLASS.format(body=body, before=before, method=method))


def accesses(web: Web) -> list[tuple[str, str]]:
    """Return what is accessed, with the indices and addends on the way to it."""
    return [
        (reach.start.name, " ".join(step.node.text.decode() if step.node and step.node.text else "0"
                                    for step in reach.steps))
        for reach in web.reaches
        if reach.end is None
    ]  # fmt: skip


def test_every_access_is_found_with_its_indices() -> None:
    expected = {
        "o[x] = t[x][3];": [("t", "x 3")],
        "t[x][0] += t[0][x];": [("t", "x 0"), ("t", "0 x")],
        "o[x] = *(&t[0][0] + x * 32);": [("t", "0 0 x * 32 0")],
        "float *p = t[x]; o[x] = p[4];": [("p", "4")],
        "float4 v = *reinterpret_cast<float4 *>(&t[x][4]);": [("t", "x 4 0")],
        "float4 v = ((float4 *)t)[x];": [("t", "x")],
        "auto at = [&](int y) -> float & { return t[y][0]; }; at(x) = 1;": [("t", "y 0")],
        "float (*p)[32] = t; p[x][1] = 2;": [("p", "x 1")],
        "auto p = (float (*)[16])&t[0][0]; p[x][1] = 2;": [("p", "x 1")],
        "atomicAdd(&t[x][0], 1.f);": [("t", "x 0")],
        "{ float t[4]; t[0] = 1; } t[x][1] = 2;": [("t", "x 1")],  # a name of an inner block is another one
    }
    assert {body: accesses(in_kernel(body)) for body in expected} == expected


def test_a_pointer_is_followed_into_functions_and_macros() -> None:
    before = "#define AT(p, y) p[(y) * 32]\n__device__ float get(const float *from, int i) { return from[i]; }\n"
    web = in_kernel("o[x] = get(&t[0][0], x) + AT(t[0], x);", before=before)
    assert sorted(accesses(web)) == [("from", "i"), ("p", "(y) * 32")]
    declared = "#define TILE(name) __shared__ float name[32][32]\n__global__ void k() { TILE(t); t[1][2] = 3; }\n"
    assert accesses(web_of(declared)) == [("t", "1 2")]


def test_an_address_goes_through_a_helper_that_returns_it() -> None:
    before = "__device__ unsigned a(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n"
    web = in_kernel('unsigned at = a(&t[x][0]); asm volatile("" :: "r"(at + 16));', before=before)
    (last,) = [reach for reach in web.reaches if reach.end is None]
    assert (last.start.name, last.unit) == ("at", BYTES)
    assert not web.obstacles


def test_arrays_that_one_pointer_reaches_belong_together() -> None:
    web = in_kernel("__shared__ float u[64]; float *p = o[0] > 0 ? t : u; p[1] = 2;", size="64")
    assert {array.name for array in web.arrays} == {"t", "u"}


def test_what_escapes_is_named() -> None:
    expected = {
        "elsewhere(t);": "t is handed to elsewhere, which this file does not define",
        "float *all[2] = {t[0], t[1]};": "t is used in a way that is not understood: {t[0], t[1]}",
        "s.p = t[0];": "s.p = t[0] keeps an address of t where it is not followed",
        "auto n = (long long)t;": "(long long)t makes long long of t",
    }
    obstacles = {body: in_kernel(body).obstacles[0] for body in expected}
    assert {body: obstacle.reason for body, obstacle in obstacles.items()} == expected
    assert {obstacle.line for obstacle in obstacles.values()} == {1}


def test_methods_and_references_are_followed() -> None:
    rows = [
        ("t(x, y) = 1;", "", "", []),
        ("t[y][x] = 1;", "", "", ["y x"]),
        ("t.part(y)[x] = 1;", "", "", ["r * 2 x"]),
        ("t.fill(o);", "", "__device__ void fill(float *a) { v[1][2] = a[0]; }", ["1 2"]),
        ("t.fill(3);", "", "__device__ void fill(int n) { (*this)[n][4] = 0; }", ["n 4"]),
        ("get(t, x);", "__device__ void get(Tile<32, 32>& s, int i) { s[i][5] = 0; }", "", ["i 5"]),
        ("get(&t, x);", "__device__ void get(Tile<32, 32>* s, int i) { (*s)[i][5] = 0; }", "", ["i 5"]),
        ("get(t);", "template <class T> __device__ void get(T& s) { s[6][7] = 0; }", "", ["6 7"]),
        ("auto& s = t; s[x][8] = 0;", "", "", ["x 8"]),
        ("t.put();", "template <int R, int C> __device__ void Tile<R, C>::put() { v[9][R] = 0; }",
         "__device__ void put();", ["9 R"]),
    ]  # fmt: skip
    webs = [in_class(*row[:3]) for row in rows]
    assert [web.obstacles for web in webs] == [[]] * len(rows)
    found = [{access for access in accesses(web) if access not in OF_THE_CLASS} for web in webs]
    assert found == [{("v", indices) for indices in row[3]} for row in rows]


@pytest.mark.parametrize("line", [10, 13], ids=["before the kernel", "in the kernel"])
def test_what_else_an_edit_of_the_class_would_change_is_named(line: int) -> None:
    rows = {
        13: [
            ("auto s = t;", "", "s = t uses t as a whole"),
            ("o[0] = reinterpret_cast<float *>(&t)[x];", "", "takes t as bytes"),
            ("memcpy(&t, o, 4);", "", "takes t as bytes"),
            ("o[0] = sizeof(t);", "", "uses t as a whole"),
            ("o[0] = sizeof(Tile<32, 32>);", "", "Tile is used where it cannot be followed"),
            ("float *p = &t(x, 0);", "", "is an address that a method returns"),
            ("get(t);", "__device__ void get(Tile<32, 32> s) {}", "get takes t by value"),
            ("other(t);", "", "handed to other, which this file does not define"),
        ],
        10: [
            ("", "__device__ Tile<32, 32> kept;", "Tile is used where it cannot be followed"),
            ("", "using Other = Tile<32, 32>; Other kept;", "Other is used where it cannot be followed"),
            ("", "__global__ void g(Tile<32, 32> *p) {}", "Tile is used where it cannot be followed"),
            ("", "void h() { auto p = new Tile<32, 32>; }", "Tile is used where it cannot be followed"),
            ("", "struct Pair { Tile<32, 32> one; };", "Tile is used where it cannot be followed"),
            ("", "struct More : Tile<32, 32> {};", "Tile is used where it cannot be followed"),
            ("", "std::vector<Tile<32, 32>> many;", "Tile is used where it cannot be followed"),
        ],
    }[line]
    for body, before, reason in rows:
        obstacles = in_class(body, before).obstacles
        named = [obstacle.reason for obstacle in obstacles if obstacle.line == line]
        assert any(reason in text for text in named), (body, before, obstacles)
        assert {obstacle.start.name for obstacle in obstacles} == {"v"}, (body, before)


def test_an_array_in_a_struct_is_a_place_of_its_own() -> None:
    kernel = "__global__ void k(int i) { __shared__ S t[2]; t[i].a[1][2] = 3; t[0].n = 1; }\n"
    web = web_of(f"struct S {{ float a[4][8]; int n; }};\n{kernel}")
    assert [(member.place.name, member.object_) for member in web.members] == [("a", "t[0]")]
    assert ("a", 2) in {(reach.start.name, len(reach.steps)) for reach in web.reaches}


def test_objects_that_cannot_be_edited_are_named_and_whether_only_longer_rows_matter() -> None:
    other = "__global__ void k() { __shared__ Other<3> t; t(1, 2) = 3; }\n"
    union = "union Both { float a[32][32]; int b[1024]; };\n__global__ void k() { __shared__ Both t; t.b[1] = 3; }\n"
    use = "__global__ void k() { __shared__ T t; t.v[1][2] = 3; }\n"
    method = "struct T { float v[4][8]; __device__ float* all() { return &v[0][0]; } };\n"
    data = "struct T { float v[4][8]; };\n__device__ T kept;\n"
    rows = {
        other: (1, False, "t is an object of Other<3>, which is not defined in this file"),
        union: (2, False, "t is an object of Both, which is a union, whose members share their bytes"),
        method + use: (1, False, "all returns an address within v"),  # although nothing calls it
        data + use: (2, True, "T is used where it cannot be followed"),
    }
    for text, (line, longer_only, reason) in rows.items():
        (obstacle,) = web_of(text).obstacles
        assert reason in obstacle.reason
        assert (obstacle.line, obstacle.length) == (line, longer_only), reason
