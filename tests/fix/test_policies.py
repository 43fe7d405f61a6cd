"""Layout policies are found with their siblings, wherever a kernel's own source names them."""

from __future__ import annotations

import contextlib

import pytest

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.edits import BEGIN, END, edited
from ncu_swizzle.fix.layout_values import Escapes
from ncu_swizzle.fix.named import declared_layouts
from ncu_swizzle.fix.policies import renamings
from ncu_swizzle.fix.scopes import Scopes

POLICIES = """
namespace far { struct A { static int at(int row, int column); }; }
namespace near {
struct A { static int at(int row, int column); };
struct B { static int at(int r, int c); static int more(); };
struct Other { static int at(long row, int column); };
struct Fewer { static int more(); };
template <class T> struct Typed { static int at(int row, int column); };
template <int n> struct R { template <int k> static auto at(int row, const char *name = "") -> int { return k; } };
template <int m> class S { public: template <int i> static auto at(int q, const char *) -> int { return i; } };
template <> struct R<7> { static int at(int row); };
}
"""


def names(kernel: str, policies: str = POLICIES) -> list[str]:
    """Return what a kernel may name, and where: the source with the names changed."""
    text = (policies + kernel).encode()
    file = cuda.parse(text, "k.cu")
    return [edited(text, renaming.edits).decode().removeprefix(policies) for renaming in renamings(file, "k")]


def test_siblings_can_stand_in_place_of_a_policy() -> None:
    expected = {
        "__global__ void k() { f<near::A>(); }": ["__global__ void k() { f<near::B>(); }"],
        "__global__ void k() { f<far::A>(); }": [],
        "__global__ void k() { f<A>(); }": [],
        "__global__ void k() { f<near::B>(); }": [],
        "__global__ void other() { f<near::A>(); }": [],
        "using L = near::A;": ["using L = near::B;"],
        "typedef near::R<3> L;": ["typedef near::S<3> L;"],
        "template <class L = near::R<3>> struct T;": ["template <class L = near::S<3>> struct T;"],
        "int x = near::R<3>::at<2>(1, 0);": ["int x = near::S<3>::at<2>(1, 0);"],
        "near::A a;": [],
        "using L = near::A; int x = near::A::at(1, 2);": [  # together, or one by one
            "using L = near::B; int x = near::B::at(1, 2);",
            "using L = near::B; int x = near::A::at(1, 2);",
            "using L = near::A; int x = near::B::at(1, 2);",
        ],
    }
    assert {kernel: names(kernel) for kernel in expected} == expected


def test_a_header_stays_as_it_is() -> None:
    begin, end = BEGIN.decode() + b"p.cuh\0#include\n".hex() + "\n", END.decode() + "\n"
    assert names("", f"{begin}{POLICIES}using L = near::A;\n{end}") == []
    assert len(names("using L = near::A;", f"{begin}{POLICIES}using L = near::A;\n{end}")) == 1


def test_a_layout_is_composed_where_it_is_declared() -> None:
    expected = {
        "auto l = Layout<A, B>();": ["auto l = composition(Swizzle<3,2,3>{}, Layout<A, B>());"],
        "auto l = cute::Layout<A>{};": ["auto l = cute::composition(cute::Swizzle<3,2,3>{}, cute::Layout<A>{});"],
        "auto l = make_layout(a, b);": ["auto l = composition(Swizzle<3,2,3>{}, make_layout(a, b));"],
        "using L = Layout<A>;": ["using L = decltype(composition(Swizzle<3,2,3>{}, Layout<A>{}));"],
        "auto l = other(a, b);": [],
    }
    kernel = "__global__ void k() {{ {} }}"
    for declared, composed in expected.items():
        text = kernel.format(declared).encode()
        layouts = declared_layouts(cuda.parse(text, "k"), "k")
        written = [edited(text, layout.composed("Swizzle<3,2,3>")).decode() for layout in layouts]
        assert written == [kernel.format(layout) for layout in composed], declared


PLACED = """
struct Rows { static constexpr int kTag = 1; static constexpr int kPitch = 32;
  static __device__ int at(int r, int c) { return r * 32 + c; } static __device__ int tag() { return kTag; }
  static __device__ int size(int r) { return r * 32; } };
struct Mixed { static constexpr int kTag = 2; static constexpr int kPitch = 32;
  static __device__ int at(int r, int c) { return r * 32 + (c ^ r); } static __device__ int tag() { return kTag; }
  static __device__ int size(int r) { return r * 32 + 0; } };
"""
TURN = """template <class L> __device__ void turn(const float *in, float *out, int r, int c) {
    __shared__ float t[L::size(32)];
    t[L::at(r, c)] = in[r * L::kPitch + c];
    BODY
}
__global__ void k(const float *in, float *out) { turn<Rows>(in, out, threadIdx.x, threadIdx.y); }
"""


def escapes(body: str) -> list[str]:
    """Return why a kernel with these statements cannot name the other policy."""
    file = cuda.parse((PLACED + TURN.replace("BODY", body)).encode(), "k.cu")
    reasons = []
    for renaming in renamings(file, "k"):
        assert renaming.name == "Mixed"
        try:
            renaming.placed_only(Scopes(file))
        except Escapes as reason:
            reasons.append(str(reason))
    return reasons


def test_a_policy_that_does_more_than_to_place_elements_is_not_exchanged() -> None:
    expected = {
        "out[0] = L::kTag;": "L::kTag differs in kTag",
        "out[0] = L::tag();": "out[0] = L::tag() is kept where it is not followed",
        "out[L::at(r, c)] = t[0];": "out[L::at(r, c)] is no element of a shared array",
        "float *p = out + L::at(r, c); *p = 1;": "out + L::at(r, c) is no address in shared memory",
        "const int i = L::at(r, c); out[i] = t[i];": "out[i] is no element of a shared array",
        "if (L::at(1, 2) != 34) out[0] = 1;": "is more than a place",
        "float local[4]; local[L::at(0, 1)] = 1;": "is no element of a shared array",
        'printf("%d", L::at(r, c));': "hands it to printf",
        "other<L>(out);": "hands it to other, which the source does not define",
        "L layout; out[0] = layout.at(r, c);": "is not followed",
        "float *p = r ? t : out; p[L::at(r, c)] = 1;": "is no element of a shared array",
        "float *p = t; if (r) p = out; p[L::at(r, c)] = 1;": "is no element of a shared array",
    }
    for body, said in expected.items():
        (reason,) = escapes(body)
        assert said in reason, body


def test_a_policy_that_only_places_elements_is_exchanged() -> None:
    for body in (
        "out[0] = L::kPitch + t[L::at(c, r)];",
        "const int i = L::at(c, r); out[r] = t[i];",
        "float *p = t + L::at(c, r); out[r] = *p;",
        "static_assert(L::size(1) >= 32);",
    ):
        assert escapes(body) == [], body


LAID_OUT = """using namespace cute;
__global__ void k(const float *in, float *out) {
    __shared__ float s[1024];
    const auto rows = Layout<Shape<_32, _32>, Stride<_32, _1>>{};
    auto tile = make_tensor(make_smem_ptr(s), rows);
    BODY
}
"""


def test_a_layout_of_global_memory_is_not_swizzled() -> None:
    expected = {
        "out[0] = size(rows) + cosize(rows);": False,
        "auto matrix = make_tensor(make_gmem_ptr(in), rows);": True,
        "out[rows(1, 2)] = 1;": True,
        "auto other = rows;": True,
        "copy(rows, 1);": True,
    }
    for body, escaping in expected.items():
        file = cuda.parse(LAID_OUT.replace("BODY", body).encode(), "k.cu")
        (layout,) = declared_layouts(file, "k")
        with pytest.raises(Escapes) if escaping else contextlib.nullcontext():
            layout.shared_only(Scopes(file))
