"""Suppressions: what hides a finding and what does not; a hidden one stays listed and counts for nothing."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ncu_swizzle.gate import reporting, suppressions
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.suppressions import Judged, Suppressions
from ncu_swizzle.gate.verdict import Check, Outcome, Place, Verdict
from ncu_swizzle.kernels.project import project_in
from ncu_swizzle.reports.model import Profile
from tests.support.places import table
from tests.support.recordings import Recorded
from tests.support.refusals import refused, unlike

FACTS = table("facts/suppressions.toml")


def test_what_a_comment_says(tmp_path: Path) -> None:
    for suffix, texts in ((".cu", FACTS["cuda"]), (".cuh", FACTS["cuda"]), (".py", FACTS["python"])):
        file = tmp_path / f"k{suffix}"
        said = {}
        for text in texts:
            file.write_text(f"{text}\n", encoding="utf-8")
            found = suppressions.in_source(str(file))
            said[text] = [list(found[0].codes), found[0].reason, found[0].line] if found else []
        assert said == texts
    assert suppressions.in_source(str(tmp_path / "absent.cu")) == ()


def finding(codes: Sequence[str] = ("SW001",), line: int = 1, outcome: str = "fail") -> Check:
    """Return what is found in a line of k.cu, or in none."""
    return Check(
        outcome=Outcome(outcome),
        kernel="turn",
        criterion="max-degree",
        message="degree 32",
        place=Place("k.cu", line) if line else None,
        code=codes[0],
        more_codes=tuple(codes[1:]),
    )


UNKNOWN = finding(("UN001",), outcome="inconclusive")


def test_what_a_comment_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for fact in FACTS["comments"]:
        text = f"t[x] = v;  // ncu-swizzle: ignore {fact['comment']} — tested\n"
        Path("k.cu").write_text(text, encoding="utf-8")
        check = finding(**fact["finding"])
        (marked,) = Suppressions().marked([check])
        assert bool(marked.suppressions) == fact["hidden"], fact
        assert dataclasses.replace(marked, suppressions=()) == check, "nothing else changes"


def settings(folder: Path, text: str) -> Suppressions:
    (folder / "ncu-swizzle.toml").write_text(f"{text}\n", encoding="utf-8")
    return Suppressions(suppressions.in_settings(project_in(folder / "ncu-swizzle.toml")))


def test_what_an_entry_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for entry, hidden in FACTS["entries"].items():
        (marked,) = settings(tmp_path, f"[[ignore]]\n{entry}").marked([finding()])
        assert bool(marked.suppressions) == hidden, entry
    assert not unlike(FACTS["wrong"], lambda text: refused(settings, tmp_path, text))


LEFT = """t[x] = v;  // ncu-swizzle: ignore SW001, SW002 — one of them is used
f();  // ncu-swizzle: ignore SW001, SW090 — needed elsewhere
g();  // ncu-swizzle: ignore SW0001
h();  // ncu-swizzle: ignore
i();  // ncu-swizzle: ignore SW030
j();  // ncu-swizzle: ignore SW001 — not a line of what was run
"""


def test_suppressions_that_hide_nothing_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(LEFT, encoding="utf-8")
    entries = "".join(f'[[ignore]]\ncodes = ["SW004"]\nkernel = "{name}"\n' for name in ("turn", "other"))
    hiding = settings(tmp_path, entries)
    (_,) = hiding.marked([finding()])
    judged = Judged(lines=frozenset(("k.cu", n) for n in range(1, 6)), kernels=frozenset(["turn"]))
    left = list(hiding.leftover("lint", judged))
    assert [(each.code, each.place and each.place.line) for each in left] == [
        ("SW090", 1), ("SW091", 3), ("SW091", 4), ("SW090", 5), ("SW090", 0),
    ]  # fmt: skip
    assert "did you mean 'SW001'?" in left[1].message
    assert {each.outcome for each in left} == {Outcome.warning}
    unsure = list(hiding.leftover("lint", dataclasses.replace(judged, complete=False)))
    assert [each.place and each.place.line for each in unsure] == [3, 4, 5, 0], "a kernel that was not run may need it"


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """Return a verdict with a failure and an unknown that are hidden, a warning, and a check that passed."""
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text("t[x] = v;  // ncu-swizzle: ignore SW001, UN001 — <b>why\n", encoding="utf-8")
    warning = finding(("SW090",), line=3, outcome="warning")
    passed = finding(("",), line=0, outcome="pass")
    checks = [finding(), UNKNOWN, warning, passed]
    return Verdict(checks=tuple(Suppressions().marked(checks)))


def test_hidden_findings_are_listed_and_count_for_nothing(hidden: Verdict) -> None:
    assert hidden.outcome is Outcome.passed
    assert hidden.summary == "1 warning, 1 pass, 2 suppressed (1 of them not judged)"
    content = json.loads(reporting.to_json(hidden))
    assert (content["outcome"], content["suppressed"]) == ("pass", 2)
    assert [(check["outcome"], len(check["suppressions"])) for check in content["checks"]] == [
        ("fail", 1), ("inconclusive", 1), ("warning", 0), ("pass", 0),
    ]  # fmt: skip
    (run,) = json.loads(reporting.render_sarif(hidden))["runs"]
    assert [(each["ruleId"], len(each.get("suppressions", ()))) for each in run["results"]] == [
        ("SW001", 1), ("UN001", 1), ("SW090", 0),
    ]  # fmt: skip
    assert run["results"][0]["suppressions"][0]["kind"] == "inSource"
    assert run["results"][0]["suppressions"][0]["justification"] == "<b>why"
    rule = next(rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "SW001")
    assert "helpUri" not in rule, "what others cannot open is no link"
    assert rule["help"]["markdown"].startswith("# SW001: bank-conflict")
    assert [line.partition(" ")[0] for line in reporting.commands(hidden)] == ["::warning"]
    assert reporting.github_summary(hidden).count("| suppressed |") == 2
    suites = ElementTree.fromstring(reporting.render_junit(hidden).encode())
    assert (suites.get("failures"), suites.get("errors"), suites.get("skipped")) == ("0", "0", "2")
    reporting.conclude(hidden)  # raises nothing


def test_everything_hidden_passes_and_one_finding_more_does_not(hidden: Verdict) -> None:
    alone = dataclasses.replace(hidden, checks=hidden.suppressed)
    assert alone.outcome is Outcome.passed
    assert dataclasses.replace(alone, checks=(*alone.checks, finding(line=2))).outcome is Outcome.failed
    assert Verdict(checks=(finding(("SW090",), outcome="warning"),)).outcome is Outcome.inconclusive


def test_every_finding_of_check_has_a_code_and_provenance(kernel1: Profile, recorded: Recorded) -> None:
    kernels = [kernel1, recorded("transpose-plain")]
    verdict = judge(kernels, Policy())
    assert {check.kernel: (check.code, check.provenance) for check in verdict.checks} == {
        "kernel1": ("SW030", "measured"),
        "transpose-plain": ("UN022", "recorded"),
    }
