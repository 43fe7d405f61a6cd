"""The verdict for other programs: JUnit, SARIF, GitHub, JSON; with names that try to break out of each."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ncu_swizzle.base.texts import one_line
from ncu_swizzle.gate import reporting, verdict
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.verdict import Place, Verdict
from ncu_swizzle.reports.model import Profile
from tests.support.gate_profiles import HOSTILE, measured, verdict_on
from tests.support.recordings import Recorded
from tests.support.schemas import SARIF_SCHEMA, complaints

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
    for unknown in ("/opt/cutlass/k.h", "../src/k.cu", "src", ""):
        assert verdict.in_checkout(unknown, tmp_path) == unknown
