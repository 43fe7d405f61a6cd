"""A user's own .cu files: described on the command line or in ncu-swizzle.toml, compiled, and profiled."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.catalog import argument_syntax
from ncu_swizzle.build import recipe
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog import family_json
from ncu_swizzle.launch import expected_output
from ncu_swizzle.catalog import fills
from ncu_swizzle.ncu import gpu
from ncu_swizzle.build import headers
from ncu_swizzle.catalog import includes
from ncu_swizzle.cubin import line_table
from ncu_swizzle.launch import __main__
from ncu_swizzle.catalog import nvcc_options
from ncu_swizzle import paths
from ncu_swizzle.catalog import project
from ncu_swizzle.catalog import project_kernels
from ncu_swizzle.cubin import symbols
from ncu_swizzle.catalog import user_kernels
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.errors import BadCatalog, BadFile, UnknownKernel, UsageError
from ncu_swizzle.ncurep.reader import Facts
from ncu_swizzle.catalog.user_kernels import Asked
from tests.test_catalog import FAMILY
from tests.test_cli import command, fake, work  # noqa: F401 - fixtures

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "own-kernel"
FULL = Asked(
    entry="transpose",
    grid="n//32,n//32",
    block="32,8",
    args=("x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"),
    problem={"n": 64},
)
TYPED = (
    *("--grid", "n//32,n//32", "--block", "32,8", "--problem", "n=64"),
    *("--arg", "x=float32[n,n]:random", "--arg", "y=float32[n,n]:out", "--arg", "n=int32:n"),
)
VARIANTS = ("--before", "-DSWIZZLE=0", "--after", "-DSWIZZLE=1")
without_gpu = pytest.mark.skipif(not gpu.absent(), reason="about machines without a GPU")
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


def own(folder: Path, text: str = "") -> Path:
    """Copy the example's source to a folder, and a description of it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(EXAMPLE / "my.cu", folder)
    if text:
        (folder / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
    return folder / "my.cu"


# ---------------------------------------------------------------------------------------------- described by options


def test_a_file_becomes_a_family(tmp_path: Path) -> None:
    family = user_kernels.of_file(own(tmp_path), FULL, ())
    (kernel,) = family.kernels
    assert (family.name, kernel.name, kernel.entry) == ("transpose",) * 3
    assert family.source(kernel) == tmp_path / "my.cu"
    assert family.problem() == {"n": 64}
    assert family.geometry({"n": 64}) == ((2, 2, 1), (32, 8, 1))
    assert [argument.output for argument in family.arguments] == [False, True, False]
    assert not family.shipped
    assert not family.reference
    assert family.source_texts() == {"my.cu": (EXAMPLE / "my.cu").read_text(encoding="utf-8")}


def test_the_only_kernel_need_not_be_named_and_several_are_listed(tmp_path: Path) -> None:
    source = own(tmp_path)
    assert user_kernels.of_file(source, replace(FULL, entry=""), ()).kernels[0].entry == "transpose"
    source.write_text("__global__ void one() {}\n__global__ void two() {}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"my\.cu has 2 kernels: one, two") as several:
        user_kernels.of_file(source, replace(FULL, entry=""), ())
    assert several.value.hint == "--kernel one"
    source.write_text('#include "body.cuh"\n', encoding="utf-8")
    (tmp_path / "body.cuh").write_text("__global__ void inside() {}\n", encoding="utf-8")
    assert user_kernels.of_file(source, replace(FULL, entry=""), ()).kernels[0].entry == "inside"
    source.write_text("int x;\n", encoding="utf-8")
    with pytest.raises(UsageError, match="declares no __global__ function"):
        user_kernels.of_file(source, replace(FULL, entry=""), ())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": ""}, "transpose has no grid"),
        ({"block": ""}, "transpose has no block"),
        ({"problem": {}}, "grid: .*there is no size 'n'"),
        ({"block": "n,n"}, "which is not 1 to|is .* threads"),
        ({"args": ("x=float32[n,m]:random",)}, "argument x: .*there is no size 'm'"),
        ({"shared": "0-1"}, "shared is 0-1"),
        ({"before": ("-DX=1",), "after": ("-DX=1",)}, "compiled alike"),
    ],
)
def test_what_is_missing_or_wrong_is_told(change: dict[str, object], said: str, tmp_path: Path) -> None:
    asked = replace(FULL, **{"problem": {"n": 2048}, **change})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=said) as wrong:
        user_kernels.of_file(own(tmp_path), asked, ())
    assert wrong.value.hint


