"""The pytest plugin, loaded through its entry point by a pytest of its own; and its assertions."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle import assert_degree, assert_no_excess
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.commands.answers import WORST_SHOWN, ConflictError
from ncu_swizzle.kernels import gpu
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.model import IDEAL, WAVEFRONTS, Metric, Profile
from tests.support import fake_ncu
from tests.support.documentation import snippets
from tests.support.marks import without_gpu
from tests.support.places import ROOT
from tests.support.recordings import Recorded

RECORDED = ("--ncu-swizzle-engine", "recorded")

# ---------------------------------------------------------------------------------------------- assertions


def test_nothing_is_said_of_a_kernel_without_conflicts(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    assert_no_excess(profile)
    assert_no_excess(profile, access="LDSM")
    assert_degree(profile)
    assert_degree(recorded("kernel1"), at_most=8, access="LDSM")


def test_a_failure_shows_the_worst_lines(recorded: Recorded) -> None:
    profile = recorded("kernel1")
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


def spoiled(profile: Profile) -> dict[str, Profile]:
    """Return profiles of which the counts cannot be told."""
    rows = profile.instructions
    one = next(index for index, row in enumerate(rows) if row.access == "LDSM")
    blank = (*rows[:one], replace(rows[one], wavefronts=None), *rows[one + 1 :])
    lacking = {name: metric for name, metric in profile.metrics.items() if name != IDEAL}
    return {
        f"lacks {IDEAL}": replace(profile, metrics=lacking),
        "ncu counted no wavefronts of 1 of its instructions": replace(profile, instructions=blank),
        "its report lists no instructions": replace(profile, instructions=()),
        f"{WAVEFRONTS} is not a number": replace(
            profile, metrics={**profile.metrics, WAVEFRONTS: Metric(float("nan"))}
        ),
        "add up to": replace(profile, metrics={**profile.metrics, WAVEFRONTS: Metric(1)}),
    }


def test_what_cannot_be_told_never_passes(recorded: Recorded) -> None:
    for said, profile in spoiled(recorded("kernel2")).items():
        for hold in (assert_no_excess, assert_degree):
            with pytest.raises(ConflictError, match="kernel2: inconclusive") as caught:
                hold(profile)
            assert said in str(caught.value)
            assert caught.value.inconclusive


def test_an_access_that_a_kernel_does_not_have_is_no_pass(recorded: Recorded) -> None:
    with pytest.raises(
        ConflictError, match="inconclusive, it has no ATOMS accesses \\(it has: LDSM, LDGSTS, STS, LDS\\)"
    ):
        assert_no_excess(recorded("kernel2"), access="ATOMS")
    with pytest.raises(UsageError, match="unknown access kind 'LDMS', did you mean 'LDS'"):
        assert_no_excess(recorded("kernel2"), access="LDMS")
    with pytest.raises(UsageError):
        assert_no_excess(recorded("kernel2"), access="*")


@pytest.mark.parametrize("limit", [0.5, float("nan"), float("inf"), True, "1"])
def test_a_limit_that_makes_no_sense_is_an_error(limit: float, recorded: Recorded) -> None:
    with pytest.raises(UsageError):
        assert_degree(recorded("kernel2"), at_most=limit)


@pytest.mark.long
def test_a_suite_with_recorded_figures(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from ncu_swizzle import assert_degree, assert_no_excess

        def test_free(ncu_profile):
            assert_no_excess(ncu_profile("kernel2"), access="LDSM")

        def test_not_free(ncu_profile):
            assert_no_excess(ncu_profile("kernel1"), access="LDSM")

        def test_cached(ncu_profile):
            assert ncu_profile("kernel1") is ncu_profile("kernel1")
            assert ncu_profile("kernel1", engine="recorded") is ncu_profile("kernel1")

        def test_inconclusive(ncu_profile):
            assert_degree(ncu_profile("kernel2"), access="ATOMS")
        """
    )
    done = project.runpytest_subprocess("-p", "no:cacheprovider", *RECORDED, "--ncu-swizzle-out", "kept")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*kernel1, LDSM accesses: 1,882,718,208 excessive wavefronts, at most 0 allowed",
            "*kernels/attention/attention.cuh:*LDSM.16.M88.4*33,554,432 / 4,194,304",
            "*report: kept/*test_not_free*.html",
            "*kernel2: inconclusive, it has no ATOMS accesses*",
        ]
    )
    pages = sorted((project.path / "kept").iterdir())
    assert len(pages) == 2
    assert all("<title>kernel" in page.read_text(encoding="utf-8") for page in pages)
    assert "testing.py:" not in done.stdout.str().split("short test summary")[0], "the helper's own lines are hidden"
    assert not (project.path / "swizzle-out").exists()


