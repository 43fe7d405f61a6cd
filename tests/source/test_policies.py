"""Layout policies are found with their siblings, wherever a kernel's own source names them."""

from __future__ import annotations

import pytest

pytest.importorskip("tree_sitter_cuda", reason="needs pip install 'ncu-swizzle[fix]'")

from ncu_swizzle.source import cuda
from ncu_swizzle.source.edits import edited
from ncu_swizzle.source.policies import renamings
from ncu_swizzle.source.spliced import BEGIN, END
from ncu_swizzle.source.tensor_layouts import declared_layouts

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
    return [edited(text, made.edits).decode().removeprefix(policies) for made in renamings(file, "k")]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("__global__ void k() { f<near::A>(); }", ["__global__ void k() { f<near::B>(); }"]),
        ("__global__ void k() { f<far::A>(); }", []),
        ("__global__ void k() { f<A>(); }", []),
        ("__global__ void k() { f<near::B>(); }", []),
        ("__global__ void other() { f<near::A>(); }", []),
        ("using L = near::A;", ["using L = near::B;"]),
        ("typedef near::R<3> L;", ["typedef near::S<3> L;"]),
        ("template <class L = near::R<3>> struct T;", ["template <class L = near::S<3>> struct T;"]),
        ("int x = near::R<3>::at<2>(1, 0);", ["int x = near::S<3>::at<2>(1, 0);"]),
        ("near::A a;", []),
    ],
)
def test_siblings_can_stand_in_place_of_a_policy(kernel: str, expected: list[str]) -> None:
    assert names(kernel) == expected


def test_several_uses_are_changed_together_or_one_by_one() -> None:
    assert names("using L = near::A; int x = near::A::at(1, 2);") == [
        "using L = near::B; int x = near::B::at(1, 2);",
        "using L = near::B; int x = near::A::at(1, 2);",
        "using L = near::A; int x = near::B::at(1, 2);",
    ]


def test_a_header_stays_as_it_is() -> None:
    begin, end = BEGIN.decode() + b"p.cuh\0#include\n".hex() + "\n", END.decode() + "\n"
    assert names("", f"{begin}{POLICIES}using L = near::A;\n{end}") == []
    assert len(names("using L = near::A;", f"{begin}{POLICIES}using L = near::A;\n{end}")) == 1


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("auto l = Layout<A, B>();", "auto l = composition(Swizzle<3,2,3>{}, Layout<A, B>());"),
        ("auto l = cute::Layout<A>{};", "auto l = cute::composition(cute::Swizzle<3,2,3>{}, cute::Layout<A>{});"),
        ("auto l = make_layout(a, b);", "auto l = composition(Swizzle<3,2,3>{}, make_layout(a, b));"),
        ("using L = Layout<A>;", "using L = decltype(composition(Swizzle<3,2,3>{}, Layout<A>{}));"),
        ("auto l = other(a, b);", ""),
    ],
)
def test_a_layout_is_composed_where_it_is_declared(written: str, expected: str) -> None:
    text = f"__global__ void k() {{ {written} }}".encode()
    composed = [
        edited(text, layout.composed("Swizzle<3,2,3>")).decode()
        for layout in declared_layouts(cuda.parse(text, "k"), "k")
    ]
    assert composed == ([f"__global__ void k() {{ {expected} }}"] if expected else [])
