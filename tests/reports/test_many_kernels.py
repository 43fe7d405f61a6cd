"""Reports with many kernels, and reports that lack metrics: listed, shown, compared, and never a crash."""

from __future__ import annotations

import json

import pytest

from ncu_swizzle.base.cache import sha256_of_json
from ncu_swizzle.reports import many_launches
from ncu_swizzle.reports.model import DURATION, IDEAL, LaunchId, Profile
from tests.support.recordings import Recorded
from tests.support.reports import launched, without
from tests.support.several import laid_out, program


def test_launches_are_told_apart_and_judged(recorded: Recorded) -> None:
    result = laid_out(program(recorded))
    assert [one.title for one in result.comparisons] == ["rows<float>", "tile", "rows<double>", "copy"]
    assert [many_launches.excessive(one) for one in result.comparisons] == [16_252_928, 0, 16_252_928, 0]
    assert many_launches.verdict(result.comparisons) == (
        "2 of 4 launches have excessive shared-memory wavefronts; the worst is rows<float>: 16,252,928 (degree 16.50)."
    )
    assert many_launches.worst(result.comparisons, 9) == [0, 2, 1, 3]
    assert many_launches.worst(result.comparisons, 1) == [0]


@pytest.mark.long
def test_of_the_launches_of_one_kernel_the_worst_is_shown(recorded: Recorded) -> None:
    result = laid_out(program(recorded, times=50))
    assert len(result.comparisons) == 200
    assert result.comparisons[4].title == "rows<float> #2"
    assert len(many_launches.worst(result.comparisons, 9)) == 4


def test_pairs_are_compared_one_by_one(recorded: Recorded) -> None:
    before = program(recorded)
    after = [launched(recorded("transpose-xor"), one.kernel.function, one.launch.index) for one in before]
    result = laid_out(before, after)
    assert [one.labels for one in result.comparisons] == [("run0", "run1")] * 4
    assert result.comparisons[0].verdict.startswith("run1 removes all 16,252,928 excessive wavefronts of run0")
    assert many_launches.verdict(result.comparisons).startswith("4 pairs, excessive wavefronts 32,505,856 → 0, ")
    assert result.notes == ()


def test_reports_are_called_after_their_files() -> None:
    assert many_launches.columns(["old.ncu-rep", "x/new.json"]) == ("old", "new")
    assert many_launches.columns(["a/report.ncu-rep", "b/report.ncu-rep"]) == ("before", "after")
    assert many_launches.columns(["a/x", "b/x", "c/y"]) == ("x #1", "x #2", "y")


def test_nothing_that_is_unknown_is_added_up(recorded: Recorded) -> None:
    before = program(recorded)
    after = [without(one, IDEAL, DURATION) for one in before]
    assert many_launches.verdict(laid_out(before, after).comparisons) == "4 pairs."
    assert many_launches.verdict(laid_out(after).comparisons) == "None of the 4 launches can be judged."
    assert many_launches.verdict(laid_out([*after[:1], *before[1:2]]).comparisons) == (
        "None of 2 launches has excessive shared-memory wavefronts; 1 cannot be judged."
    )


def test_saved_profiles_of_schema_1_still_load(recorded: Recorded) -> None:
    content = json.loads(recorded("kernel1").to_json())
    del content["digest"], content["launch"], content["kernel"]["mangled"]
    old = {**content, "schema": 1}
    loaded = Profile.from_json(json.dumps({**old, "digest": sha256_of_json(old)}))
    assert loaded.launch == LaunchId()
    assert loaded.grid == (64, 16, 4)
    assert loaded.total == recorded("kernel1").total