@without_gpu
def test_without_a_gpu_tests_are_skipped_with_the_reason(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys
        import pytest

        @pytest.mark.gpu
        def test_marked():
            raise RuntimeError("it ran")

        def test_measured(ncu_profile):
            ncu_profile("kernel2")
            raise RuntimeError("it ran")

        def test_recorded_by_name(ncu_profile):
            assert ncu_profile("kernel2", engine="recorded").engine == "recorded"

        def test_a_demand_is_no_wish(ncu_profile):
            ncu_profile("kernel2", engine="ncu", ncu="/nowhere")
        """
    )
    done = project.runpytest_inprocess("-rs")
    done.assert_outcomes(passed=1, skipped=2, failed=1)
    done.stdout.fnmatch_lines(["*EnvironmentLacking: /nowhere*", "SKIPPED*without_a_gpu*needs a GPU: *"])
    assert "it ran" not in done.stdout.str()


@pytest.mark.long
def test_loading_it_costs_nothing_and_it_can_be_switched_off(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_light(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("ncu_swizzle")
            heavy = {"pandas", "numpy", "jinja2", "rich", "typer", "ncu_swizzle.commands.api", "ncu_swizzle.reports"}
            assert not heavy & set(sys.modules)
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)
    off = project.runpytest_subprocess("-p", "no:ncu_swizzle")
    off.stdout.fnmatch_lines(["*assert False*"])
    off.assert_outcomes(failed=1)


@without_gpu
def test_a_suite_with_a_gpu_marker_of_its_own_keeps_it(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nmarkers =\n    gpu: ours, AMD included\n")
    project.makepyfile("import pytest\n\n@pytest.mark.gpu\ndef test_ours():\n    pass\n")
    project.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.long
def test_workers_of_xdist_profile_once(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from ncu_swizzle import assert_no_excess

        @pytest.mark.parametrize("number", range(4))
        def test_one(ncu_profile, number):
            assert_no_excess(ncu_profile("transpose-xor"))

        def test_bad(ncu_profile):
            assert_no_excess(ncu_profile("transpose-plain"))
        """
    )
    options = ("-n", "2", "-p", "no:cacheprovider", "--basetemp=base", "--ncu-swizzle-out", "kept")
    done = project.runpytest_subprocess(*options, *RECORDED)
    done.assert_outcomes(passed=4, failed=1)
    assert len(list((project.path / "base" / "ncu-swizzle").glob("*/run.json"))) == 2
    assert len(list((project.path / "kept").iterdir())) == 1
    done.stdout.fnmatch_lines(["*report: kept/*test_bad*.html"])


@pytest.mark.long
def test_files_are_read(project: pytest.Pytester, recorded: Recorded, report_file: Path) -> None:
    recorded("kernel1").save(project.path / "saved.json")
    project.makepyfile(
        f"""
        def test_files(ncu_profile):
            assert ncu_profile("saved.json").kernel.name == "kernel1"
            assert ncu_profile({str(report_file)!r}).kernel.name == "kernel2"
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.long
def test_measured_figures_come_from_ncu(project: pytest.Pytester) -> None:
    program = fake_ncu.install(project.path / "ncu", "export FAKE_NCU=ok")
    project.makepyfile(
        f"""
        from pathlib import Path

        def test_measured(ncu_profile, tmp_path_factory):
            profile = ncu_profile("kernel2", ncu=Path({str(program)!r}))
            assert profile.engine == "ncu"
            (report,) = tmp_path_factory.getbasetemp().glob("ncu-swizzle/*/kernel2.ncu-rep")
        """
    )
    project.runpytest_inprocess("--ncu-swizzle-engine", "ncu").assert_outcomes(passed=1)


@pytest.mark.long
@pytest.mark.skipif(bool(Toolchain().lacking()), reason="needs CUDA's compiler")
def test_a_source_of_ones_own_is_profiled(project: pytest.Pytester) -> None:
    project.makepyfile(f"""
        from ncu_swizzle import assert_no_excess

        OWN = dict(grid="n//32,n//32", block=(32, 8), problem=dict(n=64), define="SWIZZLE=1", config="none",
                   args=["x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"])

        def test_mine(ncu_profile):
            profile = ncu_profile(
                {str(ROOT / "examples" / "own-kernel" / "my.cu")!r}, entry="transpose", engine="emulated", **OWN
            )
            assert profile.engine == "emulated"
            assert_no_excess(profile)
    """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.long
def test_the_documented_suite_runs(project: pytest.Pytester) -> None:
    (suite,) = [one for one in snippets() if "def test_" in one]
    project.makepyfile(suite)
    done = project.runpytest_inprocess(*RECORDED)
    done.assert_outcomes(passed=1, skipped=1) if gpu.absent() else done.assert_outcomes(passed=2)
