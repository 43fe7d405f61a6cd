"""Functions of Triton's and Gluon's, compiled here without a GPU, from the command line."""

import shlex
import shutil
from pathlib import Path

import pytest

from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.model import Profile
from tests.support.process import run
from tests.support.python_kernels import EXAMPLES, NEEDS_TRITON, TEXTS, TILES, Profiled, Refused, line_of

pytestmark = [NEEDS_TRITON, pytest.mark.long]

SCALED = ("--grid", "n//B", "--arg", "x=float32[4096]", "--arg", "y=float32[4096]:out", "--arg", "n=4096",
          "--arg", "f=2.5", "--arg", "B=1024")  # fmt: skip


@pytest.mark.usefixtures("kernels")
def test_grid_block_and_shared_memory_are_the_compilers(profiled: Profiled) -> None:
    profile = profiled("tiles.py::transpose", *TILES, "--option", "num_warps=8")
    assert (profile.grid, profile.block) == ((8, 8, 1), (256, 1, 1))
    assert profile.metrics["launch__shared_mem_per_block_dynamic"].value == 32 * 32 * 4
    assert profile.kernel.name == "transpose"
    lines = {access.stack[0] for access in profile.shared()}
    text = (EXAMPLES / "tiles.py").read_text(encoding="utf-8").splitlines()
    ((file, line),) = lines
    assert (file, text[line - 1].strip()) == (
        "tiles.py",
        "tl.store(y + j[:, None] * rows + i[None, :], tl.trans(tile))",
    )
    assert profile.sources["tiles.py"].splitlines() == text


MATRICES = ("--problem", "m=256,n=256,k=128", "--grid", "m//BM,n//BN", "--arg", "m=m", "--arg", "n=n", "--arg", "k=k",
            "--arg", "BM=128", "--arg", "BN=128", "--arg", "BK=64")  # fmt: skip


def test_a_descriptor_s_matrix_needs_no_content_and_is_asked_for(
    work: Path, profiled: Profiled, refused: Refused
) -> None:
    shutil.copy(EXAMPLES / "matmul.py", work)
    maps = ("--arg", "b=tensormap:float16[k,n]:box=64x128", "--arg", "c=tensormap:float16[m,n]:out:box=128x128")
    words = ("matmul.py::descriptors", *MATRICES, *maps, "--arg")
    profile = profiled(*words, "a=tensormap:float16[m,k]:box=128x64")
    assert {access.access for access in profile.shared() if access.wavefronts} >= {"HGMMA"}
    error, hint = refused(*words, "a=float16[m,k]")
    assert "'tensor' object has no attribute 'load'" in error
    assert hint == "--arg a=tensormap:float16[256,128]:box=64x64"


def test_the_layout_of_a_gluon_descriptor_is_of_the_swizzle_given(work: Path, profiled: Profiled) -> None:
    shutil.copy(TEXTS / "triton" / "descriptor.py", work)
    words = (
        "descriptor.py::through",
        "--grid",
        "1",
        "--arg",
        "x=float32[64,64]",
        "--arg",
        "y=float32[64,64]:out",
        "--arg",
    )
    widest = profiled(*words, "a=tensormap:float32[64,64]:box=64x32")
    narrow = profiled(*words, "a=tensormap:float32[64,64]:box=64x32:swizzle=32")
    assert wavefronts(widest) < wavefronts(narrow)


def wavefronts(profile: Profile) -> int:
    return sum(access.wavefronts or 0 for access in profile.shared())


def test_a_line_of_a_library_belongs_to_the_line_that_calls_it(kernels: Path, profiled: Profiled) -> None:
    profile = profiled("scale.py::scale", *SCALED)
    assert profile.sources.keys() == {"scale.py", "factors.py"}
    line = line_of(kernels / "scale.py", "tl.store(y + i, times(tl.sum(v) + v, f), mask=i < n)")
    sites = list(attribution.sites(profile))
    assert sites
    for site in sites:
        assert site.access.stack[0][0].endswith("triton/language/standard.py")
        assert site.line == ("scale.py", line)


@pytest.mark.usefixtures("kernels")
def test_heuristics_decide_what_they_decide_in_triton(profiled: Profiled) -> None:
    words = ("--grid", "1", "--arg", "x=float32[1000]", "--arg", "y=float32[1000]:out", "--arg", "n=1000")
    profile = profiled("scale.py::whole", *words)
    assert any(access.opcode.startswith("LDS") for access in profile.shared())


@pytest.mark.usefixtures("kernels")
def test_heuristics_over_a_tuned_constant_wait_until_it_is_chosen(profiled: Profiled, refused: Refused) -> None:
    words = ("--grid", "1", "--arg", "x=float32[1000]:out", "--arg", "n=1000")
    error, hint = refused("scale.py::chosen", *words)
    assert "tuned over 2 configurations" in error
    assert profiled("scale.py::chosen", *words, *shlex.split(hint.partition(" is the first")[0]))


@pytest.mark.usefixtures("kernels")
def test_a_tuple_is_passed_number_by_number(profiled: Profiled) -> None:
    arrays = ("--arg", "x=float32[4096]", "--arg", "y=float32[4096]:out")
    profile = profiled("declared.py::shifted", "--grid", "4", *arrays, "--arg", "sizes=(4000, 7)", "--arg", "B=1024")
    assert profile.grid == (4, 1, 1)


def test_configurations_of_autotune_are_variants_of_a_sweep(work: Path, profiled: Profiled, refused: Refused) -> None:
    shutil.copy(EXAMPLES / "matmul.py", work)
    matrices = [part for name in "abc" for part in ("--arg", f"{name}=float16[s,s]")]
    sizes = [part for name in "mnk" for part in ("--arg", f"{name}=s")]
    launch = ("--problem", "s=256", "--grid", "s//BM,s//BN", *matrices, *sizes, "--engine", "emulated")
    done = run("sweep", "matmul.py::tuned", *launch, "--config", "none", "-o", "out", folder=work)
    assert done.returncode == 0, done.stderr
    points = {point.parent.name for point in (work / "out" / "points").glob("*/*")}
    assert points == {
        "tuned-BM128-BN128-BK32-num_warps4-num_stages3",
        "tuned-BM64-BN128-BK32-num_warps4-num_stages4",
        "tuned-BM128-BN128-BK16-num_warps8-num_stages3",
    }
    error, hint = refused("matmul.py::tuned", *launch[:-2])
    assert "tuned over 3 configurations" in error
    assert profiled("matmul.py::tuned", *launch[:-2], *shlex.split(hint.partition(" is the first")[0]))


@pytest.mark.usefixtures("kernels")
def test_an_older_and_a_newer_architecture_are_compiled_for(profiled: Profiled) -> None:
    for arch in ("sm_80", "sm_100"):
        profile = profiled("tiles.py::transpose", *TILES, "--arch", arch)
        assert profile.machine.compute_capability == f"{arch[3:-1]}.{arch[-1]}"
