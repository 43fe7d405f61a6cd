"""Kernels are found by the names that people give them, and shown by short ones; arguments fit what they take."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import UnknownKernel, UsageError
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import is_library, is_wmma
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.kernels import arguments, check, fills
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, Toolchain
from tests.support.own_kernel import NAMED
from tests.support.places import ROOT, text


@pytest.fixture(scope="module")
def cubin() -> Cubin:
    """Return what nvcc makes of NAMED."""
    if missing := Toolchain().lacking(NVCC):
        pytest.skip(missing)
    return Cubin(Toolchain().compile(NAMED, (), ARCH, ()), "k.cu")


def test_only_kernels_are_listed(cubin: Cubin) -> None:
    named = sorted(names.qualified(names.demangle(name)) for name in cubin.kernels)
    assert named == [
        "(anonymous namespace)::hidden", "none", "ns::fn<32, float, true>", "ns::fn<64, double, false>", "plain",
        "structure",
    ]  # fmt: skip


NAMES = [
    ("plain", "plain"),
    ("none", "_Z4nonev"),
    ("none()", "_Z4nonev"),
    ("_Z4nonev", "_Z4nonev"),
    ("fn<32,float,true>", "_ZN2ns2fnILi32EfLb1EEEvPKT0_PS1_j"),
    ("fn<32u, float, true>", "_ZN2ns2fnILi32EfLb1EEEvPKT0_PS1_j"),
    ("ns::fn<64, double, false>", "_ZN2ns2fnILi64EdLb0EEEvPKT0_PS1_j"),
    ("hidden", "(anonymous namespace)::hidden"),
]


def test_a_kernel_is_found_by_its_name(cubin: Cubin) -> None:
    for wanted, expected in NAMES:
        name = names.find(cubin, wanted)
        assert expected in (name, names.qualified(names.demangle(name))), wanted


def test_several_kernels_of_a_name_are_told_apart(cubin: Cubin) -> None:
    for wanted in ("fn", "ns::fn"):
        with pytest.raises(UsageError, match=r"2 kernels called .*ns::fn<32, float, true>, ns::fn<64") as several:
            names.find(cubin, wanted)
        assert names.find(cubin, shlex.split(several.value.hint)[-1])
    for wanted in ("nothing", "fn<16>", "helper"):
        with pytest.raises(UnknownKernel, match=rf"k\.cu has no kernel {wanted}; it has "):
            names.find(cubin, wanted)


def test_declarations_are_read_from_the_source() -> None:
    assert names.declared_kernels(NAMED) == ["fn", "hidden", "plain", "structure", "none"]
    assert names.declared_kernels(
        '// __global__ void commented(int);\n/* __global__ void also() */ const char* s = "__global__ void text()";\n'
        "template <typename T>\n__global__ void __launch_bounds__(256, f(2)) __cluster_dims__(2, 1, 1)\nbounded(T x);\n"
        "static __global__ __launch_bounds__(32) void behind(int (*table)[4]) { }"
    ) == ["bounded", "behind"]


def fit(cubin: Cubin, kernel: str, *texts: str) -> None:
    """Hold the arguments against the kernel as the launching program does."""
    found = arguments.parse_arguments(texts, Path(), {"n": 8})
    sizes = [8 if one.shape else len(fills.scalar(one, {"n": 8}).tobytes()) for one in found]
    check.refuse_mismatch(cubin, names.find(cubin, kernel), found, sizes)


def test_right_arguments_pass(cubin: Cubin) -> None:
    fit(cubin, "fn<32,float,true>", "x=float32[n]:random", "y=float32[n]:out", "n=uint32:n")
    fit(cubin, "fn<32,float,true>", "x=float32[n]:random", "y=float32[n]:out", "n")  # int for unsigned is fine
    fit(cubin, "plain", "a=float32[n,4]:out", "1.5", "true", "3ll")
    fit(cubin, "none")


MISFITS = [
    ("fn<32,float,true>", ("x=float32[n]:random", "y=float32[n]:out"), "3 parameters, 2 arguments"),
    ("none", ("n",), "0 parameters, 1 arguments"),
    ("fn<32,float,true>", ("x=float32[n]:random", "y=float32[n]:out", "n=int64:n"), "n has 8 bytes, the parameter"),
    ("fn<32,float,true>", ("x=float32[n]:random", "y=float32[n]:out", "1.5f"), "is float32, the parameter is uns"),
    ("fn<32,float,true>", ("x=float64[n]:random", "y=float32[n]:out", "n"), "x holds float64, the parameter is f"),
    ("fn<32,float,true>", ("x=int64:n", "y=float32[n]:out", "n"), "x is a number, the parameter float const"),
    ("structure", ("p=float32[n]:out",), "p has 8 bytes, the parameter 16"),
    ("plain", ("a=float32[n,4]:out", "1.5", "1", "3ll"), "arg3 has 4 bytes, the parameter 1"),
]


def test_arguments_that_do_not_fit_are_told_before_a_launch(cubin: Cubin) -> None:
    for kernel, texts, said in MISFITS:
        with pytest.raises(UsageError, match=f"the arguments do not fit.*{said}") as wrong:
            fit(cubin, kernel, *texts)
        hint = str(wrong.value.hint)
        assert "--arg " in hint or kernel == "none"
        if hint.startswith("--arg "):
            given = shlex.split(hint)
            assert given[::2] == ["--arg"] * len(given[1::2])
            fit(cubin, kernel, *(text.replace("TODO", "n") for text in given[1::2]))  # what it says to type fits


CALLED = ("tile-swizzled", "void ns::turn<(int)32>(float *, int)", "_ZN2ns4turnILi32EEEvPfi")


MEANT = ("", "turn", "turn<32>", "tile-swizzled", CALLED[2], CALLED[1], "regex:^tu.n$", "regex:ns::", "regex:swizzled$")
NOT_MEANT = ("tur", "tu.n", "regex:swizz$", "regex:ILi32E", "3", "32")  # the fourth is in the mangled name alone


def test_a_name_is_exact_and_an_expression_is_searched_for() -> None:
    assert [text for text in (*MEANT, *NOT_MEANT) if KernelFilter(text).passes(CALLED)] == [*MEANT]
    assert KernelFilter("3").passes(("3", ""))


def test_an_expression_that_is_not_valid_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"kernel_name: '\(' is not a valid regular expression"):
        KernelFilter("regex:(", "kernel_name").checked()
    assert KernelFilter("(").checked().text == "("


LIBRARIES, OWN = (part.splitlines() for part in text("cubin/paths.txt").split("\n\n"))


def test_headers_of_libraries_are_told_from_the_user_s_files() -> None:
    assert [file for file in (*LIBRARIES, *OWN) if is_library(file)] == [*LIBRARIES]
    assert [file for file in (*LIBRARIES, *OWN) if is_wmma(file)] == [LIBRARIES[0], LIBRARIES[5]]


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


def test_names_are_demangled_without_numpy() -> None:
    """Where there are many cores, its threads took the seconds and the memory of the process that demangles."""
    program = "import sys; import ncu_swizzle.cubin.names; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
