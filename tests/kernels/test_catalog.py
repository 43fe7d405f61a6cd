"""The catalogue is read, checked, searched, and listed."""

import difflib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadCatalog, UnknownKernel
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.catalog import load, shipped
from ncu_swizzle.kernels.family import Target, read
from ncu_swizzle.kernels.family import write as write_family_json
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.render import listing
from tests.support.own_kernel import FAMILY
from tests.support.places import text
from tests.support.refusals import refused, unlike


def write(folder: Path, name: str, content: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "family.toml").write_text(content, encoding="utf-8")


def test_every_baseline_and_source_exists() -> None:
    found = shipped()
    for family, kernel in found:
        if kernel.baseline:
            assert found.named(kernel.baseline)[0] is family
        if not kernel.library:
            source = family.source(kernel).read_text(encoding="utf-8")
            assert f" {kernel.entry}(" in source, "the entry bears the variant's name"


def test_a_familys_files_are_numbered_in_the_order_of_its_variants() -> None:
    for family in shipped().families:
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


def test_names_are_given_once(tmp_path: Path) -> None:
    write(tmp_path / "kernels", "one", FAMILY)
    write(tmp_path / "kernels", "two", FAMILY.replace('name = "toy"', 'name = "other"'))
    write(tmp_path / "families", "one", FAMILY)
    write(tmp_path / "families", "two", FAMILY.replace("toy-plain", "toy-other"))
    refusals = {
        "kernels": "^BadCatalog: .*two kernels are called 'toy-plain'",
        "families": "^BadCatalog: .*two families are called 'toy'",
    }
    assert not unlike(refusals, lambda name: refused(load, tmp_path / name))


def test_a_family_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    wrong = (
        "",
        "not toml [",
        "[family]\nname = 1",
        FAMILY.replace("title", "tilte"),
        FAMILY.replace("n = {", "n = 3 #"),
    )
    for number, content in enumerate(wrong):
        write(tmp_path / str(number), "bad", content)
        with pytest.raises(BadCatalog, match=r"bad/family\.toml cannot be used"):
            load(tmp_path / str(number))


def test_expressions_are_nothing_else() -> None:
    wrong = ("a ** b", "__import__('os')", "a.b", "a / b", "1.5", "c", "a //", "a // 0", "'a'")
    assert not unlike(dict.fromkeys(wrong, "^BadCatalog: .*cannot evaluate"),
                      lambda expression: refused(evaluate, expression, {"a": 4, "b": 2}))  # fmt: skip


def test_the_page_of_the_documentation_has_a_row_for_each_kernel() -> None:
    page = listing.markdown(catalog.shipped())
    for family, kernel in catalog.shipped():
        assert f"## {family.name}: " in page
        assert page.count(f"\n| {kernel.name} | ") == 1, kernel.name
        assert family.never_run == (
            "never run on hardware" in page.partition(f"## {family.name}: ")[2].partition("## ")[0]
        )
    assert "| transpose-xor | Column XOR row. A permutation within each row" in page
    assert "| STS 1, LDS 1 | transpose-plain | Kernel 2: Swizzling |" in page


def test_every_variant_says_what_it_teaches_and_from_where() -> None:
    for family, kernel in catalog.shipped():
        assert kernel.title
        assert kernel.lesson.endswith(".")
        assert bool(kernel.article) != (kernel.library or family.never_run)
        assert bool(kernel.degree) != kernel.library or family.never_run


def test_the_data_names_limits_and_recordings() -> None:
    families = {family["family"]: family for family in listing.data(catalog.shipped())}
    assert families["gemm"]["limits"] == {"n": "a multiple of 256"}
    assert families["tma"]["compute_capability"] == "9.0"
    assert {kernel["recorded"] for kernel in families["attention"]["kernels"]} == {"h100"}
