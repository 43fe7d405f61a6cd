"""The catalogue is read, checked, searched, compiled without spills, predicted, and held against its references."""

import contextlib
import difflib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.oracles import tensor_cores
from ncu_swizzle.base.errors import EnvironmentLacking, UnknownKernel, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import catalog, check, fills, launching, naming, project, references, toolchain
from ncu_swizzle.kernels.catalog import load, shipped
from ncu_swizzle.kernels.family import Family, Kernel, Target, include_folder, read
from ncu_swizzle.kernels.family import write as write_family_json
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.project import specs
from ncu_swizzle.kernels.toolchain import NVCC, OPTIONS, Toolchain, cubin
from ncu_swizzle.render import listing
from tests.support import worked_example
from tests.support.marks import NEEDS_NVCC
from tests.support.own_kernel import FAMILY, KERNEL, description, own
from tests.support.places import table, text
from tests.support.refusals import refused, unlike


def write(folder: Path, name: str, content: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "family.toml").write_text(content, encoding="utf-8")


def test_every_variant_has_its_file_its_baseline_and_its_lesson() -> None:
    found = shipped()
    for family, kernel in found:
        assert not kernel.baseline or found.named(kernel.baseline)[0] is family
        assert kernel.title
        assert kernel.lesson.endswith(".")
        assert bool(kernel.article) != (kernel.library or family.never_run)
        assert bool(kernel.degree) != kernel.library or family.never_run
        if not kernel.library:
            source = family.source(kernel).read_text(encoding="utf-8")
            assert f" {kernel.entry}(" in source, "the entry bears the variant's name"
    for family in found.families:
        files = [family.source(kernel) for kernel in family.kernels if not kernel.library]
        assert [file.name.split("_")[0] for file in files] == [str(number) for number in range(1, len(files) + 1)]
        assert sorted(files) == sorted(family.folder.glob("*.cu")), "every file is one variant's"
        assert all("-" not in file.name for file in files), family.name


def test_before_and_after_differ_in_one_line() -> None:
    for family, kernel in shipped():
        baseline = shipped().named(kernel.baseline)[1] if kernel.baseline else kernel
        if kernel is baseline or kernel.arch != baseline.arch:
            continue  # or a kernel of its own, written with that architecture's instructions
        before = family.source(baseline).read_text(encoding="utf-8").replace(baseline.entry, kernel.entry)
        after = family.source(kernel).read_text(encoding="utf-8")
        changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
        assert [line[0] for line in changed] == ["-", "+"], kernel.name
        assert all(re.search(r"layout|Design|Schedule", line) for line in changed), kernel.name


def test_an_unknown_kernel_is_met_with_the_nearest_name() -> None:
    with pytest.raises(UnknownKernel, match="did you mean 'kernel2'"):
        shipped().named("kernl2")
    with pytest.raises(UnknownKernel) as far:
        shipped().named("zzzzzz")
    assert "did you mean" not in str(far.value)
    assert far.value.hint == "ncu-swizzle list shows all kernels"


def test_sizes_outside_the_limits_are_refused() -> None:
    family, _ = shipped().named("kernel2")
    refusals = {
        ("seq", 100): "^BadProblem: seq=100 is not supported: it must be a multiple of 64 and at least 64",
        ("seq", 0): "^BadProblem: seq=0",
        ("batch", 0): "^BadProblem: batch=0 is not supported: it must be a multiple of 1 and at least 1",
        ("depth", 3): "^BadProblem: .*no parameter 'depth'",
    }
    assert not unlike(refusals, lambda size: refused(family.problem, dict([size])))


def test_a_variant_can_have_a_launch_an_architecture_and_tensor_maps_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "toy", FAMILY + text("kernels/mapped_variant.toml"))
    family, kernel = load(tmp_path).named("toy-mapped")
    launch = Target(family, kernel, {"n": 12}).launch
    assert (launch.grid, launch.block) == ((132, 1, 12), (384, 1, 1))
    assert (kernel.arch, family.architecture(kernel, "sm_90")) == ("sm_90a", "sm_90a")
    assert replace(family, arch="sm_100a").architecture(kernel, "sm_90") == "sm_100a", "what was asked for"
    (x,) = (kernel.boxed(argument) for argument in family.arguments)
    assert (x.tensor_map, x.box, x.swizzle) == (True, (8, 64), 128)
    _, plain = load(tmp_path).named("toy-plain")
    assert family.architecture(plain, "sm_90") == "sm_90"
    assert not plain.boxed(family.arguments[0]).tensor_map
    write_family_json(family, tmp_path / "family.json")
    assert read(tmp_path / "family.json") == family


def test_a_familys_architecture_is_its_variants(tmp_path: Path) -> None:
    write(tmp_path, "toy", FAMILY.replace("[problem]", 'arch = "sm_90a"\n[problem]', 1))
    family, kernel = load(tmp_path).named("toy-plain")
    assert (family.arch, kernel.arch) == ("", "sm_90a"), "family.arch is what a user asks for"


def test_families_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    unusable = r"bad/family\.toml cannot be used"
    families = {
        (FAMILY, FAMILY.replace('name = "toy"', 'name = "other"')): "two kernels are called 'toy-plain'",
        (FAMILY, FAMILY.replace("toy-plain", "toy-other")): "two families are called 'toy'",
        ("",): unusable,
        ("not toml [",): unusable,
        ("[family]\nname = 1",): unusable,
        (FAMILY.replace("title", "tilte"),): unusable,
        (FAMILY.replace("n = {", "n = 3 #"),): unusable,
    }

    def told(contents: tuple[str, ...]) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, content in zip(("bad", "other"), contents, strict=False):
            write(folder, name, content)
        return refused(load, folder)

    assert not unlike({row: f"^BadCatalog: .*{said}" for row, said in families.items()}, told)


def test_expressions_are_nothing_else() -> None:
    wrong = ("a ** b", "__import__('os')", "a.b", "a / b", "1.5", "c", "a //", "a // 0", "'a'")
    assert not unlike(dict.fromkeys(wrong, "^BadCatalog: .*cannot evaluate"),
                      lambda expression: refused(evaluate, expression, {"a": 4, "b": 2}))  # fmt: skip


def test_the_page_and_the_data_have_each_kernel() -> None:
    page = listing.markdown(catalog.shipped())
    for family, kernel in catalog.shipped():
        assert page.count(f"\n| {kernel.name} | ") == 1, kernel.name
        section = page.partition(f"## {family.name}: ")[2].partition("## ")[0]
        assert family.never_run == ("never run on hardware" in section)
    assert "| transpose-xor | Column XOR row. A permutation within each row" in page
    assert "| STS 1, LDS 1 | transpose-plain | Kernel 2: Swizzling |" in page
    families = {family["family"]: family for family in listing.data(catalog.shipped())}
    assert families["gemm"]["limits"] == {"n": "a multiple of 256"}
    assert families["tma"]["compute_capability"] == "9.0"
    assert {kernel["recorded"] for kernel in families["attention"]["kernels"]} == {"h100"}


def own_kernels() -> Iterator[tuple[Family, Kernel]]:
    return ((family, kernel) for family, kernel in shipped() if not kernel.library)


# What ptxas says of wgmma it says for no other kernels; the rest is for `make test-all`, and the GPU tests compile all.
KERNELS = [
    pytest.param(family, kernel, marks=[pytest.mark.slow] * (not kernel.arch), id=kernel.name)
    for family, kernel in own_kernels()
]


def compile_(family: Family, kernel: Kernel, arch: str, folder: Path) -> str:
    """Compile a kernel as the launching program does, and return what the compiler says of it."""
    folders = [include_folder(family.folder), *map(toolchain.locate, family.headers)]
    include = [f"-I{folder}" for folder in folders]
    nvcc = str(Toolchain().find(NVCC))
    done = subprocess.run(
        [nvcc, "-cubin", f"-arch={arch}", *OPTIONS, *include, "-Xptxas", "-v", "-Werror", "all-warnings",
         "-o", str(folder / "out.cubin"), str(family.source(kernel))],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.long
@NEEDS_NVCC
@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
@pytest.mark.parametrize(("family", "kernel"), KERNELS)
def test_it_compiles_without_spills(family: Family, kernel: Kernel, arch: str, tmp_path: Path) -> None:
    least = kernel.arch or "sm_{}{}".format(*family.compute_capability)
    if arch < least.rstrip("a"):
        pytest.skip(f"{kernel.name} needs {least}")
    try:
        [toolchain.locate(name) for name in family.headers]
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    said = compile_(family, kernel, family.architecture(kernel, arch), tmp_path)
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said)
    assert "C75" not in said, "wgmma is serialized, or setmaxnreg ignored"


