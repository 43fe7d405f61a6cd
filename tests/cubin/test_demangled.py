"""Names of kernels and programs, shortened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.texts import one_line
from ncu_swizzle.cubin import names

SHORT = [
    ("transpose_plain", "transpose_plain", "transpose_plain"),
    ("rows(float *, int)", "rows", "rows"),
    ("void a::b::rows<(int)4, a::Fill<float>>(int, T2)", "rows", "rows<4, Fill<float>>"),
    ("void a::<unnamed>::soft<float, (bool)1>(T1 *)", "soft", "soft<float, 1>"),
    ("void a::(anonymous namespace)::soft<float, false>(float*)", "soft", "soft<float, false>"),
    ("void h<a::Where::SHARED, a::{lambda(long)#1}>(a::Info<long>)", "h", "h<SHARED, {lambda(long)#1}>"),
    ("void k<A<B<C> > >(int)", "k", "k<A<B<C>>>"),
    ("void Box<int>::operator()<float>(int)", "operator()", "operator()<float>"),
    ("triton_poi_fused_0d1d2", "triton_poi_fused_0d1d2", "triton_poi_fused_0d1d2"),
    ("", "", ""),
]


def test_a_name_is_the_function_s_own() -> None:
    assert [(text, names.function(text), names.shorten(text)) for text, _, _ in SHORT] == SHORT
    assert "\x1b" not in names.shorten("evil\x1b[31m<int>()")


@given(st.text(), st.integers(1, 80))
def test_any_text_has_a_short_printable_name(text: str, most: int) -> None:
    for short in (names.shorten(text, most), names.function(text)):
        assert all(letter.isprintable() for letter in one_line(short))
    assert len(names.shorten(text, most)) <= max(most, 1)
    assert bool(names.shorten(text, most)) == bool(text.strip())
    assert names.function(names.function(text)) == names.function(text)


@pytest.mark.long
@given(st.lists(st.sampled_from([text for text, _, _ in SHORT if text]) | st.text(min_size=1, max_size=9), max_size=6))
def test_different_functions_get_different_names_and_equal_ones_the_same(functions: list[str]) -> None:
    short = names.distinct(functions, 20)
    assert len(short) == len(functions)
    assert len(set(zip(functions, short, strict=True))) == len(set(functions))
    assert len(set(short)) == len(set(functions))


def test_template_arguments_show_only_where_they_tell_instances_apart() -> None:
    functions = ["void a::f<int>()", "g()", "void a::f<float>()", "g()"]
    assert names.distinct(functions) == ["f<int>", "g", "f<float>", "g"]
    assert names.distinct(["void a::f<int>()", "void a::f<int>()"]) == ["f", "f"]


HOSTILE = ("(", "<", "<(", "[clone ", "a::", "operator", " ", "{", ")>", "(anonymous namespace)::", "1", "x ", "(a::")


@pytest.mark.long
def test_a_long_name_takes_linear_time() -> None:
    """Quadratic time would be hours."""
    for part in HOSTILE:
        name = part * (200_000 // len(part)) + ")>]}" * 10_000
        names.function(name)
        names.parameter_types(name)
        for spell in names.SPELLINGS:
            spell(name)
        assert len(names.shorten(name)) <= names.MOST
        assert names.distinct([name, "f(int)"])[1] == "f"


def test_a_name_that_doubles_itself_again_and_again_stays_mangled() -> None:
    name = "_Z1f1aI1b1bE" + "".join(f"S_IS{number}_S{number}_E" for number in "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert len(names.demangle(name)) <= names.LONGEST_DEMANGLED
    assert names.demangle("_Z1f1aI1b1bES_IS1_S1_E").startswith(("f(", "_Z"))
    assert names.demangle_all(["_Z1fv", "g", name])["_Z1fv"] == "f()"


def test_a_name_that_repeats_itself_is_demangled_in_a_process_of_its_own() -> None:
    repeated = names.FEW_REFERENCES + 2
    assert names.demangle("_Z1f" + "Ss" * repeated) == f"f({', '.join(['std::string'] * repeated)})"
