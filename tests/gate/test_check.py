"""The gate's judgement: limits, the baseline, noise, what is inconclusive; and its verdict for other programs."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.gate import baseline, checking, reporting, verdict
from ncu_swizzle.gate.baseline import Baseline, Policy, Rule
from ncu_swizzle.gate.judge import judge, within_limit
from ncu_swizzle.gate.verdict import Outcome, Place, Verdict
from ncu_swizzle.reports.model import DURATION, IDEAL, WAVEFRONTS, Profile
from tests.support.gate_profiles import HOSTILE, lasting, measured, named, scattered, unknown, verdict_on
from tests.support.places import table
from tests.support.recordings import Recorded
from tests.support.refusals import refused, unlike
from tests.support.reports import spoiled
from tests.support.schemas import SARIF_SCHEMA, complaints
from tests.support.shown import with_metrics

FAIL, PASS, OPEN = Outcome.failed, Outcome.passed, Outcome.inconclusive
FACTS = table("facts/limits.toml")


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


def test_without_a_limit_no_kernel_may_have_excess(kernel1: Profile, kernel2: Profile) -> None:
    verdict = judge([kernel1, kernel2], Policy())
    assert outcomes(verdict) == {("kernel1", "max-excessive", ""): FAIL, ("kernel2", "max-excessive", ""): PASS}
    assert verdict.outcome is FAIL
    failed = verdict.deciding[0]
    assert (failed.actual, failed.limit) == (1_886_388_224, 0)
    assert str(failed) == "kernel1: 1,886,388,224 excessive wavefronts, at most 0 allowed"
    assert str(failed.place) == "kernels/attention/attention.cuh:89", "the call, not the asm statement in a header"


def test_a_limit_is_crossed_exactly_beyond_it(kernel1: Profile) -> None:
    found = {limits: judge([kernel1], asking(*limits.split(", "))).outcome.value for limits in FACTS["limits"]}
    assert found == FACTS["limits"]
    each = outcomes(judge([kernel1], asking("max-degree *=1")))
    assert {access: outcome for (_, _, access), outcome in each.items()} == {
        "LDSM": FAIL, "STS": FAIL, "LDS": PASS, "LDGSTS": PASS,
    }, "a star is each access for itself"  # fmt: skip


def test_sectors_are_judged_in_total_or_of_an_opcode(kernel2: Profile) -> None:
    profile = scattered(kernel2, 3)
    limits = {"3": PASS, "2.9": FAIL, "LDGSTS=2.9": FAIL, "STG=1": PASS}
    found = {limit: judge([profile], asking(f"max-sectors {limit}")).outcome for limit in limits}
    assert found == limits
    instructions = tuple(dataclasses.replace(each, traffic=Traffic()) for each in profile.instructions)
    without = dataclasses.replace(profile, instructions=instructions)  # from a report without the columns
    assert judge([without], asking("max-sectors 3")).outcome is OPEN


def test_how_many_digits_a_degree_has() -> None:
    """Four, unless it is within a thousandth of the limit."""
    rules = {(16, 16.0159): "16.0159", (16, 16.01599): "16.01599", (16, 16.017): "16.02", (10_000, 10_010): "10010"}
    said = {
        (limit, degree): within_limit(Rule(criterion="max-degree", limit=limit), degree)[1] for limit, degree in rules
    }
    assert said == {
        (limit, degree): f"degree {text}, at most {limit} allowed" for (limit, degree), text in rules.items()
    }


@pytest.mark.long
def test_a_kernel_is_known_by_its_function_too_and_by_its_whole_name(kernel1: Profile, recorded: Recorded) -> None:
    library = measured(recorded("reference-attention"))
    assert judge([library], asking("max-degree void pytorch_flash::flash_fwd_kernel<.*:1")).outcome is PASS
    verdict = judge([kernel1], asking("max-degree kernel:9"))
    assert outcomes(verdict) == {("kernel", "present", ""): OPEN}
    assert verdict.notes == ("No limit applies to kernel1.",)


def test_every_launch_has_to_hold(kernel2: Profile) -> None:
    worse = tuple(
        dataclasses.replace(each, wavefronts=(each.wavefronts or 0) + 5) if each.access == "STS" else each
        for each in kernel2.instructions
    )
    more = 5 * sum(each.access == "STS" for each in worse)
    second = with_metrics(
        dataclasses.replace(kernel2, instructions=worse), {WAVEFRONTS: (kernel2.number(WAVEFRONTS) or 0) + more}
    )
    (check,) = judge([kernel2, second, kernel2], Policy()).checks
    assert (check.outcome, check.actual) == (FAIL, more)


def test_only_some_kernels_can_be_judged_and_of_none_there_is_no_pass(kernel1: Profile, kernel2: Profile) -> None:
    for only, outcome in {"kernel2": PASS, "regex:2$": PASS, "nothing": OPEN}.items():
        asked = asking("max-degree gone:1", "max-degree 1", only=KernelFilter(only))
        assert judge([kernel1, kernel2], asked).outcome is outcome, only


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


def test_counts_that_cannot_be_trusted_neither_pass_nor_fail(kernel1: Profile, kernel2: Profile) -> None:
    for how, spoil in SPOILED.items():
        spoiled = spoil(kernel2)
        assert judge([spoiled], Policy()).outcome is OPEN, how
        assert judge([kernel2, spoiled], asking("max-degree 1")).outcome is OPEN, how
        verdict = judge([spoiled], with_baseline(), against(kernel2))
        assert set(outcomes(verdict).values()) == {OPEN}, how
        assert judge([spoiled, kernel1], Policy()).outcome is FAIL, f"{how}: a failure elsewhere stays one"


def test_a_kernel_without_shared_memory_has_no_conflicts(kernel2: Profile) -> None:
    other = tuple(each for each in kernel2.instructions if not each.access)
    none = with_metrics(dataclasses.replace(kernel2, instructions=other), {WAVEFRONTS: 0, IDEAL: 0})
    assert judge([none], asking("max-excessive 0", "max-degree 1", "max-degree STS=1")).outcome is PASS


# ---------------------------------------------------------------------------------------------- the baseline


def test_more_excess_than_in_the_baseline_fails_and_less_never_does(kernel1: Profile, kernel2: Profile) -> None:
    after = named(kernel2, "kernel1")
    for now, then in ((after, kernel1), (kernel1, kernel1), (after, after)):
        verdict = judge([now], with_baseline(), against(then))
        assert (verdict.outcome, " more" in verdict.checks[0].message) == (PASS, False)
    verdict = judge([kernel1], with_baseline(), against(after))
    assert outcomes(verdict) == {("kernel1", "baseline", ""): FAIL}
    assert "LDSM has 1,882,718,208 more" in verdict.checks[0].message
    assert "--save-baseline" in verdict.checks[0].hint


def test_a_regression_counts_beyond_limit_and_noise(kernel2: Profile) -> None:
    for fact in FACTS["regressions"]:
        now, then = ([lasting(kernel2, 1e4 * time) for time in fact[when]] for when in ("now", "then"))
        verdict = judge(now, with_baseline(f"max-regression {fact['allowed']}%"), against(*then))
        assert outcomes(verdict)["kernel2", "max-regression", ""].value == fact["outcome"], fact
    verdict = judge([lasting(kernel2, 3e6)], with_baseline("max-regression 5"), against(lasting(kernel2, 2e6)))
    assert verdict.checks[-1].actual == pytest.approx(50), "percent"


TIMED = {("kernel2", "baseline", ""): PASS, ("kernel2", "max-regression", ""): OPEN}


def test_an_unknown_duration_is_inconclusive(kernel2: Profile) -> None:
    rules = with_baseline("max-regression 5")
    for duration in (math.nan, math.inf, 0.0, -1.0, "n/a"):
        bad = lasting(kernel2, duration)
        for now, then in (([bad], kernel2), ([kernel2, bad], kernel2), ([kernel2], bad)):
            assert outcomes(judge(now, rules, against(then))) == TIMED, duration
    unclocked = measured(kernel2, clock_control="")
    assert outcomes(judge([unclocked], rules, against(unclocked))) == TIMED, "the counts alone are comparable"


def test_another_machine_is_inconclusive(kernel1: Profile, kernel2: Profile) -> None:
    rules = with_baseline("max-regression 5")
    for field, value in (
        ("gpu", "NVIDIA H200"), ("gpu", ""), ("clock_control", "base"), ("clock_control", ""), ("ncu", "2026.1"),
    ):  # fmt: skip
        now = measured(kernel1, **{field: value})
        assert judge([now], rules, against(kernel2, named(now, "x"))).outcome is OPEN, (field, value)
        verdict = judge([now], rules, against(kernel1))
        assert set(outcomes(verdict).values()) == {OPEN}, (field, value)
        assert "not comparable" in verdict.checks[0].message


def test_what_is_compared_with_a_baseline(kernel2: Profile, recorded: Recorded) -> None:
    sized = dataclasses.replace(kernel2, problem={**kernel2.problem, "seq": 64})
    foreign = dataclasses.replace(kernel2, problem={})
    elsewhere = with_metrics(foreign, {"launch__grid_dim_x": 7})
    nowhere, unversioned = measured(kernel2, gpu=""), measured(kernel2, ncu="")
    rows: list[tuple[str, Profile, Profile, Policy, Outcome]] = [
        ("another size", sized, kernel2, with_baseline(), OPEN),
        ("another compiler", measured(kernel2, cuda="99", driver="99"), kernel2, with_baseline(), PASS),
        ("another grid", elsewhere, foreign, with_baseline(), OPEN),
        ("no size on either side", foreign, foreign, with_baseline(), PASS),
        ("a GPU that neither knows", nowhere, nowhere, with_baseline(), OPEN),
        ("a version that neither knows", unversioned, unversioned, with_baseline(), OPEN),
        ("counts that the baseline lacks", kernel2, unknown(kernel2), with_baseline(), OPEN),
        ("a recorded baseline", kernel2, recorded("kernel2"), with_baseline(), OPEN),
        ("one that may be", kernel2, recorded("kernel2"), with_baseline(allow_recorded=True), PASS),
    ]
    for what, now, then, policy, outcome in rows:
        assert judge([now], policy, against(then)).outcome is outcome, what
    assert [check.kernel for check in judge([kernel2, sized], Policy()).checks] == ["kernel2 #1", "kernel2 #2"]


def test_a_kernel_that_is_gone_or_new_is_inconclusive(kernel1: Profile, kernel2: Profile) -> None:
    both = against(kernel1, kernel2)
    assert outcomes(judge([kernel2], with_baseline(), both)) == {
        ("kernel2", "baseline", ""): PASS,
        ("kernel1", "present", ""): OPEN,
    }
    assert judge([kernel2], with_baseline(only=KernelFilter("kernel2")), both).outcome is PASS
    assert judge([kernel1, kernel2], with_baseline(), against(kernel2)).outcome is OPEN


def test_a_regression_needs_a_baseline() -> None:
    with pytest.raises(UsageError, match="needs a baseline") as told:
        baseline.check_baseline(asking("max-regression 5"))
    assert "ncu-swizzle check --save-baseline" in told.value.hint
    baseline.check_baseline(with_baseline("max-regression 5"))
    baseline.check_baseline(asking("max-degree 5"))


def test_the_same_launch_given_twice_does_not_pass_for_repeatable(kernel2: Profile) -> None:
    copy = dataclasses.replace(kernel2, report="copy.ncu-rep")
    assert baseline.grouped_launches([kernel2, copy]) == [(kernel2,)]
    assert len(baseline.grouped_launches([kernel2, lasting(kernel2, 1e6)])[0]) == 2


def test_a_kernel_that_only_got_slower_points_at_its_slowest_line(kernel2: Profile) -> None:
    verdict = judge([lasting(kernel2, 9e9)], with_baseline("max-regression 5"), against(kernel2))
    (failed,) = verdict.deciding
    assert failed.place is not None
    assert (failed.place.file[:8], bool(failed.place.line)) == ("kernels/", True)


def test_a_baseline_of_several_launches_is_unknown_if_one_of_them_is(kernel1: Profile) -> None:
    assert baseline.entry_of([kernel1, unknown(kernel1)]).excessive is None
    assert baseline.entry_of([unknown(kernel1), kernel1]).excessive is None


# ---------------------------------------------------------------------------------------------- its file


@pytest.mark.long
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


def test_saving_keeps_other_kernels(kernel1: Profile, kernel2: Profile, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    checking.save([kernel1], file)
    both = checking.save([kernel2], file)
    assert [entry.kernel for entry in both.entries] == ["kernel1", "kernel2"]
    again = checking.save([lasting(kernel2, 5.0)], file)
    assert [entry.duration_ns for entry in again.entries] == [both.entries[0].duration_ns, 5.0]


def test_a_profile_without_counts_is_not_saved(kernel2: Profile, tmp_path: Path) -> None:
    lacking = tuple(dataclasses.replace(each, ideal=None) for each in kernel2.instructions)
    poor = dataclasses.replace(kernel2, instructions=lacking)
    with pytest.raises(NotComparable, match="no counts"):
        checking.save([poor], tmp_path / "base.json")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_damaged_or_is_not_a_baseline_is_told(
    kernel2: Profile, tmp_path: Path, recorded: Recorded
) -> None:
    file = tmp_path / "base.json"
    checking.save([kernel2], file)
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


ANYTHING = st.text(st.characters(), max_size=30) | st.just(HOSTILE)


# ---------------------------------------------------------------------------------------------- JUnit


def test_junit_has_a_suite_per_kernel(three: Verdict) -> None:
    root = ElementTree.fromstring(reporting.render_junit(three))
    assert root.attrib == {"name": "ncu-swizzle check", "tests": "3", "failures": "1", "errors": "1"}
    suites = {suite.attrib["name"]: suite for suite in root}
    assert list(suites) == ["kernel1", "kernel2", "transpose-plain"]
    (case,) = suites["kernel1"]
    assert case.attrib == {
        "classname": "kernel1",
        "name": "max-excessive",
        "file": "kernels/attention/attention.cuh",
        "line": "89",
    }
    assert [(child.tag, child.attrib["type"]) for child in case] == [("failure", "max-excessive")]
    assert [child.tag for child in suites["kernel2"][0]] == ["system-out"]
    assert [child.tag for child in suites["transpose-plain"][0]] == ["error"], "inconclusive is never a pass"


@given(ANYTHING)
def test_junit_is_xml_whatever_a_kernel_is_called(text: str) -> None:
    root = ElementTree.fromstring(reporting.render_junit(verdict_on(text)).encode())
    assert {element.tag for element in root.iter()} <= {
        *("testsuites", "testsuite", "testcase", "failure", "error", "system-out")
    }
    assert len(root[0]) == 15


# ---------------------------------------------------------------------------------------------- SARIF


def test_sarif_points_at_the_source_line(three: Verdict) -> None:
    (run,) = json.loads(reporting.render_sarif(three))["runs"]
    failed, open_ = run["results"]
    place = failed["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "kernels/attention/attention.cuh", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 89}
    assert (failed["kind"], failed["level"], failed["ruleId"]) == ("fail", "error", "SW030")
    assert (open_["kind"], open_["level"], open_["ruleId"]) == ("open", "none", "UN022")
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])


def test_sarif_is_valid_against_its_schema(three: Verdict, tmp_path: Path) -> None:
    good = {"three": three, "none": Verdict(checks=()), "hostile": verdict_on(HOSTILE, "\ud800", "")}
    for name, judged in good.items():
        (tmp_path / f"{name}.json").write_text(reporting.render_sarif(judged), encoding="utf-8")
    schema = ("--regex-variant", "python", "--schemafile", str(SARIF_SCHEMA))
    assert complaints(*schema, *(str(tmp_path / f"{name}.json") for name in good)) == ""


@example("/tmp/k.cu")  # a place outside of the checkout
@given(ANYTHING)
def test_sarif_holds_no_link_and_no_control_character(text: str) -> None:
    (run,) = json.loads(reporting.render_sarif(verdict_on(text)))["runs"]
    told = run["results"] + run["invocations"][0]["toolExecutionNotifications"]
    assert len(told) == 12
    for one in told:
        message = one["message"]["text"]
        assert not re.search(r"(?<!\\)(\\\\)*\[", message), "an unescaped bracket starts a link"
        assert "\n" not in message
    for one in run["results"]:
        uri = one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[\w.~/%:-]*", uri, re.ASCII)
        assert unquote(uri).removeprefix("file://") == (text or "x").encode("utf-8", "replace").decode()


def test_a_finding_keeps_its_fingerprint(recorded: Recorded) -> None:
    def prints(*kernels: str) -> list[Any]:
        log = json.loads(reporting.render_sarif(judge([measured(recorded(name)) for name in kernels], Policy())))
        return [one["partialFingerprints"] for one in log["runs"][0]["results"]]

    first, second = prints("kernel1", "transpose-plain")
    assert first != second
    assert prints("transpose-plain") == [second]


# ---------------------------------------------------------------------------------------------- GitHub


def decoded(text: str) -> str:
    for escape, meant in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, meant)
    return text


def test_github_annotates_what_did_not_pass(three: Verdict) -> None:
    error, warning = reporting.commands(three)
    assert error == (
        "::error file=kernels/attention/attention.cuh,line=89,title=SW030 kernel1%3A max-excessive::"
        "kernel1: 1,886,388,224 excessive wavefronts, at most 0 allowed."
    )
    assert warning.startswith("::warning file=")
    assert "recorded, not measured" in warning


@given(ANYTHING)
def test_a_name_cannot_start_another_command(text: str) -> None:
    verdict = verdict_on(text)
    commands = reporting.commands(verdict)
    told = [check for outcome in reporting.LEVELS for check in verdict.checks if check.outcome is outcome]
    assert len(commands) == 12
    for command, check in zip(commands, told, strict=True):
        assert len(command.splitlines()) == 1
        found = re.fullmatch(r"::(error|warning) ((?:(?:file|line|title)=[^:,]*,?)+)::(.*)", command)
        assert found, command
        assert decoded(found[3]) == one_line(f"{check}.")


@given(ANYTHING)
def test_the_summary_shows_a_name_as_text(text: str) -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(reporting.github_summary(verdict_on(text)))
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special"}, "no link, no code, no HTML, no emphasis"
    assert sum(token.type == "tr_open" for token in tokens) == 16, "a row per check, and the head"
    assert sum(token.type == "td_open" for token in tokens) == 75


# ---------------------------------------------------------------------------------------------- JSON, places


def test_json_is_all_that_is_known(three: Verdict) -> None:
    found = json.loads(reporting.to_json(three))
    assert (found["schema"], found["outcome"], len(found["checks"])) == (1, "fail", 3)
    first = found["checks"][0]
    assert (first["kernel"], first["actual"], first["limit"]) == ("kernel1", 1_886_388_224, 0)
    assert first["place"] == {"file": "kernels/attention/attention.cuh", "line": 89}


@pytest.mark.long
def test_a_conflict_is_blamed_on_its_own_access(kernel1: Profile, recorded: Recorded) -> None:
    kernel = kernel1
    source = kernel.sources["kernels/attention/attention.cuh"].splitlines()
    assert "ldmatrix" in source[verdict.worst(kernel, "LDSM").line - 1]
    assert verdict.worst(kernel, "LDSM") != verdict.worst(kernel, "STS")
    assert verdict.worst(recorded("reference-attention")) == Place("reference-attention.ncu-rep"), "no line is known"


def test_places_are_found_in_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "k.cu").touch()
    for foreign in ("/home/ci/work/repo/src/k.cu", "src/k.cu", "repo/src/k.cu"):
        assert verdict.in_checkout(foreign, tmp_path) == "src/k.cu"
    for elsewhere in ("/opt/cutlass/k.h", "../src/k.cu", "src", ""):
        assert verdict.in_checkout(elsewhere, tmp_path) == elsewhere
