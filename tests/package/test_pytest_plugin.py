"""The pytest plugin, loaded through its entry point by a pytest of its own; and its assertions."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle import assert_degree, assert_no_excess
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.commands.answers import WORST_SHOWN, ConflictError
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.model import IDEAL, WAVEFRONTS, Profile
from tests.support import fake_ncu
from tests.support.documentation import snippets
from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.places import ROOT, text
from tests.support.recordings import Recorded
from tests.support.reports import spoiled
from tests.support.shown import with_metrics

RECORDED = ("--ncu-swizzle-engine", "recorded")


def test_a_failure_shows_the_worst_lines_and_a_kernel_without_conflicts_passes(recorded: Recorded) -> None:
    fixed, profile = recorded("kernel2"), recorded("kernel1")
    for access in (None, "LDSM"):
        assert_no_excess(fixed, access=access)
    assert_degree(fixed)
    assert_degree(profile, at_most=8, access="LDSM")
    with pytest.raises(ConflictError) as caught:
        assert_no_excess(profile, access="LDSM")
    said = str(caught.value).splitlines()
    assert said[0] == "kernel1, LDSM accesses: 1,882,718,208 excessive wavefronts, at most 0 allowed"
    assert said[1].split() == ["line", "instruction", "actual", "/", "ideal", "wavefronts"]
    worst = max((i for i in profile.shared() if i.access == "LDSM"), key=lambda i: i.excessive or 0)
    assert any(worst.sass in line and f"{worst.wavefronts:,} / {worst.ideal:,}" in line for line in said[2:])
    assert all(re.match(r"  kernels/attention/\S+:\d+  LDSM", line) for line in said[2 : 2 + WORST_SHOWN])
    assert "engine recorded, NVIDIA H100" in said[-1]
    assert (caught.value.profile, caught.value.inconclusive) == (profile, False)
    with pytest.raises(AssertionError, match=r"degree 6\.587, at most 1 allowed"):
        assert_degree(profile)
    with pytest.raises(AssertionError, match=r"STS accesses: degree 8, at most 7\.9 allowed"):
        assert_degree(profile, at_most=7.9, access="STS")


def uncertain(profile: Profile) -> dict[str, Profile]:
    """Return profiles of which the counts cannot be told, by what is said of each."""
    return {
        f"lacks {IDEAL}": with_metrics(profile, {IDEAL: None}),
        "ncu counted no wavefronts of 1 of its instructions": spoiled(profile, "LDSM", wavefronts=None),
        "its report lists no instructions": replace(profile, instructions=()),
        f"{WAVEFRONTS} is not a number": with_metrics(profile, {WAVEFRONTS: float("nan")}),
        "add up to": with_metrics(profile, {WAVEFRONTS: 1}),
    }


def test_what_cannot_be_told_never_passes(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    for said, doubtful in uncertain(profile).items():
        for hold in (assert_no_excess, assert_degree):
            with pytest.raises(ConflictError, match="kernel2: inconclusive") as caught:
                hold(doubtful)
            assert said in str(caught.value)
            assert caught.value.inconclusive
    with pytest.raises(
        ConflictError, match=r"inconclusive, it has no ATOMS accesses \(it has: LDSM, LDGSTS, STS, LDS\)"
    ):
        assert_no_excess(profile, access="ATOMS")
    with pytest.raises(UsageError, match="unknown access kind 'LDMS', did you mean 'LDS'"):
        assert_no_excess(profile, access="LDMS")
    with pytest.raises(UsageError):
        assert_no_excess(profile, access="*")
    limits: list[Any] = [0.5, float("nan"), float("inf"), True, "1"]
    for limit in limits:
        with pytest.raises(UsageError):
            assert_degree(profile, at_most=limit)


@pytest.mark.long
def test_workers_profile_once_and_failures_show_lines_and_leave_pages(project: pytest.Pytester) -> None:
    project.makepyfile(text("suites/shared.txt"))
    options = ("-n", "2", "--dist", "load", "-p", "no:cacheprovider", "--basetemp=base", "--ncu-swizzle-out", "kept")
    done = project.runpytest_subprocess(*options, *RECORDED)
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines_random(
        [
            "*kernel1, LDSM accesses: 1,882,718,208 excessive wavefronts, at most 0 allowed",
            "*kernels/attention/attention.cuh:*LDSM.16.M88.4*33,554,432 / 4,194,304",
            "*report: kept/*test_not_*.html",
            "*kernel2: inconclusive, it has no ATOMS accesses*",
        ]
    )
    assert len(list((project.path / "base" / "ncu-swizzle").glob("*/run.json"))) == 2
    pages = sorted((project.path / "kept").iterdir())
    assert len(pages) == 2
    assert all("<title>kernel" in page.read_text(encoding="utf-8") for page in pages)
    assert "testing.py:" not in done.stdout.str().split("short test summary")[0], "the helper's own lines are hidden"
    assert not (project.path / "swizzle-out").exists()


@without_gpu
def test_without_a_gpu_tests_are_skipped_with_the_reason(project: pytest.Pytester) -> None:
    project.makepyfile(text("suites/without_a_gpu.txt"))
    done = project.runpytest_inprocess("-rs")
    done.assert_outcomes(passed=1, skipped=2, failed=1)
    done.stdout.fnmatch_lines(["*EnvironmentLacking: /nowhere*", "SKIPPED*without_a_gpu*needs a GPU: *"])
    assert "it ran" not in done.stdout.str()


@without_gpu
def test_a_suite_with_a_gpu_marker_of_its_own_keeps_it_and_the_plugin_can_be_switched_off(
    project: pytest.Pytester,
) -> None:
    project.makeini("[pytest]\nmarkers =\n    gpu: ours, AMD included\n")
    project.makepyfile("import pytest\n\n@pytest.mark.gpu\ndef test_ours():\n    pass\n")
    project.runpytest_inprocess().assert_outcomes(passed=1)
    project.makepyfile("def test_off(ncu_profile):\n    pass\n")
    project.runpytest_inprocess("-p", "no:ncu_swizzle").assert_outcomes(errors=1)


@pytest.mark.long
def test_profiles_come_from_files_from_ncu_and_from_sources(
    project: pytest.Pytester, recorded: Recorded, report_file: Path
) -> None:
    recorded("kernel1").save(project.path / "saved.json")
    program = fake_ncu.install(project.path / "ncu", "export FAKE_NCU=ok")
    source = ROOT / "examples" / "own-kernel" / "my.cu"
    project.makepyfile(
        text("suites/sources.txt").format(
            report=str(report_file), ncu=str(program), source=str(source), lacking=bool(Toolchain().lacking())
        )
    )
    done = project.runpytest_inprocess("--ncu-swizzle-engine", "ncu")
    assert (done.ret, done.parseoutcomes().get("failed", 0)) == (0, 0)


RESULTS = """
import numpy as np


def test_turned(ncu_run):
    matrix = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    assert (ncu_run("transpose-xor", {"in": matrix}, problem={"n": 64})["out"] == matrix.T).all()


def test_wrong(ncu_run):
    matrix = np.ones((64, 64), np.float32)
    assert (ncu_run("transpose-xor", {"in": matrix}, problem={"n": 64})["out"] == 2).all()


def test_without_a_compiler(ncu_run):
    ncu_run("transpose-xor", problem={"n": 64}, nvcc="/nowhere/nvcc", no_cache=True)
"""


@NEEDS_ALL
@pytest.mark.long
def test_results_are_those_of_the_emulator(project: pytest.Pytester) -> None:
    project.makepyfile(RESULTS)
    result = project.runpytest_subprocess("-rs")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*nvcc*"])


@pytest.mark.long
def test_the_documented_suite_runs(project: pytest.Pytester) -> None:
    (suite,) = [one for one in snippets() if "def test_" in one]
    project.makepyfile(suite)
    done = project.runpytest_inprocess(*RECORDED)
    done.assert_outcomes(passed=1, skipped=1) if device.absent() else done.assert_outcomes(passed=2)
