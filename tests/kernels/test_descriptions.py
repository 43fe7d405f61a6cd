"""Kernels that project files, Python files and command lines describe; what a cubin says of a launch."""

import os
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, UnknownKernel, UsageError
from ncu_swizzle.commands import profile
from ncu_swizzle.commands.describe_kernel import ProjectEntry
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends.contract import overridden
from ncu_swizzle.kernels import catalog, limits, naming, project, toolchain
from ncu_swizzle.kernels.arguments import UNKNOWN
from ncu_swizzle.kernels.family import LITERAL, Family, Target, is_kernel_file, read, split_name, write
from ncu_swizzle.kernels.launch_sites import WrittenLaunch
from ncu_swizzle.kernels.options import CatalogOptions, LaunchOptions, PairOptions
from ncu_swizzle.kernels.project import KernelSpec, declared, specs
from ncu_swizzle.kernels.signature import KernelSignature, SignatureParameter, signature_of
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import EXAMPLE, FULL, KERNEL, description, own
from tests.support.places import DATA, table
from tests.support.refusals import refused, unlike


def test_a_project_s_kernels_list_beside_ours(tmp_path: Path) -> None:
    own(tmp_path, f"{KERNEL}\n[check]\nmax-degree = 2\n")
    deep = tmp_path / "deep"
    deep.mkdir()
    assert {"kernel2", "tile"} <= {kernel.name for _, kernel in naming.catalogue(start=deep)}
    alone = naming.catalogue(CatalogOptions("none"), deep)
    assert [kernel.name for _, kernel in alone] == [kernel.name for _, kernel in catalog.shipped()]
    with pytest.raises(UnknownKernel):
        alone.named("tile")


def test_pyproject_holds_the_same(tmp_path: Path) -> None:
    own(tmp_path)
    text = KERNEL.replace("[kernel", "[tool.ncu-swizzle.kernel")
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    family, kernel = naming.catalogue(start=tmp_path).named("tile")
    assert family.source(kernel) == tmp_path / "my.cu"
    (tmp_path / "pyproject.toml").write_text(text.replace('"my.cu"', '"none.cu"'), encoding="utf-8")
    assert "pyproject.toml [tool.ncu-swizzle.kernel.tile]: " in (said := refused(naming.catalogue, start=tmp_path))
    assert "none.cu does not exist" in said


MISTAKES = table("kernels/descriptions.toml")["mistakes"]


def test_mistakes_in_the_file_are_told(tmp_path: Path) -> None:
    def told(change: tuple[str, str]) -> str:
        text = KERNEL.replace(*change, 1)
        assert text != KERNEL
        own(tmp_path, text)
        return refused(naming.catalogue, start=tmp_path)

    expected = {tuple(change): rf"ncu-swizzle\.toml.*{re.escape(said)}(?s:.*)\n  try: ." for *change, said in MISTAKES}
    assert not unlike(expected, told)
    assert "two kernels are called 'kernel2'" in told(("[kernel.tile]", "[kernel.kernel2]"))


def test_a_file_s_own_kernel_goes_before_ours_of_its_name(tmp_path: Path) -> None:
    source = own(tmp_path)
    source.write_text("__global__ void kernel2() {}\n", encoding="utf-8")
    (target,) = naming.resolve([str(source)], description(grid="1", block="1"))[0].targets
    assert (target.name, target.family.folder) == ("kernel2", tmp_path)


def test_several_descriptions_of_one_file_need_a_name(tmp_path: Path) -> None:
    source = own(tmp_path, KERNEL + KERNEL.replace("tile", "other").replace("my.cu", "./my.cu"))
    with pytest.raises(UsageError, match=r"describes 2 kernels of my\.cu: tile, other"):
        naming.resolve([str(source)], description())
    (named,) = naming.resolve([str(source)], description(entry="other"))
    assert [target.name for target in named.targets] == ["other"]


