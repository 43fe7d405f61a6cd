"""Names of kernels and programs, shortened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.texts import one_line
from ncu_swizzle.cubin import names
from tests.support.properties import examples, holds

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).filter(lambda word: word != "operator")
TYPES = st.recursive(
    st.one_of(
        st.sampled_from(["int", "float *", "unsigned long", "(int)4", "(bool)1", "128ul", "const T2 *", "-1"]), WORDS
    ),
    lambda inner: st.builds(
        lambda spaces, name, arguments: "::".join([*spaces, name]) + f"<{', '.join(arguments)}>",
        st.lists(WORDS, max_size=2),
        WORDS,
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
NAMESPACES = st.lists(st.one_of(WORDS, st.sampled_from(["<unnamed>", "(anonymous namespace)"])), max_size=3)


@st.composite
def signatures(draw: st.DrawFn) -> tuple[str, str]:
    """Return a demangled signature, and the name of its function."""
    name = draw(WORDS)
    template = draw(st.lists(TYPES, max_size=3))
    qualified = "::".join([*draw(NAMESPACES), name]) + (f"<{', '.join(template)}>" if template else "")
    parameters = draw(st.none() | st.lists(TYPES, max_size=3))
    result = draw(st.sampled_from(["", "void ", "unsigned int ", "ns::Pair<int, float> "]))
    return f"{result}{qualified}" + ("" if parameters is None else f"({', '.join(parameters)})"), name


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


@pytest.mark.long
@given(signatures())
def test_namespaces_arguments_parameters_and_results_go(signature: tuple[str, str]) -> None:
    written, name = signature
    assert names.function(written) == name
    short = names.shorten(written, 1000)
    assert short == name or short.startswith(f"{name}<")
    assert "::" not in short
    assert names.function(short) == name
    assert names.shorten(short, 1000) == short, "what is short stays so"


@given(st.text(), st.integers(1, 80))
def test_any_text_has_a_short_printable_name(text: str, most: int) -> None:
    for short in (names.shorten(text, most), names.function(text)):
        assert all(letter.isprintable() for letter in one_line(short))
    assert len(names.shorten(text, most)) <= max(most, 1)
    assert bool(names.shorten(text, most)) == bool(text.strip())
    assert names.function(names.function(text)) == names.function(text)


@pytest.mark.long
@given(st.lists(st.one_of(signatures().map(lambda one: one[0]), st.text(min_size=1, max_size=9)), max_size=6))
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


@pytest.mark.long
@examples
def test_names_of_brackets_are_read_in_time(examples: int) -> None:
    def check(part: str, count: int) -> None:
        name = part * count
        for short in (names.function(name), names.shorten(name), names.qualified(name)):
            assert isinstance(short, str)
        names.parameter_types(name)
        assert len(names.distinct([name, f"{name}x", name])) == 3

    parts = st.text(alphabet="<>(){}[]:, *&a_Z~", min_size=1, max_size=6)
    holds(examples // 2, check, parts, st.sampled_from([1, 7, 500, 4000]))


@examples
def test_sources_of_brackets_are_read_in_time(examples: int) -> None:
    def check(part: str, count: int) -> None:
        assert isinstance(names.declared_kernels("__global__ void " + part * count), list)

    parts = st.text(alphabet='_ ()<>{};/*"\\\na', min_size=1, max_size=6) | st.sampled_from(
        ["__global__ ", "__a__((", "/*", '"']
    )
    holds(examples // 2, check, parts, st.sampled_from([1, 7, 500, 4000]))


def test_a_name_that_repeats_itself_is_demangled_in_a_process_of_its_own() -> None:
    repeated = names.FEW_REFERENCES + 2
    assert names.demangle("_Z1f" + "Ss" * repeated) == f"f({', '.join(['std::string'] * repeated)})"
