"""``ncu-swizzle capture`` for real: both runtimes, the driver API, graphs, several processes, PyTorch and Triton."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle import capture
from ncu_swizzle.capture.launches import Manifest, open_launches
from ncu_swizzle.cubin import names
from ncu_swizzle.engines.profiles import saved_profiles
from ncu_swizzle.reports import reader
from ncu_swizzle.reports.model import Profile
from tests.support.on_gpu import command, needs
from tests.support.places import DATA

SEVERAL = ("./several", "--size", "512")


def captured(folder: Path, out: Path, *words: str) -> Manifest:
    """Capture with these options and return what the file says."""
    done = command(folder, "capture", "-o", str(out), *words)
    assert done.returncode == 0, done.stderr
    with open_launches(out) as file:
        return file.manifest


def counts(profile_: Profile) -> list[tuple[object, ...]]:
    """Return what is counted of the shared-memory accesses, by offset."""
    start = min(instruction.pc for instruction in profile_.instructions)
    return [(i.pc - start, i.executed, i.wavefronts, i.ideal) for i in profile_.instructions if i.access]


def functions(manifest: Manifest) -> list[str]:
    return [names.function(names.demangle(launch.kernel)) for launch in manifest.launches]


@pytest.mark.parametrize(
    "program",
    [SEVERAL, ("./several-shared", "--size", "512", "--pad"), (*SEVERAL, "--graph"), ("./driver",), ("./counting",)],
)
def test_a_replay_counts_what_ncu_counts(program: tuple[str, ...], programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "app.launches"
    captured(programs, out, "--memory", "--", *program)
    measured = command(programs, "profile", "-o", str(tmp_path / "ncu"), "--", *program)
    assert measured.returncode == 0, measured.stderr
    theirs = reader.read(tmp_path / "ncu" / "report.ncu-rep")
    ours = saved_profiles(out)
    assert [counts(one) for one in ours] == [counts(one) for one in theirs]
    assert any(counts(one) for one in ours)


def test_what_is_captured_has_the_counts_that_ncu_measures(programs: Path, tmp_path: Path) -> None:
    done = command(programs, "profile", "-k", "turn", "-o", str(tmp_path / "ncu"), "--", *SEVERAL)
    assert done.returncode == 0, done.stderr
    captured(programs, tmp_path / "app.launches", "-k", "turn", "--", *SEVERAL)
    theirs = reader.read(tmp_path / "ncu" / "report.ncu-rep")
    ours = saved_profiles(tmp_path / "app.launches")
    assert len(theirs) == 4
    assert [counts(one) for one in ours] == [counts(one) for one in theirs]


def test_launches_of_other_kinds(programs: Path, tmp_path: Path) -> None:
    manifest = captured(programs, tmp_path / "app.launches", "--", "./shapes")
    assert functions(manifest) == ["exchange", "together", *["strided"] * 4]
    assert [launch.cluster for launch in manifest.launches[:2]] == [(2, 1, 1), ()]
    strides = [launch.parameters[-1].bytes[0] for launch in manifest.launches[2:]]
    assert strides == [4, 2, 4, 16], "a node's parameters were changed before the second launch"
    assert [launch.graph for launch in manifest.launches] == [False, False, *[True] * 4]


def test_every_process_is_captured(programs: Path, tmp_path: Path) -> None:
    both = ("sh", "-c", "./counting && ./several --size 256")
    manifest = captured(programs, tmp_path / "app.launches", "--", *both)
    assert functions(manifest) == ["count", "permute", "permute", *["turn"] * 4, "rowsum", "scale"]


def test_a_program_that_fails(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "app.launches"
    failed = command(programs, "capture", "-o", str(out), "--", *SEVERAL, "--fail")
    assert failed.returncode == 4
    assert "exited with status 7" in failed.stderr
    assert not out.exists()


def test_pytorch_and_triton(programs: Path, tmp_path: Path) -> None:
    needs("torch")
    needs("triton")
    manifest = captured(programs, tmp_path / "torch.launches", "--", sys.executable, "torch_program.py", "512")
    assert any("istogram" in name for name in functions(manifest))
    manifest = captured(
        programs, tmp_path / "triton.launches", "-k", "turn_tiles", "--", sys.executable, "triton_program.py", "512"
    )
    assert len({launch.cubin for launch in manifest.launches}) == len(manifest.launches) == 2, "one name, two kernels"


def test_no_layout_is_declared_that_the_headers_do_not_have() -> None:
    headers = Path(shutil.which("nvcc") or "").resolve().parent.parent / "include"
    if not (headers / "cupti_callbacks.h").is_file():
        pytest.skip("CUPTI's headers are not installed")
    folders = (f"-I{headers}", f"-I{Path(capture.__file__).parent}")
    check = ["cc", "-fsyntax-only", *folders, str(DATA / "gpu" / "layouts.c")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
