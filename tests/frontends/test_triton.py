"""Functions of Triton's and Gluon's, compiled here without a GPU, from the command line."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

from ncu_swizzle.reports import attribution, run_folder
from ncu_swizzle.reports.model import Profile
from tests.support import python_texts
from tests.support.process import run
from tests.support.python_kernels import NEEDS_TRITON, OURS, SCALE, TILES
from tests.support.python_recordings import EXAMPLES

pytestmark = NEEDS_TRITON

SCALED = ("--grid", "n//B", "--arg", "x=float32[4096]", "--arg", "y=float32[4096]:out", "--arg", "n=4096",
          "--arg", "f=2.5", "--arg", "B=1024")  # fmt: skip


def profiled(folder: Path, *words: str) -> Profile:
    """Return the profile that `profile` writes of its only kernel."""
    done = run("profile", *words, *OURS, "-o", "run", "--force-overwrite", folder=folder)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(folder / "run").profiles
    return profile


def refused(folder: Path, *words: str, code: int = 2) -> tuple[str, str]:
    """Return the error and the hint of a command that fails."""
    done = run("profile", *words, *OURS, folder=folder)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    error, _, hint = done.stderr.partition("\n  try: ")
    return error, hint.strip()


def test_grid_block_and_shared_memory_are_the_compilers(kernels: Path) -> None:
    profile = profiled(kernels, "tiles.py::transpose", *TILES, "--option", "num_warps=8")
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


def test_a_descriptor_s_matrix_needs_no_content_and_is_asked_for(work: Path) -> None:
    shutil.copy(EXAMPLES / "matmul.py", work)
    maps = ("--arg", "b=tensormap:float16[k,n]:box=64x128", "--arg", "c=tensormap:float16[m,n]:out:box=128x128")
    words = ("matmul.py::descriptors", *MATRICES, *maps, "--arg")
    profile = profiled(work, *words, "a=tensormap:float16[m,k]:box=128x64")
    assert {access.access for access in profile.shared() if access.wavefronts} >= {"HGMMA"}
    error, hint = refused(work, *words, "a=float16[m,k]")
    assert "'tensor' object has no attribute 'load'" in error
    assert hint == "--arg a=tensormap:float16[256,128]:box=64x64"


def test_the_layout_of_a_gluon_descriptor_is_of_the_swizzle_given(work: Path) -> None:
    (work / "k.py").write_text(python_texts.GLUON_DESCRIPTOR, encoding="utf-8")
    words = ("k.py::through", "--grid", "1", "--arg", "x=float32[64,64]", "--arg", "y=float32[64,64]:out", "--arg")
    widest = profiled(work, *words, "a=tensormap:float32[64,64]:box=64x32")
    narrow = profiled(work, *words, "a=tensormap:float32[64,64]:box=64x32:swizzle=32")
    assert wavefronts(widest) < wavefronts(narrow)


def wavefronts(profile: Profile) -> int:
    return sum(access.wavefronts or 0 for access in profile.shared())


def test_a_line_of_a_library_belongs_to_the_line_that_calls_it(kernels: Path) -> None:
    profile = profiled(kernels, "scale.py::scale", *SCALED)
    assert profile.sources.keys() == {"scale.py", "factors.py"}
    line = SCALE.splitlines().index("    tl.store(y + i, times(tl.sum(v) + v, f), mask=i < n)") + 1
    sites = list(attribution.sites(profile))
    assert sites
    for site in sites:
        assert site.access.stack[0][0].endswith("triton/language/standard.py")
        assert site.line == ("scale.py", line)


def test_heuristics_decide_what_they_decide_in_triton(kernels: Path) -> None:
    words = ("--grid", "1", "--arg", "x=float32[1000]", "--arg", "y=float32[1000]:out", "--arg", "n=1000")
    profile = profiled(kernels, "scale.py::whole", *words)
    assert any(access.opcode.startswith("LDS") for access in profile.shared())


def test_heuristics_over_a_tuned_constant_wait_until_it_is_chosen(kernels: Path) -> None:
    words = ("--grid", "1", "--arg", "x=float32[1000]:out", "--arg", "n=1000")
    error, hint = refused(kernels, "scale.py::chosen", *words)
    assert "tuned over 2 configurations" in error
    assert profiled(kernels, "scale.py::chosen", *words, *shlex.split(hint.partition(" is the first")[0]))


def test_gluons_layout_decides_whether_it_conflicts(kernels: Path) -> None:
    done = run("lint", "gluon_kernels.py::transpose", *TILES, "--arg", "PHASES=1", "--config", "none", folder=kernels)
    assert done.returncode == 1
    assert "LDS: degree 32" in done.stdout
    done = run("lint", "gluon_kernels.py::transpose", *TILES, "--arg", "PHASES=32", "--config", "none", folder=kernels)
    assert done.returncode == 0, done.stdout


def test_two_ways_to_compile_are_compared(kernels: Path) -> None:
    pair = ("--before", "PHASES=1", "--after", "PHASES=32")
    words = ("profile", "gluon_kernels.py::transpose", *TILES, *pair, "--config", "none", "--engine", "emulated")
    done = run(*words, folder=kernels)
    assert done.returncode == 0, done.stderr
    assert "transpose (before)" in done.stdout
    assert "32.00" in done.stdout


def test_configurations_of_autotune_are_variants_of_a_sweep(work: Path) -> None:
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
    error, hint = refused(work, "matmul.py::tuned", *launch[:-2])
    assert "tuned over 3 configurations" in error
    assert profiled(work, "matmul.py::tuned", *launch[:-2], *shlex.split(hint.partition(" is the first")[0]))


def test_errors_say_what_to_type(kernels: Path) -> None:
    error, hint = refused(kernels, "scale.py::scale", *SCALED[:-2])
    assert "scale.py::scale lacks B" in error
    assert hint.startswith("--arg B=64")
    error, hint = refused(kernels, "scale.py::scale", *SCALED, "--arg", "m=3")
    assert "has no parameter 'm'" in error
    assert hint == "its parameters: x, y, n, f, B, KIND"
    error, hint = refused(kernels, "scale.py::scale", *SCALED, "--option", "num_warp=4")
    assert "Triton has no option 'num_warp', did you mean 'num_warps'?" in error
    error, hint = refused(kernels, "scale.py::scale", *SCALED, "--arg", "KIND=other")
    assert "scale.py::scale does not compile for sm_90" in error
    assert "only the plain one" in error
    assert hint.startswith("fix ")
    error, hint = refused(kernels, "scale.py::scale", *SCALED, "--block", "128")
    assert "the block of scale.py::scale is the compiler's to choose" in error
    assert hint == "--option num_warps=8 gives the block"
    assert profiled(kernels, "scale.py::scale", *SCALED, "--option", "num_warps=8").block == (256, 1, 1)
    error, hint = refused(kernels, "scale.py::scale", *SCALED[2:])
    assert "scale has no grid" in error
    assert hint == "--grid 128 gives it, one to three sizes"
    assert profiled(kernels, "scale.py::scale", "--grid", "128", *SCALED[2:]).grid == (128, 1, 1)
    error, hint = refused(kernels, "scale.py::scale", *SCALED, "--std", "c++20")
    assert "-std=c++20 is for nvcc, which does not compile scale.py" in error
    assert hint == "--option num_warps=8"
    error, hint = refused(kernels, "scale.py::scal", *SCALED)
    assert "scale.py has no scal; its kernels: " in error
    assert hint.endswith("scale.py::scale")


def test_a_project_file_needs_trust_unless_the_command_line_names_its_source(kernels: Path) -> None:
    described = '[kernel.turn]\nsource = "tiles.py"\nentry = "transpose"\ngrid = "8, 8"\noptions = { num_warps = 2 }\n'
    args = [word for word in TILES[2:] if word != "--arg"]
    (kernels / "ncu-swizzle.toml").write_text(f"{described}args = {json.dumps(args)}\n", encoding="utf-8")
    done = run("lint", "turn", folder=kernels)
    assert done.returncode == 2
    assert "tiles.py needs your trust: compiling turn executes it" in done.stdout + done.stderr
    for words in (("turn", "--trust"), ("tiles.py",), ("tiles.py::transpose",)):
        done = run("lint", *words, folder=kernels)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "turn: " in done.stdout


def test_an_older_and_a_newer_architecture_are_compiled_for(kernels: Path) -> None:
    for arch in ("sm_80", "sm_100"):
        profile = profiled(kernels, "tiles.py::transpose", *TILES, "--arch", arch)
        assert profile.machine.compute_capability == f"{arch[3:-1]}.{arch[-1]}"
