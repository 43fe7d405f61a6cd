"""The gate's judgement: limits, the baseline, noise, and what is inconclusive."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.gate import baseline, checking
from ncu_swizzle.gate.baseline import Baseline, Policy, Rule
from ncu_swizzle.gate.judge import compared, judge
from ncu_swizzle.gate.verdict import Outcome, Verdict
from ncu_swizzle.reports.model import DURATION, IDEAL, WAVEFRONTS, Profile
from tests.support.gate_profiles import HOSTILE, lasting, measured, named, scattered, unknown
from tests.support.recordings import Recorded
from tests.support.refusals import refused, unlike
from tests.support.reports import spoiled
from tests.support.shown import with_metrics

FAIL, PASS, OPEN = Outcome.failed, Outcome.passed, Outcome.inconclusive


def asking(*texts: str, **more: object) -> Policy:
    """Return the policy of options such as ``max-degree LDSM=1``."""
    rules = tuple(baseline.parse_rule(*text.split(" ", 1)) for text in texts)
    return dataclasses.replace(Policy(rules=rules), **more)  # type: ignore[arg-type]


def outcomes(verdict: Verdict) -> dict[tuple[str, str, str], Outcome]:
    return {(one.kernel, one.criterion, one.access): one.outcome for one in verdict.checks}


def against(*profiles: Profile) -> Baseline:
    return Baseline((), Path("base.json")).with_(baseline.entry_of(one) for one in baseline.grouped_launches(profiles))


def with_baseline(*texts: str, **more: object) -> Policy:
    return asking(*texts, baseline=Path("base.json"), **more)


# ---------------------------------------------------------------------------------------------- limits


def test_without_a_limit_no_kernel_may_have_excess(recorded: Recorded) -> None:
    verdict = judge([measured(recorded("kernel1")), measured(recorded("kernel2"))], Policy())
    assert outcomes(verdict) == {("kernel1", "max-excessive", ""): FAIL, ("kernel2", "max-excessive", ""): PASS}
    assert verdict.outcome is FAIL
    failed = verdict.deciding[0]
    assert (failed.actual, failed.limit) == (1_886_388_224, 0)
    assert str(failed) == "kernel1: 1,886,388,224 excessive wavefronts, at most 0 allowed"
    assert str(failed.place) == "kernels/attention/attention.cuh:89", "the call, not the asm statement in a header"


# Limits of kernel1, which has no ATOMS. What is said later, and of a kernel, wins.
LIMITS = {
    ("max-excessive 1886388224",): PASS,
    ("max-excessive 1886388223",): FAIL,
    ("max-excessive LDSM=1882718208",): PASS,
    ("max-excessive LDSM=1882718207",): FAIL,
    ("max-excessive STS=0",): FAIL,
    ("max-excessive LDS=0",): PASS,
    ("max-excessive ATOMS=0",): PASS,
    ("max-degree LDSM=8",): PASS,
    ("max-degree LDSM=7.99",): FAIL,
    ("max-degree 6.6",): PASS,
    ("max-degree 6.5",): FAIL,
    ("max-degree ATOMS=1",): PASS,
    ("max-degree kernel[1-3]:LDSM=8",): PASS,
    ("max-degree *=1", "max-degree LDSM=8", "max-degree STS=8"): PASS,
    ("max-degree LDSM=8", "max-degree LDSM=1"): FAIL,
    ("max-degree 1", "max-degree kernel1:9"): PASS,
}


def test_a_limit_is_crossed_exactly_beyond_it(recorded: Recorded) -> None:
    profiles = [measured(recorded("kernel1"))]
    assert {limits: judge(profiles, asking(*limits)).outcome for limits in LIMITS} == LIMITS
    each = outcomes(judge(profiles, asking("max-degree *=1")))
    assert {access: outcome for (_, _, access), outcome in each.items()} == {
        "LDSM": FAIL, "STS": FAIL, "LDS": PASS, "LDGSTS": PASS,
    }, "a star is each access for itself"  # fmt: skip


def test_sectors_are_judged_in_total_or_of_an_opcode(recorded: Recorded) -> None:
    profile = scattered(measured(recorded("kernel2")), 3)
    limits = {"3": PASS, "2.9": FAIL, "LDGSTS=2.9": FAIL, "STG=1": PASS}
    found = {limit: judge([profile], asking(f"max-sectors {limit}")).outcome for limit in limits}
    assert found == limits
    instructions = tuple(dataclasses.replace(each, traffic=Traffic()) for each in profile.instructions)
    without = dataclasses.replace(profile, instructions=instructions)  # from a report without the columns
    assert judge([without], asking("max-sectors 3")).outcome is OPEN


def test_how_many_digits_a_degree_has() -> None:
    """Four, unless it is within a thousandth of the limit."""
    rules = {(16, 16.0159): "16.0159", (16, 16.01599): "16.01599", (16, 16.017): "16.02", (10_000, 10_010): "10010"}
    said = {(limit, degree): compared(Rule(criterion="max-degree", limit=limit), degree)[1] for limit, degree in rules}
    assert said == {
        (limit, degree): f"degree {text}, at most {limit} allowed" for (limit, degree), text in rules.items()
    }


def test_a_kernel_is_known_by_its_function_too_and_by_its_whole_name(recorded: Recorded) -> None:
    library = measured(recorded("reference-attention"))
    assert judge([library], asking("max-degree void pytorch_flash::flash_fwd_kernel<.*:1")).outcome is PASS
    verdict = judge([measured(recorded("kernel1"))], asking("max-degree kernel:9"))
    assert outcomes(verdict) == {("kernel", "present", ""): OPEN}
    assert verdict.notes == ("No limit applies to kernel1.",)


def test_every_launch_has_to_hold(recorded: Recorded) -> None:
    clean = measured(recorded("kernel2"))
    instructions = tuple(
        dataclasses.replace(one, wavefronts=(one.wavefronts or 0) + 5) if one.access == "STS" else one
        for one in clean.instructions
    )
    more = 5 * sum(one.access == "STS" for one in clean.instructions)
    total = (clean.number(WAVEFRONTS) or 0) + more
    worse = with_metrics(dataclasses.replace(clean, instructions=instructions), {WAVEFRONTS: total})
    (check,) = judge([clean, worse, clean], Policy()).checks
    assert (check.outcome, check.actual) == (FAIL, more)


def test_only_some_kernels_can_be_judged_and_of_none_there_is_no_pass(recorded: Recorded) -> None:
    profiles = [measured(recorded("kernel1")), measured(recorded("kernel2"))]
    for only, outcome in {"kernel2": PASS, "regex:2$": PASS, "nothing": OPEN}.items():
        asked = asking("max-degree gone:1", "max-degree 1", only=KernelFilter(only))
        assert judge(profiles, asked).outcome is outcome, only


# ---------------------------------------------------------------------------------------------- inconclusive


def test_recorded_figures_do_not_count_unless_they_may(recorded: Recorded) -> None:
    for name in ("kernel1", "kernel2"):
        verdict = judge([recorded(name)], Policy(), None, "no NVIDIA driver")
        assert outcomes(verdict) == {(name, "measured", ""): OPEN}
        assert "recorded, not measured: no NVIDIA driver" in str(verdict.checks[0])
        assert "--allow-recorded" in verdict.checks[0].hint
    assert judge([recorded("kernel1")], Policy(allow_recorded=True)).outcome is FAIL
    guessed = dataclasses.replace(recorded("kernel2"), engine="guessed")
    assert judge([guessed], Policy(allow_recorded=True)).outcome is OPEN, "recorded ones may, no others"


SPOILED: dict[str, Callable[[Profile], Profile]] = {
    "no ideal": lambda profile: dataclasses.replace(
        profile, metrics={name: metric for name, metric in profile.metrics.items() if name != IDEAL}
    ),
    "no instructions": lambda profile: dataclasses.replace(profile, instructions=()),
    "one count is missing": lambda profile: spoiled(profile, "STS", wavefronts=None),
    "one ideal is missing": lambda profile: spoiled(profile, "STS", ideal=None),
    "NaN": lambda profile: with_metrics(profile, {WAVEFRONTS: math.nan}),
    "another sum": lambda profile: with_metrics(profile, {WAVEFRONTS: 1}),
}


def test_counts_that_cannot_be_trusted_neither_pass_nor_fail(recorded: Recorded) -> None:
    good, bad = measured(recorded("kernel2")), measured(recorded("kernel1"))
    for how, spoil in SPOILED.items():
        spoiled = spoil(good)
        assert judge([spoiled], Policy()).outcome is OPEN, how
        assert judge([good, spoiled], asking("max-degree 1")).outcome is OPEN, how
        verdict = judge([spoiled], with_baseline(), against(good))
        assert set(outcomes(verdict).values()) == {OPEN}, how
        assert judge([spoiled, bad], Policy()).outcome is FAIL, f"{how}: a failure elsewhere stays one"


def test_a_baseline_without_counts_is_no_standard(recorded: Recorded) -> None:
    now = measured(recorded("kernel2"))
    check = judge([now], with_baseline(), against(unknown(now))).checks[-1]
    assert (check.criterion, check.outcome, check.message) == ("baseline", OPEN, "the baseline lacks counts")


def test_a_kernel_without_shared_memory_has_no_conflicts(recorded: Recorded) -> None:
    full = measured(recorded("kernel2"))
    other = tuple(one for one in full.instructions if not one.access)
    none = with_metrics(dataclasses.replace(full, instructions=other), {WAVEFRONTS: 0, IDEAL: 0})
    assert judge([none], asking("max-excessive 0", "max-degree 1", "max-degree STS=1")).outcome is PASS


# ---------------------------------------------------------------------------------------------- the baseline


def test_more_excess_than_in_the_baseline_fails_and_less_never_does(recorded: Recorded) -> None:
    before, after = measured(recorded("kernel1")), named(measured(recorded("kernel2")), "kernel1")
    assert judge([after], with_baseline(), against(before)).outcome is PASS
    assert judge([before], with_baseline(), against(before)).outcome is PASS
    verdict = judge([before], with_baseline(), against(after))
    assert outcomes(verdict) == {("kernel1", "baseline", ""): FAIL}
    assert "LDSM has 1,882,718,208 more" in verdict.checks[0].message
    assert "--save-baseline" in verdict.checks[0].hint


# Durations now and in the baseline, and the percentage allowed: the medians decide, beyond the spread of both.
REGRESSIONS = {
    ((108.9,), (100,), 5): PASS,  # one launch each: 2 % of noise on either side
    ((109.1,), (100,), 5): FAIL,
    ((50,), (100,), 0): PASS,
    ((104, 105.4, 106), (99, 100, 100.6), 5): PASS,  # the medians
    ((100, 100.1, 100.2, 100.3, 130), (100, 100.1), 5): PASS,  # an outlier is none
    ((107, 107.1, 107.2), (99.9, 100, 100.1), 5): FAIL,  # a small spread bites sooner
    ((101, 107, 113), (90, 100, 110), 5): PASS,  # a large one later
}


def test_a_regression_counts_beyond_limit_and_noise(recorded: Recorded) -> None:
    one = measured(recorded("kernel2"))

    def outcome(now: tuple[float, ...], then: tuple[float, ...], limit: float) -> Outcome:
        known = against(*(lasting(one, 1e4 * time) for time in then))
        verdict = judge([lasting(one, 1e4 * time) for time in now], with_baseline(f"max-regression {limit}%"), known)
        return outcomes(verdict)["kernel2", "max-regression", ""]

    assert {row: outcome(*row) for row in REGRESSIONS} == REGRESSIONS
    verdict = judge([lasting(one, 3e6)], with_baseline("max-regression 5"), against(lasting(one, 2e6)))
    assert verdict.checks[-1].actual == pytest.approx(50), "percent"


def test_an_unknown_duration_is_inconclusive(recorded: Recorded) -> None:
    good, rules = measured(recorded("kernel2")), with_baseline("max-regression 5")
    for duration in (math.nan, math.inf, 0.0, -1.0, "n/a"):
        bad = lasting(good, duration)
        for now, then in (([bad], good), ([good, bad], good), ([good], bad)):
            assert outcomes(judge(now, rules, against(then))) == {
                ("kernel2", "baseline", ""): PASS,
                ("kernel2", "max-regression", ""): OPEN,
            }, duration


def test_another_machine_is_inconclusive(recorded: Recorded) -> None:
    then, rules = measured(recorded("kernel1")), with_baseline("max-regression 5")
    for field, value in (
        ("gpu", "NVIDIA H200"), ("gpu", ""), ("clock_control", "base"), ("clock_control", ""), ("ncu", "2026.1"),
    ):  # fmt: skip
        now = measured(recorded("kernel1"), **{field: value})
        other_kernels = against(measured(recorded("kernel2")), named(now, "x"))
        assert judge([now], rules, other_kernels).outcome is OPEN, (field, value)
        verdict = judge([now], rules, against(then))
        assert set(outcomes(verdict).values()) == {OPEN}, (field, value)
        assert "not comparable" in verdict.checks[0].message


def test_another_problem_is_inconclusive_and_another_compiler_is_not(recorded: Recorded) -> None:
    same = measured(recorded("kernel2"))
    other = dataclasses.replace(same, problem={**same.problem, "seq": 64})
    assert judge([other], with_baseline(), against(same)).outcome is OPEN
    assert [check.kernel for check in judge([same, other], Policy()).checks] == ["kernel2 #1", "kernel2 #2"]
    assert judge([measured(same, cuda="99", driver="99")], with_baseline(), against(same)).outcome is PASS
    foreign = dataclasses.replace(same, problem={})
    assert judge([with_metrics(foreign, {"launch__grid_dim_x": 7})], with_baseline(), against(foreign)).outcome is OPEN
    assert judge([foreign], with_baseline(), against(foreign)).outcome is PASS


def test_what_neither_side_knows_is_not_the_same(recorded: Recorded) -> None:
    for field in ("gpu", "ncu"):
        one = measured(recorded("kernel2"), **{field: ""})
        verdict = judge([one], with_baseline(), against(one))
        assert verdict.outcome is OPEN, field
        assert "unknown" in verdict.checks[0].message
    one = measured(recorded("kernel2"), clock_control="")
    assert outcomes(judge([one], with_baseline("max-regression 5"), against(one))) == {
        ("kernel2", "baseline", ""): PASS,
        ("kernel2", "max-regression", ""): OPEN,
    }, "of unknown clocks the counts alone are comparable"


def test_a_kernel_that_is_gone_or_new_is_inconclusive(recorded: Recorded) -> None:
    one, two = measured(recorded("kernel1")), measured(recorded("kernel2"))
    assert outcomes(judge([two], with_baseline(), against(one, two))) == {
        ("kernel2", "baseline", ""): PASS,
        ("kernel1", "present", ""): OPEN,
    }
    assert judge([two], with_baseline(only=KernelFilter("kernel2")), against(one, two)).outcome is PASS
    assert judge([one, two], with_baseline(), against(two)).outcome is OPEN


def test_a_recorded_baseline_needs_the_same_wish(recorded: Recorded) -> None:
    now = measured(recorded("kernel2"))
    assert judge([now], with_baseline(), against(recorded("kernel2"))).outcome is OPEN
    assert judge([now], with_baseline(allow_recorded=True), against(recorded("kernel2"))).outcome is PASS


def test_a_regression_needs_a_baseline() -> None:
    with pytest.raises(UsageError, match="needs a baseline") as told:
        baseline.check_baseline(asking("max-regression 5"))
    assert "ncu-swizzle check --save-baseline" in told.value.hint
    baseline.check_baseline(with_baseline("max-regression 5"))
    baseline.check_baseline(asking("max-degree 5"))


def test_the_same_launch_given_twice_does_not_pass_for_repeatable(recorded: Recorded) -> None:
    one = measured(recorded("kernel2"))
    twice = [one, dataclasses.replace(one, report="copy.ncu-rep")]
    assert baseline.grouped_launches(twice) == [(one,)]
    assert len(baseline.grouped_launches([one, lasting(one, 1e6)])[0]) == 2


def test_a_kernel_that_only_got_slower_points_at_its_slowest_line(recorded: Recorded) -> None:
    one = measured(recorded("kernel2"))
    verdict = judge([lasting(one, 9e9)], with_baseline("max-regression 5"), against(one))
    (failed,) = verdict.deciding
    assert failed.place is not None
    assert failed.place.file.startswith("kernels/")
    assert failed.place.line


def test_a_baseline_of_several_launches_is_unknown_if_one_of_them_is(recorded: Recorded) -> None:
    worst = recorded("kernel1")
    assert baseline.entry_of([worst, unknown(worst)]).excessive is None
    assert baseline.entry_of([unknown(worst), worst]).excessive is None


# ---------------------------------------------------------------------------------------------- its file


def test_a_baseline_comes_back_equal_whatever_a_kernel_is_called(tmp_path: Path, recorded: Recorded) -> None:
    file = tmp_path / "base.json"
    profiles = [measured(recorded(name)) for name in ("kernel2", "kernel1", "reference-attention")]
    profiles += [lasting(profiles[0], 2e6), named(profiles[0], HOSTILE)]
    saved = checking.save(profiles, file)
    assert baseline.load(file) == saved
    assert [one.kernel for one in saved.entries] == [HOSTILE, "kernel1", "kernel2", "reference-attention"]
    assert len(saved.entries[2].durations_ns) == 2
    assert file.stat().st_size < 10_000
    first = file.read_bytes()
    assert json.loads(first)["kernels"][0]["kernel"] == HOSTILE
    assert DURATION.encode() not in first
    checking.save(profiles, file)
    assert file.read_bytes() == first


def test_saving_keeps_other_kernels(tmp_path: Path, recorded: Recorded) -> None:
    file = tmp_path / "base.json"
    one, two = measured(recorded("kernel1")), measured(recorded("kernel2"))
    checking.save([one], file)
    both = checking.save([two], file)
    assert [entry.kernel for entry in both.entries] == ["kernel1", "kernel2"]
    again = checking.save([lasting(two, 5.0)], file)
    assert [entry.duration_ns for entry in again.entries] == [both.entries[0].duration_ns, 5.0]


def test_a_profile_without_counts_is_not_saved(tmp_path: Path, recorded: Recorded) -> None:
    full = measured(recorded("kernel2"))
    poor = dataclasses.replace(full, instructions=tuple(dataclasses.replace(i, ideal=None) for i in full.instructions))
    with pytest.raises(NotComparable, match="no counts"):
        checking.save([poor], tmp_path / "base.json")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_damaged_or_is_not_a_baseline_is_told(tmp_path: Path, recorded: Recorded) -> None:
    file = tmp_path / "base.json"
    checking.save([measured(recorded("kernel2"))], file)
    text = file.read_text(encoding="utf-8")
    recorded("kernel2").save(tmp_path / "profile.json")
    damaged = {
        text[:-20]: "^DamagedFile: .*is damaged",
        text.replace('"ideal": 524288', '"ideal": 524287'): "^DamagedFile: .*was changed after it was written",
        text.replace('"digest"', '"other"'): "^DamagedFile: .*damaged",
        text.replace('"schema": 1', '"schema": 9'): "^BadFile: .*schema 9",
        "[" * 100_000: "^DamagedFile: .*is damaged",
        "[]": "^BadFile: .*is not a baseline",
        (tmp_path / "profile.json").read_text(encoding="utf-8"): "^BadFile: .*is not a baseline",
        '{"schema": 1, "kernels": 3}': "^DamagedFile: .*damaged",
        '{"schema": 1, "kernels": [3]}': "^DamagedFile: .*damaged",
        "\udcff": "^DamagedFile: .*is damaged",
    }

    def told(content: str) -> str:
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
        return refused(baseline.load, file)

    assert not unlike(damaged, told)
    lacking = {tmp_path / "no.json": "^BadFile: .*does not exist", tmp_path: "^BadFile: .*is a folder"}
    assert not unlike(lacking, lambda path: refused(baseline.load, path))