def different_degrees(family: Family, kernel: Kernel) -> dict[str, tuple[float | None, float | None]]:
    """Return the degrees by access kind, stated and predicted, where they differ."""
    predicted = predict.by_kind(predict.target_predictions(Target(family, kernel, family.problem())))
    degrees, stated = {one.access: one.degree for one in predicted}, kernel.degree
    kinds = degrees.keys() | stated.keys()
    return {kind: (stated.get(kind), degrees.get(kind)) for kind in kinds if stated.get(kind) != degrees.get(kind)}


def test_stated_degrees_are_what_arithmetic_predicts() -> None:
    ran = [(family, kernel) for family, kernel in own_kernels() if not family.never_run]
    different = {kernel.name: different_degrees(family, kernel) for family, kernel in ran}
    assert {name: degrees for name, degrees in different.items() if degrees} == {}


@pytest.mark.long
def test_the_worked_example_of_contributing_works(tmp_path: Path) -> None:
    family, kernel = worked_example.follow(tmp_path)
    assert kernel.baseline == "kernel1"
    assert different_degrees(family, kernel) == {}
    with contextlib.suppress(EnvironmentLacking):
        assert cubin(family, kernel, "sm_90", Toolchain())


# By an architecture: the GPUs that run its code, and some that do not.
RUNS_ON = {
    "sm_90": ("9.0", "10.0 8.9"),
    "sm_80": ("8.0 8.6 8.9", "9.0 7.5"),
    "sm_90a": ("9.0", "10.0"),
    "sm_100a": ("10.0", "10.3 9.0"),
    "sm_100f": ("10.0 10.3", "12.0 9.0"),
    "sm_103f": ("10.3", "10.0"),
    "sm_120f": ("12.0 12.1", "10.0"),
    "": ("7.5 9.0 12.1", ""),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * n.startswith("mxf8")) for n in tensor_cores.KERNELS]
)
def test_kernels_that_never_ran_compute_their_products(name: str) -> None:
    error, tolerance = tensor_cores.error_and_tolerance(name)
    assert error < tolerance


@pytest.mark.parametrize("arch", RUNS_ON)
def test_code_runs_on_its_own_family_of_gpus(arch: str) -> None:
    shipped_family, kernel = next(pair for pair in own_kernels() if not pair[1].arch)
    family = replace(shipped_family, arch=arch)
    for outcome, capabilities in zip((True, False), RUNS_ON[arch], strict=True):
        for capability in capabilities.split():
            pair = tuple(map(int, capability.split(".")))
            gpu = SimpleNamespace(compute_capability=lambda pair=pair: pair, name=lambda: "a GPU")
            with contextlib.nullcontext() if outcome else pytest.raises(UsageError, match="does not run code for"):
                launching.refuse_other_architecture(gpu, family, kernel)


def naive(q: Any, k: Any, v: Any) -> Any:
    out = np.zeros_like(q)
    for row in range(len(q)):
        weights = np.array([np.exp(np.dot(q[row], key) / np.sqrt(q.shape[1])) for key in k])
        out[row] = sum(weight * value for weight, value in zip(weights, v, strict=True)) / weights.sum()
    return out


def test_large_scores_do_not_overflow() -> None:
    q = np.full((2, 4), 1e3)
    assert np.isfinite(references.attend(q, q, q, np.arange(2))).all()


