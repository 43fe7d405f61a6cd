"""The catalogue on a real GPU: right, conflict-free, and profiled end to end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports.options import NCU, Engine
from tests.support import worked_example
from tests.support.process import started as command
from tests.support.processes import processes_in

# For the sanitizer, which is slow: a problem of each family that has all of its loops.
SMALLEST = {
    "attention": "batch=1,heads=2,seq=192",
    "cute": "n=128",
    "gemm": "n=512",
    "tma": "n=128",
    "transpose": "n=100",
    "vectors": "tiles=8",
    "wgmma": "n=512",
}
ATTENTION = ((1, 1, 64), (1, 1, 128), (2, 3, 256), (3, 5, 192), (1, 40, 64), (2, 1, 4096), (1, 2, 8192))
SMALL = ("--problem", "batch=1", "--problem", "heads=2", "--problem", "seq=192")


def launch(folder: Path, *arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run the launching program; return how it ended and its facts."""
    facts = folder / "facts.json"
    done = subprocess.run(
        [sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(facts), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    return done, json.loads(facts.read_text(encoding="utf-8"))


def own_kernels(family: str) -> list[str]:
    """Return a family's kernels; skip the test where headers that they include are not installed."""
    try:
        [toolchain.locate(name) for found, _ in catalog.shipped() if found.name == family for name in found.headers]
    except EnvironmentLacking as lacking:
        pytest.skip(f"{lacking}: {lacking.hint}")
    return [kernel.name for found, kernel in catalog.shipped() if found.name == family and not kernel.library]


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        *(("attention", f"batch={b},heads={h},seq={s}") for b, h, s in ATTENTION),
        *(("cute", f"n={n}") for n in (128, 384, 1024)),
        *(("gemm", f"n={n}") for n in (256, 768, 2560)),
        *(("tma", f"n={n}") for n in (64, 192, 1024)),
        *(("transpose", f"n={n}") for n in (1, 31, 32, 33, 100, 257, 1024)),
        *(("vectors", f"tiles={tiles}") for tiles in (4, 64, 1024)),
        *(("wgmma", f"n={n}") for n in (256, 768, 2816)),
    ],
)
def test_outputs_match_the_reference(family: str, problem: str, tmp_path: Path) -> None:
    kernels = own_kernels(family)
    sizes = [f"--problem={size}" for size in problem.split(",")]
    done, facts = launch(tmp_path, *sizes, *kernels)
    assert done.returncode == 0, done.stderr
    assert facts["errors"].keys() == set(kernels)
    first = facts["errors"][kernels[0]]
    for name in kernels:
        assert facts["errors"][name] == pytest.approx(first, rel=0.5), "the layout must not change the arithmetic"