def test_before_and_after_are_one_kernel_compiled_in_two_ways(tmp_path: Path) -> None:
    asked = replace(FULL, options=("-DTILE=32",), before=("-DSWIZZLE=0",), after=("-DSWIZZLE=1",))
    family = user_kernels.of_file(own(tmp_path), asked, ())
    before, after = family.kernels
    assert (before.name, after.name, after.baseline) == ("transpose (before)", "transpose (after)", before.name)
    assert recipe.options(family, after) == (*recipe.OPTIONS, "-DTILE=32", "-DSWIZZLE=1")
    cached = {recipe.cached(family, kernel, "sm_90", "13.0").name for kernel in family.kernels}
    assert len(cached) == 2
    assert all(" " not in name and "(" not in name for name in cached)


def test_the_command_line_says_it_instead_of_the_file() -> None:
    described = project_kernels.specs(project.read(EXAMPLE / "ncu-swizzle.toml"))
    as_it_is = user_kernels.of_file(EXAMPLE / "my.cu", Asked(), described)
    assert [kernel.name for kernel in as_it_is.kernels] == ["tile-rowmajor", "tile-swizzled"]
    assert as_it_is.reference == f"{EXAMPLE}/reference.py:transpose"
    other = user_kernels.of_file(EXAMPLE / "my.cu", Asked(block="32,4", problem={"n": 96}), described)
    assert other.block == ("32", "4", "1")
    assert other.grid == as_it_is.grid
    assert other.problem() == {"n": 96}
    ways = user_kernels.of_file(EXAMPLE / "my.cu", Asked(before=("-DSWIZZLE=0",)), described)
    assert [kernel.name for kernel in ways.kernels] == ["tile (before)", "tile (after)"]


def test_options_for_a_file_are_refused_for_a_kernel_of_the_catalogue() -> None:
    with pytest.raises(UsageError, match=r"--grid, --arg describe a \.cu file, and kernel2 is none"):
        user_kernels.chosen("kernel2", Asked(grid="1", args=("1",)))
    with pytest.raises(BadFile, match=r"nowhere\.cu does not exist"):
        user_kernels.chosen("nowhere.cu", FULL)
    with pytest.raises(UsageError, match="a file beside other kernels"):
        user_kernels.chosen_together(["kernel1", "my.cu"], FULL)


# ---------------------------------------------------------------------------------------------- nvcc's options


def test_options_are_split_and_made_whole(tmp_path: Path) -> None:
    assert nvcc_options.split(["-DA=1 -DB='x y'", "-I inc", "-I../up", "-Xptxas -v"], tmp_path) == (
        *("-DA=1", "-DB=x y", f"-I{tmp_path}/inc", f"-I{tmp_path.parent}/up", "-Xptxas", "-v"),
    )
    assert nvcc_options.options(["A", "B=2"], ["inc"], [], "c++20", tmp_path) == (
        *("-DA", "-DB=2", f"-I{tmp_path}/inc", "-std=c++20"),
    )


