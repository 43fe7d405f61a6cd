"""What reaches into a shared array is found, however it goes there; what cannot be followed is named."""

from __future__ import annotations

import pytest

from ncu_swizzle.fix.webs import BYTES
from tests.support.sources_in_cuda import web_of

KERNEL = "__global__ void k(float *o) {{ __shared__ float t[{size}]; int x = threadIdx.x; {body} }}\n"


def accesses(body: str, size: str = "32][32", before: str = "") -> list[tuple[str, list[str]]]:
    """Return the places that are accessed, each with the indices and addends on the way from it."""
    text = before + KERNEL.format(body=body, size=size)
    return [
        (reach.start.name, [step.node.text.decode() if step.node and step.node.text else "0" for step in reach.steps])
        for reach in web_of(text).reaches
        if reach.end is None
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("o[x] = t[x][3];", [("t", ["x", "3"])]),
        ("t[x][0] += t[0][x];", [("t", ["x", "0"]), ("t", ["0", "x"])]),
        ("o[x] = *(&t[0][0] + x * 32);", [("t", ["0", "0", "x * 32", "0"])]),
        ("float *p = t[x]; o[x] = p[4];", [("p", ["4"])]),
        ("float4 v = *reinterpret_cast<float4 *>(&t[x][4]);", [("t", ["x", "4", "0"])]),
        ("float4 v = ((float4 *)t)[x];", [("t", ["x"])]),
        ("auto at = [&](int y) -> float & { return t[y][0]; }; at(x) = 1;", [("t", ["y", "0"])]),
        ("float (*p)[32] = t; p[x][1] = 2;", [("p", ["x", "1"])]),
        ("auto p = (float (*)[16])&t[0][0]; p[x][1] = 2;", [("p", ["x", "1"])]),
        ("atomicAdd(&t[x][0], 1.f);", [("t", ["x", "0"])]),
    ],
)
def test_every_access_is_found_with_its_indices(body: str, found: list[tuple[str, list[str]]]) -> None:
    assert accesses(body) == found


def test_a_pointer_is_followed_into_functions_and_macros() -> None:
    before = "#define AT(p, y) p[(y) * 32]\n__device__ float get(const float *from, int i) { return from[i]; }\n"
    body = "o[x] = get(&t[0][0], x) + AT(t[0], x);"
    assert sorted(accesses(body, before=before)) == [("from", ["i"]), ("p", ["(y) * 32"])]


def test_an_address_goes_through_a_helper_that_returns_it() -> None:
    before = "__device__ unsigned a(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n"
    body = 'unsigned at = a(&t[x][0]); asm volatile("" :: "r"(at + 16));'
    web = web_of(before + KERNEL.format(body=body, size="32][32"))
    last = web.reaches[-1] if web.reaches[-1].end is None else next(r for r in web.reaches if r.end is None)
    assert (last.start.name, last.unit) == ("at", BYTES)
    assert not web.obstacles


def test_arrays_that_one_pointer_reaches_belong_together() -> None:
    body = "__shared__ float u[64]; float *p = o[0] > 0 ? t : u; p[1] = 2;"
    text = KERNEL.format(size="64", body=body)
    assert {array.name for array in web_of(text).arrays} == {"t", "u"}


def test_a_name_of_an_inner_block_is_another_one() -> None:
    assert accesses("{ float t[4]; t[0] = 1; } t[x][1] = 2;") == [("t", ["x", "1"])]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("elsewhere(t);", "t is handed to elsewhere, which this file does not define"),
        ("float *all[2] = {t[0], t[1]};", "t is used in a way that is not understood: {t[0], t[1]}"),
        ("s.p = t[0];", "s.p = t[0] keeps an address of t where it is not followed"),
        ("auto n = (long long)t;", "(long long)t makes long long of t"),
    ],
)
def test_what_escapes_is_named(body: str, reason: str) -> None:
    obstacle = web_of(KERNEL.format(body=body, size="32][32")).obstacles[0]
    assert obstacle.reason == reason
    assert obstacle.line == 1


def test_an_array_that_a_macro_declares_is_found() -> None:
    text = "#define TILE(name) __shared__ float name[32][32]\n__global__ void k() { TILE(t); t[1][2] = 3; }\n"
    assert [len(reach.steps) for reach in web_of(text).reaches] == [2]


def test_an_array_in_a_struct_is_a_place_of_its_own() -> None:
    kernel = "__global__ void k(int i) { __shared__ S t[2]; t[i].a[1][2] = 3; t[0].n = 1; }\n"
    text = f"struct S {{ float a[4][8]; int n; }};\n{kernel}"
    web = web_of(text)
    assert [(member.place.name, member.object_) for member in web.members] == [("a", "t[0]")]
    assert ("a", 2) in {(reach.start.name, len(reach.steps)) for reach in web.reaches}