def test_a_tile_read_through_another_layout_is_an_error(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(paths.kernels(), kernels)
    right = (kernels / "attention" / "2_swizzled.cu").read_text(encoding="utf-8")
    policy = "layout::XorSwizzle<attention::kRowBytes>"
    other = policy.replace("XorSwizzle", "RowMajor")
    wrong = right.replace("kernel2", "mismatched").replace(policy, f"{policy}, attention::Loads::kAtStart, {other}")
    assert wrong != right
    (kernels / "attention" / "mismatched.cu").write_text(wrong, encoding="utf-8")
    with (kernels / "attention" / "family.toml").open("a", encoding="utf-8") as family:
        family.write('\n[[variant]]\nname = "mismatched"\ntitle = "Wrong"\nlesson = "Reads what it did not write."\n')
    done, facts = launch(tmp_path, "--catalog", str(kernels), *SMALL, "mismatched")
    assert done.returncode == 4
    assert facts["error"]["type"] == "WrongOutput"
    off_by = re.search(r"differs from the reference: relative error ([\d.e+-]+) ", facts["error"]["message"])
    assert off_by
    assert float(off_by[1]) > 0.1


@pytest.mark.parametrize("swizzle", [0, 32, 64])
def test_a_reader_that_does_not_swizzle_as_the_hardware_did_is_an_error(swizzle: int, tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(paths.kernels(), kernels)
    file = kernels / "tma" / "family.toml"
    text = file.read_text(encoding="utf-8")
    box = swizzle // 2 or 64
    wrong = text.replace("box = [64, 64]\nswizzle = 128", f"box = [64, {box}]\nswizzle = {swizzle}")
    assert wrong != text
    file.write_text(wrong, encoding="utf-8")
    body = kernels / "tma" / "4_swizzle_128b.cu"  # loads boxes as wide as the map's, reads 128-byte rows
    body.write_text(body.read_text(encoding="utf-8").replace("kTile>, 128>", f"kTile>, {2 * box}>"), encoding="utf-8")
    done, facts = launch(tmp_path, "--catalog", str(kernels), "--problem", "n=256", "tma-128")
    assert done.returncode == 4, done.stderr
    assert facts["error"]["type"] == "WrongOutput"


def test_an_output_that_is_not_written_is_an_error(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(paths.kernels(), kernels)
    body = kernels / "attention" / "attention.cuh"
    text = body.read_text(encoding="utf-8")
    assert "r += 32 / kChunksPerRow" in text
    body.write_text(text.replace("r += 32 / kChunksPerRow", "r += 64 / kChunksPerRow"), encoding="utf-8")
    done, facts = launch(tmp_path, "--catalog", str(kernels), *SMALL, "kernel2")
    assert done.returncode == 4
    assert "are NaN or infinite" in facts["error"]["message"]


def test_the_smallest_problems_leave_no_family_out() -> None:
    assert SMALLEST.keys() == {family.name for family, _ in catalog.shipped().run()}


@pytest.mark.parametrize("family", SMALLEST)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing(tool: str, family: str, tmp_path: Path) -> None:
    if not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on PATH")
    sizes = [f"--problem={size}" for size in SMALLEST[family].split(",")]
    program = [sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(tmp_path / "f.json"), *sizes]
    done = subprocess.run(
        ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *program, *own_kernels(family)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_profile_measures_before_and_after(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = command("profile", "kernel2", "--reference", "none", "-o", str(folder), "--json", "-")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["engine"] == "ncu"
    assert found["labels"] == ["kernel1", "kernel2"]
    degrees = {(row["label"], row["access"]): row["degree"] for row in found["accesses"]}
    assert degrees == {
        **{("kernel1", access): degree for access, degree in {"LDGSTS": 1, "LDSM": 8, "STS": 8, "LDS": 1}.items()},
        **{("kernel2", access): 1 for access in ("LDGSTS", "LDSM", "STS", "LDS")},
    }
    assert found["speedup"] > 1
    for profile in found["profiles"]:
        assert profile["metrics"]["profiler__replayer_passes"]["value"] <= 6
        assert profile["machine"]["clock_control"] == "none"
    assert {file.name for file in folder.iterdir()} >= {"report.html", "run.json", "kernel2.json", "kernel2.ncu-rep"}


def test_the_worked_example_has_the_degrees_that_it_states(tmp_path: Path) -> None:
    family, kernel = worked_example.follow(tmp_path)
    target = Target(family, kernel, family.problem({"batch": 1, "heads": 2, "seq": 192}))
    profile = measured.measure(target, Context(request=Request(engine=NCU), engine=Engine(NCU), folder=tmp_path))
    assert {access: total.degree for access, total in profile.accesses.items()} == dict(kernel.degree)


def test_run_checks_and_times() -> None:
    done = command(
        *("profile", "kernel1", "kernel2", "--no-ncu", "--reference", "none", "--repeats", "3"),
        *("--problem", "seq=1024", "--json", "-"),
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert {name: len(times) for name, times in facts["times_ms"].items()} == {"kernel1": 3, "kernel2": 3}


def test_a_time_limit_ends_everything(tmp_path: Path) -> None:
    done = command("profile", "kernel2", "--timeout", "1", "-o", str(tmp_path / "out"))
    assert done.returncode == 4
    assert "was still running after 1 s" in done.stderr
    assert not list(tmp_path.iterdir())
    assert not list(processes_in(tmp_path))
