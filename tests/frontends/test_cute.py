"""Functions of CuTe DSL's, compiled here without a GPU."""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle.frontends.compiled import Built, built
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.reports import run_folder
from tests.support import inlined_texts
from tests.support.process import run
from tests.support.python_kernels import NEEDS_CUTE_DSL, OURS
from tests.support.python_recordings import EXAMPLES

pytestmark = NEEDS_CUTE_DSL

SQUARE = ("--arg", "x=float32[256,256]", "--arg", "y=float32[256,256]:out")
PRODUCT = ("--problem", "m=256,n=256,k=128", "--arg", "a=float16[m,k]", "--arg", "b=float16[n,k]",
           "--arg", "c=float16[m,n]:out")  # fmt: skip


def described(name: str) -> Built:
    """Return a kernel of the examples' project file, compiled."""
    catalog = naming.everything(CatalogOptions(str(EXAMPLES / "ncu-swizzle.toml"), trust=True))
    family, kernel = next(each for each in catalog if each[1].name == name)
    return built(Target(family, kernel, family.problem()), "sm_90", 120)


def line_of(text: str) -> int:
    return (EXAMPLES / "cute_kernels.py").read_text(encoding="utf-8").splitlines().index(text) + 1


def test_a_conflict_is_on_the_line_of_python_that_has_it(cute: Path) -> None:
    done = run("lint", "cute_kernels.py::transpose", *SQUARE, "--config", "none", folder=cute)
    assert done.returncode == 1, done.stderr
    assert "LDS: degree 32" in done.stdout
    place = line_of("        target[row + step, column] = held[column, row + step]")
    assert f"(cute_kernels.py:{place})" in done.stdout
    padded = ("--arg", "WIDTH=33", "--config", "none")
    done = run("lint", "cute_kernels.py::transpose", *SQUARE, *padded, folder=cute)
    assert done.returncode == 0, done.stdout


def test_an_access_in_a_function_of_another_file_has_its_callers(work: Path) -> None:
    (work / "kernels.py").write_text(inlined_texts.CUTE, encoding="utf-8")
    (work / "helpers.py").write_text(inlined_texts.CUTE_HELPERS, encoding="utf-8")
    tile = ("--arg", "x=float32[32,32]", "--arg", "y=float32[32,32]:out", *OURS)
    done = run("profile", "kernels.py::turn", *tile, "-o", "run", folder=work)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(work / "run").profiles
    stacks = {access.stack for access in profile.instructions if access.access == "STS"}
    assert stacks == {(("helpers.py", 6), ("kernels.py", 11))}


def test_the_host_function_says_how_the_kernel_is_launched(cute: Path) -> None:
    done = run("profile", "cute_kernels.py::tensor_core", *PRODUCT, *OURS, "-o", "run", folder=cute)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(cute / "run").profiles
    assert (profile.grid, profile.block) == ((2, 2, 1), (128, 1, 1))
    assert profile.metrics["launch__shared_mem_per_block_dynamic"].value == 2 * 128 * 32 * 2
    assert profile.sources.keys() == {"cute_kernels.py"}


def test_a_tensor_map_points_to_a_matrix_that_is_no_parameter() -> None:
    made = described("cute-hopper")
    arguments = {argument.name: argument for argument in made.target.family.arguments}
    assert arguments["parameter0"].value.startswith("pointer:a+0,uint64:")
    assert arguments["parameter1"].value.startswith("pointer:b+0,uint64:")
    assert [name for name, argument in arguments.items() if not argument.passed] == ["a", "b"]
    assert arguments["c"].passed
    again = described("cute-hopper")
    assert again.target.family.arguments == made.target.family.arguments


def test_a_dynamic_layout_passes_sizes_and_strides() -> None:
    made = described("cute-row-sums-dynamic")
    first = made.target.family.arguments[0]
    assert first.value == f"pointer:x+0,uint64:{2000 << 32 | 512},uint64:2000"
    assert made.target.family.launch.grid == ("512", "1", "1")


def test_one_of_several_kernels_is_named(cute: Path) -> None:
    array = ("--arg", "x=float32[64]")
    text = (cute / "several.py").read_text(encoding="utf-8")
    bad = text[: text.index("launch", text.index("def broken"))].count("\n") + 1
    for name, said in (
        ("both", "both launches first, second\n  try: name one: "),
        ("both::third", "both::third launches first, second, not third"),
        ("first", "first is under @cute.kernel; a function under @cute.jit launches it\n  try: name that: "),
        ("none", "none launches no kernel"),
        ("broken", f"broken does not compile for sm_90:\nline {bad}: error[ARG_BIND_FAILED]: "),
    ):
        done = run("profile", f"several.py::{name}", *array, *OURS, folder=cute)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    done = run("profile", "several.py::both::second", *array, *OURS, "-o", "run", folder=cute)
    assert done.returncode == 0, done.stderr
    assert "second is launched 2 times; this is the first of them." in done.stdout
    (profile,) = run_folder.load(cute / "run").profiles
    assert profile.grid == (2, 1, 1)


def test_an_object_that_is_called_is_compiled_with_its_cluster(cute: Path) -> None:
    words = ("--arg", "x=float32[64]", "--arg", "scale=2.5")
    done = run("profile", "several.py::doubled", *words, *OURS, folder=cute)
    assert done.returncode == 0, done.stderr


def test_errors_say_what_to_type(cute: Path) -> None:
    for words, said in (
        ((), "transpose lacks x, y\n  try: --arg x=float32[1024] --arg y=float32[1024]"),
        ((*SQUARE[:2], "--arg", "y=7"), "y is a tensor, and is given no shape\n  try: --arg y=float32[1024]"),
        ((*SQUARE, "--grid", "8,8"), "transpose launches its kernel itself"),
        ((*SQUARE, "--block", "32,8"), "leave out --block"),
        ((*SQUARE, "--arg", "WIDE=33"), "has no parameter 'WIDE', did you mean 'WIDTH'?"),
        ((*SQUARE, "--option", "dynamik=True"), "CuTe DSL has no option 'dynamik', did you mean 'dynamic'?"),
        (("--arg", "x=float32[2,2]:box", *SQUARE[2:]), "box"),
    ):
        done = run("profile", "cute_kernels.py::transpose", *words, *OURS, folder=cute)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr
