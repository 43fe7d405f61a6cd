"""A preprocessed text is split into declarations; sizes of launches are read from it, as far as constants tell."""

import pytest

from ncu_swizzle.kernels import launch_sites
from ncu_swizzle.kernels.signature import PreprocessedUnit

TEXT = """# 1 "/usr/include/system.h" 1 3
inline int system_function() { return 1; }
# 1 "my.cu"
namespace outer { inline namespace v1 {
struct Pair { int a, b; int sum() const { return a + b; } };
template <typename T, int N = 4>
__attribute__((global)) void __attribute__((launch_bounds(64))) first(T* x, Pair p) { x[0] = "}{;"[0]; }
}
namespace {
static __attribute__((global)) void second(float* x) { for (int i = 0; i < 2; i++) { x[i] = '}'; } }
}
}
# 3 "my.hpp" 1
constexpr int twice(int n) { return 2 * n; }
int table[] = {1, 2, 3};
template <> struct std::hash<int> { };
auto lambda = [](int n) { return n; };
# 20 "my.cu" 2
extern "C" { __attribute__((device)) float helper() { return 1; } }
Own::Own(int n) : size{n}, rest(0) { run(); }
const char* raw = R"x(} ; " )x";
int after() { return 1'000; }
"""


def test_declarations_end_where_they_end() -> None:
    unit = PreprocessedUnit(TEXT, lambda file: not file.startswith("/usr"))
    found = {
        (*unit.place(unit.first_word(each)), each.scope, each.name, each.is_kernel, each.is_host_function)
        for each in unit.declarations
    }
    assert {each for each in found if each[3]} == {
        ("my.cu", 3, ("outer", "v1"), "first", True, False),
        ("my.cu", 7, ("outer", ""), "second", True, False),
        ("my.hpp", 3, (), "twice", False, False),
        ("my.cu", 20, (), "helper", False, False),
        ("my.cu", 21, (), "Own", False, True),
        ("my.cu", 23, (), "after", False, True),
    }
    assert len(found) == 11
    (first,) = (each for each in unit.declarations if each.name == "first")
    assert (first.is_template, first.template_parameters) == (True, ["typename T", "int N = 4"])


def test_what_is_left_out_keeps_every_line_in_its_place() -> None:
    unit = PreprocessedUnit(TEXT)
    left_out = [each for each in unit.declarations if each.name in ("first", "twice", "after")]
    shorter = PreprocessedUnit(unit.without(left_out))
    assert shorter.text.count("\\n") == TEXT.count("\\n")
    kept = [each for each in unit.declarations if each not in left_out]
    places = [(each.head, shorter.place(shorter.first_word(each))) for each in shorter.declarations]
    assert places == [(each.head, unit.place(unit.first_word(each))) for each in kept]
    assert [each.name for each in unit.covering("my.cu", 7)] == ["second"]
    assert unit.covering("my.cu", 5) == unit.covering("other.cu", 1) == []


CONSTANTS = {
    "256": 256, "2 * WIDE": 128, "WIDE / 3": 21, "(WIDE + 31) / 32 * 32": 64, "static_cast<int>(WIDE) << 1": 128,
    "sizeof(float) * WIDE": 256, "std::min(WIDE, 32u)": 32, "ns::WIDE": 64, "n": None, "WIDE / 0": None,
    "-1 / 2": None, "f(2)": None, "1.5": None, "WIDE ? 1 : 2": None, "9" * 400: None,
}  # fmt: skip


@pytest.mark.parametrize("text", CONSTANTS)
def test_only_constants_have_values(text: str) -> None:
    assert launch_sites.evaluated(text, {"WIDE": "64"}) == CONSTANTS[text]


LAUNCHES = {
    "k<<<4, 128>>>(x)": ((4, 1, 1), (128, 1, 1), 0),
    "k<<<dim3(2, 3), dim3(T, T / 2), 4 * T>>>(x)": ((2, 3, 1), (32, 16, 1), 128),
    "k<<<n, block>>>(x)": (None, (32, 8, 1), 0),
    "k<<<n, {16, 16}, n, stream>>>(x)": (None, (16, 16, 1), None),
    "k<<<1, changed>>>(x)": ((1, 1, 1), None, 0),
    "k<<<1, parameter>>>(x)": ((1, 1, 1), None, 0),
    "k<<<1, stepped>>>(x)": ((1, 1, 1), None, 0),
    "cudaLaunchKernel((const void*)k, dim3(1), block, arguments, 64, stream)": ((1, 1, 1), (32, 8, 1), 64),
    "cudaLaunchKernel(reinterpret_cast<void*>(&k), 1, T, arguments, 0, 0)": ((1, 1, 1), (32, 1, 1), 0),
    "cudaLaunchKernelEx(&config, k, x)": ((4, 1, 1), (96, 1, 1), 1024),
    "k<<<1, Shape::rows>>>(x)": ((1, 1, 1), (8, 1, 1), 0),
}


@pytest.mark.parametrize("launch", LAUNCHES)
def test_sizes_of_launches_are_known_where_they_are_constant(launch: str) -> None:
    unit = PreprocessedUnit(
        "constexpr int T = 32; const int parameter = 64; enum Shape { rows = 8, other };\n"
        "__attribute__((global)) void k(float* x) { }\n"
        "void run(float* x, int n, int parameter, cudaStream_t stream) {\n"
        "dim3 block(T, 8); int changed = 64; if (n) changed = 128; int stepped = 1; stepped *= 2;\n"
        "cudaLaunchConfig_t config{}; config.gridDim = dim3(4); config.blockDim = 96;\n"
        f"config.dynamicSmemBytes = 1 << 10; {launch}; }}\n"
    )
    (found,) = launch_sites.launches_of(unit, launch_sites.sites(unit), "k(float*)")
    assert (found.grid, found.block, found.shared) == LAUNCHES[launch]


def test_a_template_is_launched_as_its_instance() -> None:
    unit = PreprocessedUnit(
        "template <typename T, int N> void launch(T* x) { const int half = N / 2; "
        "k<T, N><<<1, N, half * sizeof(T)>>>(x); }\n"
        "void run(float* x) { k<float, 7><<<1, 7>>>(x); other<<<1, 5>>>(x); }\n"
    )
    found = launch_sites.sites(unit)

    def of(name: str) -> list[object]:
        return [(each.block, each.shared) for each in launch_sites.launches_of(unit, found, name)]

    assert of("void k<double, 64>(double*)") == [((64, 1, 1), 256)]
    assert of("void k<float, 7>(float*)") == [((7, 1, 1), 12), ((7, 1, 1), 0)]
    assert of("other(float*)") == [((5, 1, 1), 0)]
    assert of("third()") == []