def test_what_the_file_does_not_say_the_command_line_may(tmp_path: Path) -> None:
    source = own(tmp_path, KERNEL.replace('block = "32, 8"', ""))
    with pytest.raises(UsageError, match="tile has no block"):
        naming.catalogue(start=tmp_path)
    (target,) = naming.resolve([str(source)], description(block="32,8"))[0].targets
    assert target.launch.block == (32, 8, 1)


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


def test_a_file_becomes_a_family(tmp_path: Path) -> None:
    family = naming.family_of(own(tmp_path), FULL, ())
    (kernel,) = family.kernels
    assert (family.name, kernel.name, kernel.entry) == ("transpose",) * 3
    assert family.source(kernel) == tmp_path / "my.cu"
    assert family.problem() == {"n": 64}
    launch = Target(family, kernel, {"n": 64}).launch
    assert (launch.grid, launch.block) == ((2, 2, 1), (32, 8, 1))
    assert [argument.output for argument in family.arguments] == [False, True, False]
    assert not family.shipped
    assert not family.reference
    assert family.source_texts() == {"my.cu": (EXAMPLE / "my.cu").read_text(encoding="utf-8")}


def test_the_only_kernel_need_not_be_named_and_several_are_listed(tmp_path: Path) -> None:
    source, unnamed = own(tmp_path), description(FULL, entry="")
    (tmp_path / "body.cuh").write_text("__global__ void inside() {}\n", encoding="utf-8")
    for text, entry in (("", "transpose"), ('#include "body.cuh"\n', "inside")):
        source.write_text(text or source.read_text(encoding="utf-8"), encoding="utf-8")
        assert naming.family_of(source, unnamed, ()).kernels[0].entry == entry
    source.write_text("__global__ void one() {}\n__global__ void two() {}\n", encoding="utf-8")
    said = refused(naming.family_of, source, unnamed, ())
    assert "my.cu has 2 kernels: one, two" in said
    assert said.endswith(f"try: --kernel one, or ncu-swizzle init {source} for all of them")
    source.write_text("int x;\n", encoding="utf-8")
    assert "declares no __global__ function" in refused(naming.family_of, source, unnamed, ())


def test_what_is_missing_or_wrong_is_told(tmp_path: Path) -> None:
    source = own(tmp_path)
    changes: list[tuple[dict[str, object], str]] = [
        ({"grid": ""}, "transpose has no grid"),
        ({"block": ""}, "transpose has no block"),
        ({"problem": {}}, "grid: .*there is no size 'n'"),
        ({"block": "n,n"}, "outside 1 to|has .* threads"),
        ({"args": ("x=float32[n,m]:random",)}, "argument x: .*there is no size 'm'"),
        ({"shared": "0-1"}, "shared is 0-1"),
        ({"before": ("-DX=1",), "after": ("-DX=1",)}, "compiled identically"),
    ]
    for change, said in changes:
        asked = description(FULL, **{"problem": {"n": 2048}, **change})  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=said) as wrong:
            naming.family_of(source, asked, ())
        assert wrong.value.hint, change


def test_before_and_after_are_one_kernel_compiled_in_two_ways(tmp_path: Path) -> None:
    asked = description(FULL, options=("-DTILE=32",), before=("-DSWIZZLE=0",), after=("-DSWIZZLE=1",))
    family = naming.family_of(own(tmp_path), asked, ())
    before, after = family.kernels
    assert (before.name, after.name, after.baseline) == ("transpose (before)", "transpose (after)", before.name)
    assert toolchain.options(family, after) == (*toolchain.OPTIONS, "-DTILE=32", "-DSWIZZLE=1")
    cached = {toolchain.cache_key(family, kernel, "sm_90", "13.0") for kernel in family.kernels}
    assert len(cached) == 2
    assert all(" " not in name and "(" not in name for name in cached)


def test_the_command_line_says_it_instead_of_the_file() -> None:
    described = specs(project.project_in(EXAMPLE / "ncu-swizzle.toml"))
    as_it_is = naming.family_of(EXAMPLE / "my.cu", description(), described)
    assert [kernel.name for kernel in as_it_is.kernels] == ["tile-rowmajor", "tile-swizzled"]
    assert as_it_is.reference == f"{EXAMPLE}/reference.py:transpose"
    other = naming.family_of(EXAMPLE / "my.cu", description(block="32,4", problem={"n": 96}), described)
    assert other.launch.block == ("32", "4", "1")
    assert other.launch.grid == as_it_is.launch.grid
    assert other.problem() == {"n": 96}
    ways = naming.family_of(EXAMPLE / "my.cu", description(before=("-DSWIZZLE=0",)), described)
    assert [kernel.name for kernel in ways.kernels] == ["tile (before)", "tile (after)"]


def test_options_for_a_file_are_refused_for_a_kernel_of_the_catalogue() -> None:
    described = description(grid="1", args=("1",))
    said = refused(naming.resolve, ["kernel2"], described)
    assert said.startswith("UsageError: --grid, --arg describe a .cu file, and kernel2 is not one")
    assert "nowhere.cu does not exist" in refused(naming.resolve, ["nowhere.cu"], FULL)
    planned = (["kernel1", "my.cu"], {}, (), PairOptions(), CatalogOptions(), 1.0)
    assert "cannot be combined with other kernels" in refused(profile.sweep_plan, *planned)


def test_a_described_family_comes_back_equal(tmp_path: Path) -> None:
    described = specs(project.project_in(EXAMPLE / "ncu-swizzle.toml"))
    families = [naming.family_of(EXAMPLE / "my.cu", description(), described), *catalog.shipped().families]
    for number, family in enumerate(families):
        file = tmp_path / f"{number}.json"
        write(family, file)
        assert read(file) == family
    file.write_text('{"name": 1}', encoding="utf-8")
    with pytest.raises(BadFile, match="does not describe a family"):
        read(file)


ARGS = ("x=float32[n]", "y=float32[n]:out", "BM=32", "f=float32:1.5", "KIND=a:b", "n=n")


def test_a_function_is_named_after_its_file() -> None:
    names = {
        "my.py::fn": ("my.py", "fn"),
        "a/my.py::SOURCE::ns::fn<32>": ("a/my.py", "SOURCE::ns::fn<32>"),
        "my.cu": ("my.cu", ""),
        "my.py": ("my.py", ""),
        "my.py::": ("my.py::", ""),
        "ns::fn": ("ns::fn", ""),
    }
    for text, (file, name) in names.items():
        assert split_name(text) == (Path(file), name)
        assert is_kernel_file(text) is (bool(name) or text == "my.cu"), text


def described(folder: Path, args: tuple[str, ...] = ARGS, **more: object) -> Family:
    (folder / "my.py").write_text("raise SystemExit('it was imported')\n", encoding="utf-8")
    given = description(**{"entry": "fn", "grid": "n // BM", "args": args, "problem": {"n": 64}, **more})  # type: ignore[arg-type]
    return naming.family_of(folder / "my.py", given, ())


def test_arguments_are_buffers_numbers_and_literals_in_any_order(tmp_path: Path) -> None:
    family = described(tmp_path)
    kinds = {argument.name: (argument.dtype, argument.shape, argument.value) for argument in family.arguments}
    assert list(kinds) == ["x", "y", "BM", "f", "KIND", "n"]
    assert kinds["x"] == ("float32", ("n",), "")
    assert kinds["f"] == ("float32", (), "1.5")
    assert [kinds[name] for name in ("BM", "KIND", "n")] == [(LITERAL, (), text) for text in ("32", "a:b", "n")]
    assert [argument.output for argument in family.arguments][:2] == [False, True]
    assert family.launch.block == UNKNOWN


