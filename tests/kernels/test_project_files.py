"""Kernels and families that project files describe, and launches that a Python file declares."""

import re
import shutil
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadCatalog, BadFile, UnknownKernel, UsageError
from ncu_swizzle.kernels import arguments, catalog, naming, project, toolchain
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.project import declared, specs
from tests.support.own_kernel import EXAMPLE, FAMILY, KERNEL, description, own
from tests.support.places import DATA, ROOT, table
from tests.support.refusals import refused, unlike


def test_a_project_s_kernels_and_families_list_beside_ours(tmp_path: Path) -> None:
    own(tmp_path, f'catalog = ["families"]\n{KERNEL}\n[check]\nmax-degree = 2\n')
    (tmp_path / "families" / "toy").mkdir(parents=True)
    (tmp_path / "families" / "toy" / "family.toml").write_text(FAMILY, encoding="utf-8")
    deep = tmp_path / "deep"
    deep.mkdir()
    names = [kernel.name for _, kernel in naming.everything(start=deep)]
    assert {"kernel2", "toy-plain", "tile"} <= set(names)
    assert names == [
        kernel.name for _, kernel in naming.everything(CatalogOptions(catalog=(tmp_path / "families",)), deep)
    ]
    alone = naming.everything(CatalogOptions("none"), deep)
    assert [kernel.name for _, kernel in alone] == [kernel.name for _, kernel in catalog.shipped()]
    with pytest.raises(UnknownKernel):
        alone.named("tile")


def test_pyproject_holds_the_same(tmp_path: Path) -> None:
    own(tmp_path)
    text = KERNEL.replace("[kernel", "[tool.ncu-swizzle.kernel")
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    family, kernel = naming.everything(start=tmp_path).named("tile")
    assert family.source(kernel) == tmp_path / "my.cu"
    (tmp_path / "pyproject.toml").write_text(text.replace('"my.cu"', '"none.cu"'), encoding="utf-8")
    with pytest.raises(
        BadFile, match=r"pyproject\.toml \[tool\.ncu-swizzle\.kernel\.tile\]: .*none\.cu does not exist"
    ):
        naming.everything(start=tmp_path)


MISTAKES = table("kernels/descriptions.toml")["mistakes"]


def test_mistakes_in_the_file_are_told(tmp_path: Path) -> None:
    def told(change: tuple[str, str]) -> str:
        text = KERNEL.replace(*change, 1)
        assert text != KERNEL
        own(tmp_path, text)
        return refused(naming.everything, start=tmp_path)

    expected = {tuple(change): rf"ncu-swizzle\.toml.*{re.escape(said)}(?s:.*)\n  try: ." for *change, said in MISTAKES}
    assert not unlike(expected, told)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    taken = {"kernel2": "two kernels are called 'kernel2'", "gemm": "two families are called 'gemm'"}
    for name, said in taken.items():
        own(tmp_path, KERNEL.replace("[kernel.tile]", f"[kernel.{name}]"))
        with pytest.raises(BadCatalog, match=said):
            naming.everything(start=tmp_path)


def test_a_file_s_own_kernel_goes_before_ours_of_its_name(tmp_path: Path) -> None:
    source = own(tmp_path)
    source.write_text("__global__ void kernel2() {}\n", encoding="utf-8")
    known, (names,) = naming.catalog_with([str(source)], description(grid="1", block="1"))
    assert names == ["kernel2"]
    assert known.named("kernel2")[0].folder == tmp_path


def test_several_descriptions_of_one_file_need_a_name(tmp_path: Path) -> None:
    source = own(tmp_path, KERNEL + KERNEL.replace("tile", "other").replace("my.cu", "./my.cu"))
    with pytest.raises(UsageError, match=r"describes 2 kernels of my\.cu: tile, other"):
        naming.catalog_with([str(source)], description())
    assert naming.catalog_with([str(source)], description(entry="other"))[1] == [["other"]]


def test_what_the_file_does_not_say_the_command_line_may(tmp_path: Path) -> None:
    source = own(tmp_path, KERNEL.replace('block = "32, 8"', ""))
    with pytest.raises(UsageError, match="tile has no block"):
        naming.everything(start=tmp_path)
    known, (names,) = naming.catalog_with([str(source)], description(block="32,8"))
    assert known.named(names[0])[0].launch.block == ("32", "8", "1")