@pytest.mark.parametrize("text", ["-arch=sm_80", "-gencode arch=compute_80,code=sm_80", "-o x", "-D'A"])
def test_options_that_cannot_be_are_told(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        nvcc_options.split([text], tmp_path)
    with pytest.raises(UsageError, match="no NAME or NAME=VALUE"):
        nvcc_options.options(["1A"], [], [], "", tmp_path)


def test_a_language_standard_of_theirs_replaces_ours(tmp_path: Path) -> None:
    family = user_kernels.of_file(own(tmp_path), replace(FULL, options=("-std=c++20",)), ())
    assert recipe.options(family, family.kernels[0]) == ("-lineinfo", "-O3", "-std=c++20")


def test_the_shipped_kernels_are_compiled_as_ever() -> None:
    for family, kernel in collection.shipped():
        if kernel.library:
            continue
        assert recipe.options(family, kernel) == recipe.OPTIONS
        if not family.headers:
            assert recipe.include_folders(family) == [paths.kernels() / "common", family.folder]
        assert recipe.unit(family, kernel) == f'#include "{family.source(kernel)}"\n'


# ---------------------------------------------------------------------------------------------- sources


def test_included_headers_of_the_folder_are_sources_and_others_count_for_the_cache(tmp_path: Path) -> None:
    source = own(tmp_path / "src dir")
    text = '#include "inc/a.cuh"\n# include <b.cuh>\n#include "../outside.cuh"\n#include <cstdio>\n'
    source.write_text(text + "__global__ void fn() {}\n", encoding="utf-8")
    (source.parent / "inc").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (source.parent / "inc" / "a.cuh").write_text('#include "a.cuh"\n#include "../inc/c.cuh"\n', encoding="utf-8")
    (source.parent / "inc" / "c.cuh").write_text("// c\n", encoding="utf-8")
    (tmp_path / "outside.cuh").write_text("// outside\n", encoding="utf-8")
    other = tmp_path / "elsewhere" / "b.cuh"
    other.write_text("// b\n", encoding="utf-8")
    asked = Asked(grid="1", block="1", options=(f"-I{other.parent}",))
    family = user_kernels.of_file(source, asked, ())
    assert sorted(family.source_texts()) == ["inc/a.cuh", "inc/c.cuh", "my.cu"]
    assert {str(other), str(tmp_path / "outside.cuh")} < family.included().keys()
    (kernel,) = family.kernels
    before = recipe.cached(family, kernel, "sm_90", "13.0")
    assert recipe.cacheable(family, kernel)
    other.write_text("// changed\n", encoding="utf-8")
    assert recipe.cached(family, kernel, "sm_90", "13.0") != before
    other.write_text("#include NAMED\n", encoding="utf-8")
    assert not recipe.cacheable(family, kernel)
    assert includes.computed("#include NAMED") is True


@needs_nvcc
def test_what_the_compiler_names_is_what_the_sources_are_called(tmp_path: Path) -> None:
    source = own(tmp_path / "a dir <b>")
    source.write_text(
        '#include "sub/../helper.cuh"\n__global__ void fn(float* x) { x[threadIdx.x] = twice(x[0]); }\n',
        encoding="utf-8",
    )
    (source.parent / "sub").mkdir()
    helper = "__device__ inline float twice(float x) {\n  x = sqrtf(x);\n  return x * 2;\n}\n"
    (source.parent / "helper.cuh").write_text(helper, encoding="utf-8")
    family = user_kernels.of_file(source, Asked(grid="1", block="32", args=("x=float32[32]:zeros:out",)), ())
    cubin = compile_(family, tmp_path)
    name = symbols.find(cubin, family.kernels[0].entry)
    facts = Facts({"source_roots": __main__.what_runs(family, family.kernels[0], {})["source_roots"]})
    named = {facts.relative(row.location[0]) for row in line_table.line_table(cubin, name).rows}
    assert {"my.cu", "helper.cuh"} <= named
    assert {"my.cu", "helper.cuh"} == family.source_texts().keys()


def compile_(family: Family, folder: Path) -> bytes:
    """Compile a family's first kernel as PyCUDA does, with the same options, folders and text."""
    kernel = family.kernels[0]
    (folder / "kernel.cu").write_text(recipe.unit(family, kernel), encoding="utf-8")
    include = [f"-I{place}" for place in recipe.include_folders(family)]
    options = [*recipe.options(family, kernel), "-arch=sm_90", *include]
    subprocess.run(["nvcc", "-cubin", *options, "kernel.cu", "-o", "out.cubin"], cwd=folder, check=True)
    return (folder / "out.cubin").read_bytes()


@needs_nvcc
def test_a_user_s_kernel_may_include_our_helpers(tmp_path: Path) -> None:
    source = own(tmp_path)
    text = '#include "layout.cuh"\n__global__ void fn(int* x) { x[0] = layout::RowMajor<64>::at(1, 0); }\n'
    source.write_text(text, encoding="utf-8")
    family = user_kernels.of_file(source, Asked(grid="1", block="1", args=("x=int32[1]:out",)), ())
    assert "#pragma once" in family.included()[str(paths.kernels() / "common" / "layout.cuh")]
    (tmp_path / "layout.cuh").write_text("namespace layout { template <int> struct RowMajor {", encoding="utf-8")
    assert str(tmp_path / "layout.cuh") in family.included(), "their own header goes before ours"
    (tmp_path / "layout.cuh").unlink()
    assert compile_(family, tmp_path)


def test_a_path_that_nvcc_cannot_read_is_told(tmp_path: Path) -> None:
    family = user_kernels.of_file(own(tmp_path / 'a"b'), FULL, ())
    with pytest.raises(UsageError, match="cannot read a path"):
        recipe.unit(family, family.kernels[0])


# ---------------------------------------------------------------------------------------------- the description


def test_a_described_family_comes_back_equal(tmp_path: Path) -> None:
    described = project_kernels.specs(project.read(EXAMPLE / "ncu-swizzle.toml"))
    families = [user_kernels.of_file(EXAMPLE / "my.cu", Asked(), described), *collection.shipped().families]
    for number, family in enumerate(families):
        file = tmp_path / f"{number}.json"
        family_json.write(family, file)
        assert family_json.read(file) == family
    file.write_text('{"name": 1}', encoding="utf-8")
    with pytest.raises(BadFile, match="describes no family"):
        family_json.read(file)


# ---------------------------------------------------------------------------------------------- ncu-swizzle.toml


KERNEL = """
[kernel.tile]
source = "my.cu"
problem = { n = 64 }
grid = ["n // 32", "n // 32"]
block = "32, 8"
args = ["x=float32[n,n]:random", "y=float32[n,n]:out", "n"]
"""


def test_a_project_s_kernels_and_families_list_beside_ours(tmp_path: Path) -> None:
    own(tmp_path, f'catalog = ["families"]\n{KERNEL}\n[check]\nmax-degree = 2\n')
    (tmp_path / "families" / "toy").mkdir(parents=True)
    (tmp_path / "families" / "toy" / "family.toml").write_text(FAMILY, encoding="utf-8")
    deep = tmp_path / "deep"
    deep.mkdir()
    names = [kernel.name for _, kernel in user_kernels.everything(start=deep)]
    assert {"kernel2", "toy-plain", "tile"} <= set(names)
    assert names == [kernel.name for _, kernel in user_kernels.everything([tmp_path / "families"], start=deep)]
    alone = user_kernels.everything(config="none", start=deep)
    assert [kernel.name for _, kernel in alone] == [kernel.name for _, kernel in collection.shipped()]
    with pytest.raises(UnknownKernel):
        alone.find("tile")


def test_pyproject_holds_the_same(tmp_path: Path) -> None:
    own(tmp_path)
    text = KERNEL.replace("[kernel", "[tool.ncu-swizzle.kernel")
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    family, kernel = user_kernels.everything(start=tmp_path).find("tile")
    assert family.source(kernel) == tmp_path / "my.cu"
    (tmp_path / "pyproject.toml").write_text(text.replace('"my.cu"', '"none.cu"'), encoding="utf-8")
    with pytest.raises(
        BadFile, match=r"pyproject\.toml \[tool\.ncu-swizzle\.kernel\.tile\]: .*none\.cu does not exist"
    ):
        user_kernels.everything(start=tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('source = "my.cu"', "", "names no source"),
        ("problem", "problme", "unknown key 'problme', did you mean 'problem'"),
        ("{ n = 64 }", "[64]", "problem is"),
        ("{ n = 64 }", '{ n = "many" }', "the size n is 'many'"),
        ("{ n = 64 }", "{ n = { default = 64, multiple = 48 } }", "n=64 is outside the limits"),
        ('"32, 8"', "true", "block is True"),
        ("args = [", "args = [[1], ", "args is"),
        ("block", "tolerance = { y = -1 }\nblock", "the tolerance of y is -1"),
        ("block", "tolerance = { z = 1 }\nblock", "'z' is no output"),
        ("block", 'defines = ["X"]\nblock', "defines is"),
        ("block", 'compute_capability = "hopper"\nblock', "compute_capability is 'hopper'"),
        ("block", "variant = 3\nblock", "is no table"),
        ("block", "variant = { a = { defines = { X = 1 }, grid = 3 } }\nblock", "unknown key 'grid'"),
        ("[kernel.tile]", '[kernel."-x"]', "'-x' is no name for a kernel"),
    ],
)
def test_mistakes_in_the_file_are_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = KERNEL.replace(old, new, 1)
    assert text != KERNEL
    own(tmp_path, text)
    with pytest.raises(UsageError, match=said) as wrong:
        user_kernels.everything(start=tmp_path)
    assert wrong.value.hint
    assert "ncu-swizzle.toml" in str(wrong.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [("[kernel.kernel2]", "two kernels are called 'kernel2'"), ("[kernel.gemm]", "two families are called 'gemm'")],
)
def test_a_name_that_is_taken_is_refused(name: str, said: str, tmp_path: Path) -> None:
    own(tmp_path, KERNEL.replace("[kernel.tile]", name))
    with pytest.raises(BadCatalog, match=said):
        user_kernels.everything(start=tmp_path)