def test_a_variants_options_replace_arguments(tmp_path: Path) -> None:
    family = described(tmp_path, before=("BM=16",), after=("BM=64", "num_warps=8"))
    assert [kernel.options for kernel in family.kernels] == [("BM=16",), ("BM=64", "num_warps=8")]
    for kernel, value in zip(family.kernels, ("16", "64"), strict=True):
        arguments = {each.name: each.value for each in overridden(family, kernel.options)}
        assert arguments["BM"] == value


def test_a_wrong_argument_is_refused_before_anything_is_imported(tmp_path: Path) -> None:
    wrong = {
        ("float32[n]",): r"the argument 'float32\[n\]' has no name",
        ("BM=1", "BM=2"): "two arguments are called 'BM'",
        ("x=float32[n]", "x=3"): "two arguments are called 'x'",
        ("x=flot32[n]",): "unknown dtype 'flot32', did you mean 'float32'",
        ("x=float32[m]",): "there is no size 'm'",
    }
    assert not unlike(wrong, lambda args: refused(described, tmp_path, args))


def test_options_of_another_compiler_are_refused(tmp_path: Path) -> None:
    assert "-O3 is for nvcc" in refused(described, tmp_path, options=("-O3",))
    assert "fast is not NAME=VALUE" in refused(described, tmp_path, tuning=("fast",))
    (tmp_path / "my.cu").write_text("__global__ void fn() {}", encoding="utf-8")
    tuned = description(entry="fn", grid="1", block="1", tuning=("num_warps=4",))
    said = refused(naming.family_of, tmp_path / "my.cu", tuned, ())
    assert "--option num_warps=4 is for a function in Python" in said