def test_a_folder_without_families_is_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(BadCatalog, match="is not a catalogue") as wrong:
        naming.everything(CatalogOptions("none", (tmp_path,)))
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
    family, kernel = naming.everything(CatalogOptions("none", (tmp_path / "mine",))).named("toy-plain")
    assert family.source(kernel) == folder / "all.cu"
    assert kernel.entry == "ns::fn<1>"
    assert family.arguments[1].fill == str(folder / "t.npy")
    assert toolchain.options(family, kernel) == (*toolchain.OPTIONS, "-DX", "-DY")
    assert toolchain.include_folders(family)[-1] == paths.kernels() / "common"
    assert {"mine/toy/all.cu", "kernels/common/ptx.cuh"} <= family.source_texts().keys()
    assert [*toolchain.source_roots(family)] == [tmp_path, paths.data_root()]


def test_the_documentation_s_examples_are_right(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "describing-kernels.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    (spec,) = specs(project.project_in(EXAMPLE / "ncu-swizzle.toml"))
    source = own(tmp_path, text)
    shutil.copy(EXAMPLE / "reference.py", tmp_path)
    (tmp_path / "params.bin").write_bytes(bytes(24))
    known, (names,) = naming.catalog_with([str(source)], description())
    assert names == ["tile-rowmajor", "tile-swizzled"]
    family = known.named("tile-swizzled")[0]
    example = naming.family_of(EXAMPLE / "my.cu", description(), (spec,))
    for part in ("arguments", "parameters", "launch", "bytes"):
        assert getattr(family, part) == getattr(example, part)
    for line in re.findall(r"^\| (`.*`) \|", page.split("## Arguments")[1].split("## In")[0], re.MULTILINE):
        for written in re.findall(r"`([^`]+)`", line):
            if written.endswith(".npy"):
                continue
            whole = f"x=float32[n]{written}" if written.startswith(":") and "%" not in written else written
            whole = f"x=int32[n]{written}" if written.startswith(":iota") else whole
            arguments.parse_arguments([whole.replace("%K", "%4")], tmp_path, {"n": 8})


DECLARED = (DATA / "python" / "texts" / "triton" / "declared.py").read_text(encoding="utf-8")


def specs_of(folder: Path, text: str) -> tuple[object, ...]:
    file = folder / "kernels.py"
    file.write_text(text, encoding="utf-8")
    return declared(file)


def test_a_dictionary_describes_launches_as_a_project_file_does(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(f"raise SystemExit('executed')\n{DECLARED}", encoding="utf-8")
    turn, small = declared(file)
    assert (turn.name, turn.launch.entry, turn.source, turn.launch.grid) == ("turn", "turn", file, "n // BM, n // BN")
    assert [variant.name for variant in turn.variants] == ["turn-wide", "turn-narrow"]
    assert turn.variants[0].options == ("num_warps=8",)
    assert (small.launch.entry, small.launch.grid, small.launch.args[0]) == ("turn", "1,1", "x=float32[32,32]")


def test_a_file_without_one_declares_nothing(tmp_path: Path) -> None:
    for text in ("x = 1", "# NCU_SWIZZLE", "NCU_SWIZZLE: dict", "def f():\n    NCU_SWIZZLE = 3", "NCU_SWIZZLE = (", ""):
        assert specs_of(tmp_path, text) == ()
    assert declared(tmp_path / "none.py") == ()


def test_what_is_not_a_description_is_refused(tmp_path: Path) -> None:
    wrong = {
        "n = 4\nNCU_SWIZZLE = {'f': {'grid': n}}": "kernels.py:2: NCU_SWIZZLE is not a literal",
        "NCU_SWIZZLE = ['f']": "NCU_SWIZZLE is not a table",
        "NCU_SWIZZLE = {'f': 3}": r"\[NCU_SWIZZLE f\] is not a table",
        "NCU_SWIZZLE = {'f': {'gird': 3}}": "unknown key 'gird', did you mean 'grid'",
    }
    assert not unlike(wrong, lambda text: refused(specs_of, tmp_path, text))