def test_a_file_s_own_kernel_goes_before_ours_of_its_name(tmp_path: Path) -> None:
    source = own(tmp_path)
    source.write_text("__global__ void kernel2() {}\n", encoding="utf-8")
    known, names = user_kernels.chosen(str(source), Asked(grid="1", block="1"))
    assert names == ["kernel2"]
    assert known.find("kernel2")[0].folder == tmp_path


def test_several_descriptions_of_one_file_need_a_name(tmp_path: Path) -> None:
    source = own(tmp_path, KERNEL + KERNEL.replace("tile", "other").replace("my.cu", "./my.cu"))
    with pytest.raises(UsageError, match=r"describes 2 kernels of my\.cu: tile, other"):
        user_kernels.chosen(str(source), Asked())
    assert user_kernels.chosen(str(source), Asked(entry="other"))[1] == ["other"]


def test_what_the_file_does_not_say_the_command_line_may(tmp_path: Path) -> None:
    source = own(tmp_path, KERNEL.replace('block = "32, 8"', ""))
    with pytest.raises(UsageError, match="tile has no block"):
        user_kernels.everything(start=tmp_path)
    known, names = user_kernels.chosen(str(source), Asked(block="32,8"))
    assert known.find(names[0])[0].block == ("32", "8", "1")