def inputs(problem: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shape = (problem["batch"], problem["heads"], problem["seq"], 8)
    return {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name in "qkv"}


def test_a_small_problem_is_checked_whole() -> None:
    problem = {"batch": 2, "heads": 3, "seq": 64}
    given_ = inputs(problem)
    index, values = references.attention(given_, problem, np.random.default_rng(2))["o"]
    whole = np.full((2, 3, 64, 8), np.nan)
    whole[index] = values
    assert np.isfinite(whole).all()
    wide = {name: array.astype(np.float64) for name, array in given_.items()}
    np.testing.assert_allclose(whole[1, 2], naive(wide["q"][1, 2], wide["k"][1, 2], wide["v"][1, 2]), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_problem_is_checked_in_every_block(seed: int) -> None:
    problem = {"batch": 2, "heads": 20, "seq": 1024}
    (batch, head, rows), values = references.attention(inputs(problem), problem, np.random.default_rng(seed))["o"]
    assert values.shape == (40, 16, 8)
    assert (rows // references.ATTENTION_TILE == np.arange(16)).all()
    assert len({(int(b), int(h)) for b, h in zip(batch[:, 0], head[:, 0], strict=True)}) == 40


@pytest.mark.long
@pytest.mark.parametrize("n", [256, 1024])
def test_the_product_is_checked_in_every_block(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    rows, values = references.gemm({"a": a, "b": b}, {"n": n}, rng)["c"]
    assert len(rows) == references.GEMM_ROWS_CHECKED
    assert set(rows // 16) == set(range(n // 16)), "every fragment of 16 rows has one"
    np.testing.assert_allclose(values, (a.astype(np.float64) @ b.astype(np.float64).T)[rows], rtol=1e-12)


def described(folder: Path, code: str, reference: str = "reference.py:fn") -> Family:
    """Return a family with the reference `code`."""
    own(folder, KERNEL.replace("block", f'reference = "{reference}"\nblock'))
    (folder / "reference.py").write_text(code, encoding="utf-8")
    (spec,) = specs(project.project_in(folder / "ncu-swizzle.toml"))
    return naming.family_of(folder / "my.cu", description(), (spec,))


def expected(family: Family) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    problem = family.problem()
    found = references.expected_outputs(family, problem, fills.inputs(family, problem, rng), rng)
    return {name: values for name, (_, values) in found.items()}


def test_a_reference_is_called_with_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def turn(x): return x.T", encoding="utf-8")
    for code in (
        "def fn(x): return x.T",
        "def fn(n, x): return {'y': x.reshape(n, n).T}",
        "def fn(inputs, problem, rng): return {'y': (..., inputs['x'].T)}",
        "import helper\ndef fn(x, unused=3): return helper.turn(x)",
    ):
        family = described(tmp_path, code)
        x = fills.inputs(family, family.problem(), np.random.default_rng(1))["x"]
        assert expected(family)["y"].tolist() == x.T.astype(float).tolist(), code


def test_a_module_s_expected_is_called_as_the_catalogue_s_are(tmp_path: Path) -> None:
    family = described(tmp_path, "def expected(i, p, r): return {'y': ((0,), i['x'][:, 0])}", "reference.py")
    assert expected(family)["y"].shape == (64,)
    shipped = "ncu_swizzle.kernels.references:transposed"
    said = refused(expected, replace(family, reference=shipped))
    assert said.startswith(f"UsageError: the reference {shipped} failed: KeyError: 'in'")


WRONG = table("kernels/descriptions.toml")["references"]


def test_a_reference_that_is_wrong_or_missing_is_told(tmp_path: Path) -> None:
    told = {code: rf"^UsageError: .*{said}(?s:.*)\n  try: ." for code, said in WRONG.items()}
    assert not unlike(told, lambda code: refused(lambda: expected(described(tmp_path, code))))
    family = described(tmp_path, "")
    (tmp_path / "reference.py").unlink()
    assert "reference.py does not exist" in refused(expected, family)


def test_rows_of_zeros_are_right_or_wrong_and_nan_is_never_right() -> None:
    for out, right, error in (
        ([0, 0], [0, 0], 0), ([0, 1], [0, 0], np.inf), ([0, np.nan], [0, 0], np.inf), ([1, 1], [1, np.nan], np.inf),
    ):  # fmt: skip
        assert references.row_error(np.array([out, [1, 1]], float), np.array([right, [1, 1]], float)) == error, out


@given(st.floats(1e-6, 0.5), st.integers(0, 2**32 - 1))
def test_one_wrong_row_counts_in_full(error: float, seed: int) -> None:
    reference = np.random.default_rng(seed).standard_normal((50, 16))
    out = reference.copy()
    out[7] *= 1 + error
    assert references.row_error(out, reference) == pytest.approx(error, rel=1e-6)


def test_a_tensor_map_that_cannot_be_is_refused_without_a_driver() -> None:
    square, no_map, rejected = (64, 64), "there is no tensor map for", "the driver rejects a tensor map of"
    impossible = {
        ("float64", square, square, 0): no_map,
        ("float16", square, (64,), 0): no_map,
        ("float16", square, square, 16): no_map,
        ("float16", square, square, 64): rejected,
        ("float16", (64, 60), (8, 8), 0): rejected,
        ("float16", square, (8, 4), 0): rejected,
        ("float16", (512, 64), (512, 8), 0): rejected,
    }
    assert not unlike(impossible, lambda row: refused(check.tiled, 0, *row))


def test_a_map_of_several_matrices_has_three_dimensions() -> None:
    tile = check.tiled(0, "bfloat16", (2, 3, 192, 128), (64, 64), 128)
    assert (tile.sizes, tile.strides, tile.box) == ((128, 192, 6), (256, 192 * 256), (64, 64, 1))
    one = check.tiled(0, "bfloat16", (192, 128), (64, 64), 128)
    assert (one.sizes, one.strides, one.box) == ((128, 192), (256,), (64, 64))
