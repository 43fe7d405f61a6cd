"""Figures that cannot be: never judged, always told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ncu_swizzle.gate import baseline, judge
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.verdict import Outcome
from ncu_swizzle.reports import sanity
from ncu_swizzle.reports.comparison import SHARED_PIPE, compare
from ncu_swizzle.reports.model import DURATION, IDEAL, WAVEFRONTS, Finding, Metric, Profile
from tests.support.gate_profiles import measured
from tests.support.recordings import Recorded


def metric(profile: Profile, name: str, value: float) -> Profile:
    return dataclasses.replace(profile, metrics={**profile.metrics, name: Metric(value)})


def counted(profile: Profile, **counts: int) -> Profile:
    """Return the profile with other counts of its first LDSM."""
    number = next(n for n, one in enumerate(profile.instructions) if one.access == "LDSM")
    changed = list(profile.instructions)
    changed[number] = dataclasses.replace(changed[number], **counts)
    return dataclasses.replace(profile, instructions=tuple(changed))


ABSURD: list[tuple[Callable[[Profile], Profile], str]] = [
    (lambda p: metric(p, SHARED_PIPE, 250.0), "is 250.0 %"),
    (lambda p: metric(p, SHARED_PIPE, -3.0), "is -3.0 %"),
    (lambda p: metric(p, WAVEFRONTS, -5), f"{WAVEFRONTS} is -5"),
    (lambda p: metric(p, IDEAL, 1 << 63), f"{IDEAL} is 9,223,372"),
    (lambda p: metric(p, WAVEFRONTS, float("nan")), f"{WAVEFRONTS} is nan"),
    (lambda p: counted(p, wavefronts=1), "has 1 wavefronts, fewer than"),
    (lambda p: counted(p, executed=0), "was never executed"),
    (lambda p: counted(p, ideal=-1), "has -1 ideal wavefronts"),
    (lambda p: counted(p, wavefronts=1 << 63), "wavefronts: its counts"),
]


@pytest.mark.parametrize(("change", "said"), ABSURD)
def test_absurd_counts_are_told_and_never_judged(
    change: Callable[[Profile], Profile], said: str, recorded: Recorded
) -> None:
    profile = change(measured(recorded("kernel2")))
    assert any(said in doubt for doubt in sanity.doubts(profile)), sanity.doubts(profile)
    warnings = compare([profile]).warnings
    assert any(warning.startswith("kernel2: ") and said in warning for warning in warnings)
    rules = Policy(rules=(baseline.parse_rule("max-excessive", "0"), baseline.parse_rule("max-degree", "LDSM=1")))
    verdict = judge.judge([profile], rules)
    assert {check.outcome for check in verdict.checks} == {Outcome.inconclusive}


def test_doubts_about_one_access_do_not_touch_another(recorded: Recorded) -> None:
    profile = counted(measured(recorded("kernel2")), executed=0)
    assert sanity.about_counts(profile, "STS") == ""
    assert sanity.about_counts(profile, "LDSM")


@pytest.mark.parametrize("duration", [0.0, -7.0])
def test_a_time_that_cannot_be_is_told(duration: float, recorded: Recorded) -> None:
    profile = metric(recorded("kernel2"), DURATION, duration)
    assert sanity.about_time(profile)
    assert any(DURATION in doubt for doubt in sanity.doubts(profile))


def test_a_kernel_without_lines_is_named_but_for_a_library_s(recorded: Recorded) -> None:
    def bare(profile: Profile, **changes: Any) -> Profile:
        instructions = tuple(dataclasses.replace(one, stack=()) for one in profile.instructions)
        return dataclasses.replace(profile, instructions=instructions, **changes)

    assert sanity.doubts(bare(recorded("kernel2"))) == ["no instruction has a source line: compile with -lineinfo"]
    assert sanity.about_counts(bare(recorded("kernel2"))) == "", "its counts are as good as any"
    assert sanity.doubts(bare(recorded("kernel2"), sources={})) == []


def test_what_ncu_warned_of_is_a_doubt(recorded: Recorded) -> None:
    note = Finding(
        rule=sanity.NOTE, kind="warning", title=sanity.TITLE, message="ncu could not read 3 metrics: a, b, c."
    )
    profile = dataclasses.replace(recorded("kernel2"), findings=(note,))
    assert compare([profile]).warnings == ("kernel2: ncu could not read 3 metrics: a, b, c.",)


@pytest.mark.parametrize("name", ["kernel1", "kernel2", "tma-128", "reference-attention"])
def test_what_was_really_measured_raises_none(name: str, recorded: Recorded) -> None:
    assert sanity.doubts(recorded(name)) == []