def test_a_folder_without_families_is_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(BadCatalog, match="is no catalogue") as wrong:
        user_kernels.everything([tmp_path], config="none")
    assert "--catalog kernels" in wrong.value.hint


def test_a_user_s_family_has_options_files_and_our_helpers(tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "toy"
    folder.mkdir(parents=True)
    plain = FAMILY.replace(
        "[[variant]]", '[[argument]]\nname = "t"\ndtype = "int8"\nshape = ["4"]\nfill = "t.npy"\n[[variant]]'
    )
    text = plain.replace('reference = "somewhere"', 'options = ["-DX"]') + 'file = "all.cu"\nfunction = "ns::fn<1>"\n'
    (folder / "family.toml").write_text(text + 'options = ["-DY"]\n', encoding="utf-8")
    (folder / "all.cu").write_text('#include "ptx.cuh"\n', encoding="utf-8")
    family, kernel = user_kernels.everything([tmp_path / "mine"], config="none").find("toy-plain")
    assert family.source(kernel) == folder / "all.cu"
    assert kernel.entry == "ns::fn<1>"
    assert family.arguments[1].fill == str(folder / "t.npy")
    assert recipe.options(family, kernel) == (*recipe.OPTIONS, "-DX", "-DY")
    assert recipe.include_folders(family)[-1] == paths.kernels() / "common"
    assert {"mine/toy/all.cu", "kernels/common/ptx.cuh"} <= family.source_texts().keys()
    assert [*headers.source_roots(family)] == [tmp_path, paths.data_root()]


# ---------------------------------------------------------------------------------------------- references


def described(folder: Path, code: str, reference: str = "reference.py:fn") -> Family:
    """Return a family with the reference `code`."""
    own(folder, KERNEL.replace("block", f'reference = "{reference}"\nblock'))
    (folder / "reference.py").write_text(code, encoding="utf-8")
    (spec,) = project_kernels.specs(project.read(folder / "ncu-swizzle.toml"))
    return user_kernels.of_file(folder / "my.cu", Asked(), (spec,))


def expected(family: Family) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    problem = family.problem()
    found = expected_output.of(family, problem, fills.inputs(family, problem, rng), rng)
    return {name: values for name, (_, values) in found.items()}


@pytest.mark.parametrize(
    "code",
    [
        "def fn(x): return x.T",
        "def fn(n, x): return {'y': x.reshape(n, n).T}",
        "def fn(inputs, problem, rng): return {'y': (..., inputs['x'].T)}",
        "import helper\ndef fn(x, unused=3): return helper.turn(x)",
    ],
)
def test_a_reference_is_called_with_what_it_names(code: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def turn(x): return x.T", encoding="utf-8")
    family = described(tmp_path, code)
    x = fills.inputs(family, family.problem(), np.random.default_rng(1))["x"]
    assert expected(family)["y"].tolist() == x.T.astype(float).tolist()


def test_a_module_s_expected_is_called_as_the_catalogue_s_are(tmp_path: Path) -> None:
    family = described(tmp_path, "def expected(i, p, r): return {'y': ((0,), i['x'][:, 0])}", "reference.py")
    assert expected(family)["y"].shape == (64,)
    inputs = fills.inputs(family, family.problem(), np.random.default_rng(1))
    shipped = replace(family, reference="ncu_swizzle.references.transpose")
    with pytest.raises(UsageError, match=r"reference ncu_swizzle\.references\.transpose failed: KeyError: 'in'"):
        expected_output.of(shipped, family.problem(), inputs, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def fn(x): return x[:3]", r"returns y of shape \[3, 64\], the kernel's is \[64, 64\]"),
        ("def fn(x): return {'z': x}", "returns z, the outputs are y"),
        ("def fn(x, m): return x", "takes 'm', which the kernel has no input or size of"),
        ("def fn(x): return 1 / 0", "failed: ZeroDivisionError"),
        ("def other(x): return x", "has no function fn"),
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("def fn(x:", "cannot be imported: SyntaxError"),
    ],
)
def test_a_reference_that_is_wrong_is_told(code: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said) as wrong:
        expected(described(tmp_path, code))
    assert wrong.value.hint


def test_a_reference_that_is_missing_is_told(tmp_path: Path) -> None:
    family = described(tmp_path, "")
    (tmp_path / "reference.py").unlink()
    with pytest.raises(UsageError, match=r"reference\.py does not exist"):
        expected(family)


def test_the_example_s_reference_is_a_transpose() -> None:
    (spec,) = project_kernels.specs(project.read(EXAMPLE / "ncu-swizzle.toml"))
    family = user_kernels.of_file(EXAMPLE / "my.cu", Asked(problem={"n": 32}), (spec,))
    x = fills.inputs(family, {"n": 32}, np.random.default_rng(1))["x"]
    assert expected(family)["y"].tolist() == x.T.astype(float).tolist()


@pytest.mark.parametrize(
    ("out", "right", "error"),
    [([0, 0], [0, 0], 0), ([0, 1], [0, 0], np.inf), ([0, np.nan], [0, 0], np.inf), ([1, 1], [1, np.nan], np.inf)],
)
def test_rows_of_zeros_are_right_or_wrong_and_nan_is_never_right(
    out: list[float], right: list[float], error: float
) -> None:
    assert __main__.row_error(np.array([out, [1, 1]], float), np.array([right, [1, 1]], float)) == error


# ---------------------------------------------------------------------------------------------- the commands


def own_result(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@without_gpu
def test_before_and_after_are_profiled_in_one_run(work: Path, fake: Callable[[str], dict[str, str]]) -> None:  # noqa: F811
    own(work / "a dir")
    done = command(
        "profile", "a dir/my.cu", "--engine", "ncu", *TYPED, *VARIANTS, "--json", "-", folder=work, env=fake("own")
    )
    found = own_result(done)
    assert found["labels"] == ["transpose (before)", "transpose (after)"]
    assert "removes all" in str(found["verdict"])
    assert found["warnings"] == ["transpose (before), transpose (after): output not checked, there is no reference."]
    folder = work / "swizzle-out" / "transpose-after"
    assert {file.name for file in folder.iterdir()} == {
        *("run.json", "report.html", "transpose.family.json"),
        *(f"transpose-{way}.{end}" for way in ("before", "after") for end in ("json", "ncu-rep", "facts.json")),
    }
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "output not checked" in page
    again = command("compare", "swizzle-out/transpose-after", folder=work)
    assert again.returncode == 0, again.stderr
    assert "transpose (after) removes all" in " ".join(again.stdout.split())
    saved = json.loads((folder / "transpose-after.json").read_text(encoding="utf-8"))
    assert saved["sources"].keys() == {"my.cu"}
    assert family_json.read(folder / "transpose.family.json").folder == work / "a dir"


@without_gpu
def test_a_project_s_kernel_is_profiled_by_name_and_checked(
    work: Path,  # noqa: F811
    fake: Callable[[str], dict[str, str]],  # noqa: F811
) -> None:
    shutil.copytree(EXAMPLE, work / "own")
    (work / "own" / "tile-swizzled").mkdir()  # a folder of the kernel's name is in nobody's way
    done = command(
        *("profile", "tile-swizzled", "--engine", "ncu", "--json", "-"), folder=work / "own", env=fake("own")
    )
    found = own_result(done)
    assert found["labels"] == ["tile-rowmajor", "tile-swizzled"]
    assert found["warnings"] == []
    file = command("profile", "own/my.cu", "--engine", "ncu", folder=work, env=fake("own"))
    assert file.returncode == 0, file.stderr
    assert "tile-swizzled removes all" in " ".join(file.stdout.split())
    gate = command("check", "tile-rowmajor", "--engine", "ncu", folder=work / "own", env=fake("own"))
    assert gate.returncode == 1, gate.stderr
    listed = command("list", folder=work / "own").stdout
    assert "tile-swizzled" in listed
    assert "kernel2" in listed


def test_the_documentation_s_examples_are_right(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "your-kernels.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    (spec,) = project_kernels.specs(project.read(EXAMPLE / "ncu-swizzle.toml"))
    source = own(tmp_path, text)
    shutil.copy(EXAMPLE / "reference.py", tmp_path)
    known, names = user_kernels.chosen(str(source), Asked())
    assert names == ["tile-rowmajor", "tile-swizzled"]
    family = known.find("tile-swizzled")[0]
    example = user_kernels.of_file(EXAMPLE / "my.cu", Asked(), (spec,))
    for part in ("arguments", "parameters", "grid", "block", "bytes"):
        assert getattr(family, part) == getattr(example, part)
    for line in re.findall(r"^\| (`.*`) \|", page.split("## Arguments")[1].split("## In")[0], re.MULTILINE):
        for written in re.findall(r"`([^`]+)`", line):
            if written.endswith(".npy"):
                continue
            whole = f"x=float32[n]{written}" if written.startswith(":") and "%" not in written else written
            whole = f"x=int32[n]{written}" if written.startswith(":iota") else whole
            argument_syntax.parse([whole.replace("%K", "%4")], tmp_path, {"n": 8})


@without_gpu
def test_hostile_names_stay_text(work: Path, fake: Callable[[str], dict[str, str]]) -> None:  # noqa: F811
    name = "</script><img src=x onerror=alert(1)> [/bold]"
    own(work, KERNEL.replace("[kernel.tile]", f"[kernel.'{name}']").replace("my.cu", "my <b>.cu"))
    (work / "my.cu").rename(work / "my <b>.cu")
    done = command("profile", name, "--engine", "ncu", folder=work, env=fake("own"))
    assert done.returncode == 0, done.stderr
    assert name.split(" ", maxsplit=1)[0] in done.stdout
    (page,) = work.glob("swizzle-out/*/report.html")
    assert "<img src=x" not in page.read_text(encoding="utf-8")
    assert command("list", folder=work).returncode == 0


@without_gpu
def test_nothing_is_measured_here_and_nothing_is_left(work: Path) -> None:  # noqa: F811
    own(work)
    done = command("profile", "my.cu", *TYPED, "--engine", "recorded", folder=work)
    assert done.returncode == 3
    assert "was not recorded" in done.stderr
    assert [file.name for file in work.iterdir()] == ["my.cu"]
    for typed, code, said in (
        (("profile", "my.cu"), 2, "transpose has no grid"),
        (("profile", "my.cu", *TYPED, "--arg", "q=float32[z]:out"), 2, "argument q"),
        (("profile", "none.cu", *TYPED), 2, "none.cu does not exist"),
        (("profile", "kernel2", "--grid", "1"), 2, "--grid describes a .cu file"),
        (("compare", "my.cu"), 2, "my.cu is a source"),
        (("run", "my.cu", *TYPED), 3, "PyCUDA cannot be imported"),
        (("list", "--catalog", "."), 2, "is no catalogue"),
        (("profile", "kernel2", "--config", "none.toml"), 2, "none.toml does not exist"),
    ):
        failed = command(*typed, folder=work)
        assert (failed.returncode, said in failed.stderr) == (code, True), (typed, failed.stderr)
        assert "Traceback" not in failed.stderr


@without_gpu
def test_the_child_s_error_comes_through(work: Path, fake: Callable[[str], dict[str, str]]) -> None:  # noqa: F811
    own(work)
    done = command("profile", "my.cu", "--engine", "ncu", *TYPED, folder=work, env=fake("really"))
    assert done.returncode == 3
    assert "PyCUDA cannot be imported" in done.stderr or "no usable GPU" in done.stderr
    assert [file.name for file in work.iterdir()] == ["my.cu"]


@pytest.mark.parametrize("name", ["profile", "run"])
def test_the_help_names_every_option_of_a_file(name: str, tmp_path: Path) -> None:
    said = command(name, "--help", folder=tmp_path).stdout
    for option in ("--kernel", "--grid", "--block", "--arg", "--shared", "-D", "-I", "--std", "--nvcc-option",
                   "--before", "--after", "--config", "--catalog"):  # fmt: skip
        assert option in said
