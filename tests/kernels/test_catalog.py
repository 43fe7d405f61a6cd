"""The catalogue is read, checked, searched, listed, compiled without spills, and predicted."""

import contextlib
import difflib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import tensor_cores
from ncu_swizzle.base.errors import EnvironmentLacking, UnknownKernel, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import catalog, device, toolchain
from ncu_swizzle.kernels.catalog import load, shipped
from ncu_swizzle.kernels.family import Family, Kernel, Target, include_folder, read
from ncu_swizzle.kernels.family import write as write_family_json
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.toolchain import NVCC, OPTIONS, Toolchain, cubin
from ncu_swizzle.render import listing
from tests.support import worked_example
from tests.support.marks import NEEDS_NVCC
from tests.support.own_kernel import FAMILY
from tests.support.places import text
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


# ---------------------------------------------------------------------------------------------- compiled and computed


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


@pytest.mark.parametrize("name", tensor_cores.KERNELS)
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
                device.refuse_other_architecture(gpu, family, kernel)