def test_modules_beside_a_file_belong_to_its_sources(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    for name in ("my", "near", "pack/__init__", "pack/inner", "other", "pack/peer"):
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    (tmp_path / "my.py").write_text("import os, near\nfrom pack.inner import f\n", encoding="utf-8")
    (tmp_path / "pack" / "inner.py").write_text("from . import peer\n", encoding="utf-8")
    found = {path.relative_to(tmp_path).as_posix() for path, _ in limits.texts([tmp_path / "my.py"], [])}
    assert found == {"my.py", "near.py", "pack/inner.py", "pack/__init__.py", "pack/peer.py"}
    (tmp_path / "my.py").write_text("this is no Python", encoding="utf-8")
    assert [path.name for path, _ in limits.texts([tmp_path / "my.py"], [])] == ["my.py"]


SOURCE = (DATA / "kernels" / "plane_and_ranked.cu").read_text(encoding="utf-8")
KINDS = {"with": ["-lineinfo"], "without": []}  # line tables, and so PTX


@cache
def cubin(kind: str) -> Cubin:
    return Cubin(Toolchain().compile(SOURCE, KINDS[kind], "sm_90", []), f"{kind}.cubin")


def signature(kind: str, name: str, source: str = SOURCE) -> KernelSignature:
    compiled = cubin(kind)
    symbol = names.find(compiled, name)
    return signature_of(compiled, symbol, source, lambda: Toolchain().disassemble(compiled.data, compiled.name))


@NEEDS_ALL
def test_a_kernel_says_what_it_takes() -> None:
    for kind in KINDS:
        plane = signature(kind, "plane")
        assert [(p.name, p.size) for p in plane.parameters] == [
            ("in", 8), ("out", 8), ("c", 16), ("stride", 8), ("scale", 8), ("corner", 12)]  # fmt: skip
        assert (plane.block_axes, plane.grid_axes, plane.dynamic_shared, plane.max_threads) == (2, 2, True, 512)
        ranked = signature(kind, "ranked", SOURCE[SOURCE.index("__global__ void ranked") :])
        assert (ranked.block_axes, ranked.grid_axes, ranked.dynamic_shared) == (1, 1, False)
        assert signature(kind, "ranked", "").block_axes == 3, "groups ask for every axis"


@NEEDS_ALL
def test_without_its_source_the_ptx_tells_pointers_from_numbers() -> None:
    kinds = [(p.pointee, p.kind) for p in signature("with", "plane", "").parameters]
    assert kinds == [("", "pointer"), ("", "pointer"), (None, "struct"), ("", ""), (None, "f"), (None, "struct")]


@NEEDS_ALL
@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_says_what_is_known_and_what_is_to_be_done(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source.cu").write_text(SOURCE)
    spec = KernelSpec(name="plane", source=tmp_path / "source.cu")
    launches = (WrittenLaunch(file="a/run.cu", line=7, grid=None, block=(32, 8, 1), shared=512),)
    written = ProjectEntry(
        name="plane", source="source.cu", spec=spec, signature=signature(kind, "plane"), launches=launches
    )
    entry = tomllib.loads(written.text())["kernel"]["plane"]
    assert (entry["grid"], entry["block"], entry["shared"]) == ("TODO", "32,8", "512")
    assert "# run.cu:7" in written.text()
    assert not written.complete
    assert [text.partition("=")[0] for text in entry["args"]] == ["in", "out", "c", "stride", "scale", "corner"]
    launch = LaunchOptions(grid=entry["grid"], block=entry["block"], args=tuple(entry["args"]))
    assert "TODO in grid, args" in refused(
        naming.family_of_spec, KernelSpec(name="k", source=spec.source, launch=launch)
    )


def test_hostile_names_stay_in_their_strings() -> None:
    hostile = 'x"]\n[check]\nmax-degree = 9\n#'
    parameters = (SignatureParameter(8, "p", f"{hostile}*"), SignatureParameter(24))
    kernel = KernelSignature(symbol="k", function=f"k<{hostile}>", parameters=parameters)
    spec = KernelSpec(name="k", source=Path("k.cu"))
    content = tomllib.loads(ProjectEntry(name=hostile, source=hostile, spec=spec, signature=kernel).text())
    assert content.keys() == {"kernel"}
    assert content["kernel"][hostile]["source"] == hostile
    assert content["kernel"][hostile]["args"] == ["p=uint8[TODO]:TODO", "a2=bytes:TODO"]


def test_includes_that_never_end_are_followed_to_an_end(tmp_path: Path) -> None:
    for link in "xy":  # 2 ** 40 names of one file
        (tmp_path / link).symlink_to(".")
    (tmp_path / "a.cuh").write_text('#include "x/a.cuh"\n#include "y/a.cuh"\n#include "k.cu"\n')
    (tmp_path / "k.cu").write_text('#include "a.cuh"\n' + '#include "k.cu"\n' * 1000)
    found = [path for path, _ in limits.texts([tmp_path / "k.cu"], [])]
    assert found[:2] == [tmp_path / "k.cu", tmp_path / "a.cuh"]
    assert len(found) <= 2 * limits.MOST_NAMES
    (tmp_path / "large.cuh").touch()
    os.truncate(tmp_path / "large.cuh", 1 << 30)  # sparse
    (tmp_path / "b.cu").write_text('#include "large.cuh"\n')
    with pytest.raises(BadFile, match="larger than 64 MiB"):
        list(limits.texts([tmp_path / "b.cu"], []))


def test_a_size_that_a_project_lacks_is_defined_as_the_hint_says(tmp_path: Path) -> None:
    (tmp_path / "my.cu").write_text("__global__ void fn(float* x, int n) {}", encoding="utf-8")
    file = tmp_path / "ncu-swizzle.toml"
    entry = '[kernel.fn]\nsource = "my.cu"\ngrid = 1\nblock = 32\nargs = ["x=float32[n]:out", "n=int32:256"]\n'
    file.write_text(entry, encoding="utf-8")
    with pytest.raises(UsageError, match="there is no size 'n'") as lacking:
        naming.with_project(project.project_in(file))
    file.write_text(entry + lacking.value.hint.partition(": ")[2], encoding="utf-8")
    family = next(each for each in naming.with_project(project.project_in(file)).families if each.name == "fn")
    assert [(each.name, each.default) for each in family.parameters] == [("n", 256)]
