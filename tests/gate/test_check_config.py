"""The gate's settings and options: where they are found, what wins; whatever they say is understood or refused."""

import contextlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from bench.corpus import bytewise, originals, trees
from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.gate import baseline, checking
from ncu_swizzle.gate.baseline import Policy, Rule
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.reports.options import Judging
from tests.support.places import table
from tests.support.properties import chances, examples, holds
from tests.support.refusals import refused, unlike

WHOLE = """
[tool.ncu-swizzle.check]
max-excessive = 10
max-degree = 1.5
max-regression = 3
baseline = "ci/base.json"
allow-recorded = true

[[tool.ncu-swizzle.check.rule]]
kernel = "transpose-.*"
access = "LDS"
max-excessive = 7
"""


def test_pyproject_says_it_all(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    found = checking.settings("", tmp_path / "deep" / "er")
    origin = "pyproject.toml [tool.ncu-swizzle.check]"
    assert found.rules == (
        Rule(criterion="max-excessive", limit=10, origin=origin),
        Rule(criterion="max-degree", limit=1.5, origin=origin),
        Rule(criterion="max-regression", limit=3, origin=origin),
        Rule(criterion="max-excessive", limit=7, kernel="transpose-.*", access="LDS", origin=f"{origin} rule 1"),
    )
    assert found.baseline == tmp_path / "ci" / "base.json"
    assert found.allow_recorded
    assert found.file == tmp_path / "pyproject.toml"


def test_our_own_file_goes_first_and_strangers_are_passed_by(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(WHOLE, encoding="utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    assert checking.settings("", inner).file == tmp_path / "pyproject.toml"
    (tmp_path / "ncu-swizzle.toml").write_text("[check]\nmax-degree = 2\n", encoding="utf-8")
    assert checking.settings("", inner).rules == (
        Rule(criterion="max-degree", limit=2, origin="ncu-swizzle.toml [check]"),
    )


def test_the_command_line_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncu-swizzle.toml").write_text("[check]\nmax-degree = 2\nallow-recorded = true\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = checking.policy(Judging(max_degree=("1",)), CatalogOptions(), tmp_path)
    assert [rule.limit for rule in found.rules] == [2, 1]
    assert found.limits(("k",), ())["max-degree", ""].limit == 1
    assert found.allow_recorded
    assert not checking.policy(Judging(allow_recorded=False), CatalogOptions(), tmp_path).allow_recorded
    assert checking.policy(Judging(), CatalogOptions("none"), tmp_path).rules == ()
    (tmp_path / "ncu-swizzle-baseline.json").touch()
    assert checking.policy(Judging(), CatalogOptions(), tmp_path).baseline == Path("ncu-swizzle-baseline.json")
    assert checking.policy(Judging(baseline="none"), CatalogOptions(), tmp_path).baseline is None


def test_mistakes_in_the_settings_are_told(tmp_path: Path) -> None:
    def told(text: str) -> str:
        (tmp_path / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
        return refused(checking.settings, "", tmp_path)

    mistakes = table("facts/check_settings.toml")["mistakes"]
    assert not unlike(mistakes, told)
    assert not unlike(dict.fromkeys(mistakes, r"^(UsageError|BadFile): (?s:.*)  try: ."), told)


def test_settings_that_were_asked_for_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    lacking = {"pyproject.toml": r"^BadFile: .*has no \[tool\.ncu-swizzle\]", "gone.toml": "^BadFile: .*does not exist"}
    assert not unlike(lacking, lambda name: refused(checking.settings, str(tmp_path / name), tmp_path))


def test_an_option_names_kernels_and_accesses() -> None:
    expected = {
        "0": (0, "", ""),
        "LDSM=12": (12, "", "LDSM"),
        "*=0": (0, "", "*"),
        "gemm.*:4": (4, "gemm.*", ""),
        "a::b<(?=c)>.*:STS=9007199254740993": (9007199254740993, "a::b<(?=c)>.*", "STS"),
    }
    rules = {text: baseline.parse_rule("max-excessive", text) for text in expected}
    assert {text: (rule.limit, rule.kernel, rule.access) for text, rule in rules.items()} == expected


def test_mistakes_in_an_option_are_told() -> None:
    wrong = ("", "x", "LDS=", "nan", "-1", "1.5", "1e400", "(:0", "LDS=0:")
    expected = dict.fromkeys(wrong, "--max-excessive(?s:.*)  try: .")
    assert not unlike(expected, lambda text: refused(baseline.parse_rule, "max-excessive", text))


def test_an_access_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="unknown access kind 'LDSMM', did you mean 'LDSM'"):
        baseline.check_accesses([baseline.parse_rule("max-degree", "LDSMM=1")], ["LDS"])
    baseline.check_accesses([baseline.parse_rule("max-degree", "RED=1")], ["RED"])
    with pytest.raises(UsageError, match="unknown access kind"):  # which global memory does not have
        baseline.check_accesses([baseline.parse_rule("max-sectors", "LDS=1")], ["LDS"])


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.lists(st.integers(), max_size=2)
)


@examples
def test_any_setting_is_a_rule_or_refused(examples: int) -> None:
    def check(criterion: str, limit: Any, kernel: Any, access: Any) -> None:
        with contextlib.suppress(NcuSwizzleError):
            rule = baseline.rule(criterion, limit, kernel, access, "here")
            limits = Policy(rules=(rule,)).limits(("kernel2", "void kernel2(int)"), ("LDS", "STS"))
            assert all(chosen is rule for chosen in limits.values())

    holds(examples, check, st.sampled_from(baseline.LIMITS), VALUES, VALUES, VALUES)


@examples
def test_a_baseline_with_a_hostile_value_is_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = originals.baseline_content("transpose/transpose-xor"), tmp_path / "baseline.json"
    whole = trees.written(content)
    now = baseline.entry_of([originals.profile("transpose/transpose-xor")])

    def check(damage: str, chance: Random) -> None:
        if damage in bytewise.TEXT:
            file.write_bytes(bytewise.TEXT[damage](whole, whole, chance))
        else:
            file.write_bytes(trees.written(trees.with_hostile_value(content, chance), trees.sealed_baseline))
        with contextlib.suppress(NcuSwizzleError):
            found = baseline.load(file)
            for entry in found.entries:
                assert entry.duration_ns is None or entry.duration_ns >= 0
                assert isinstance(entry.spread, float)
                assert all(count.excessive is None or count.excessive >= 0 for count in entry.accesses.values())
            if nearest := found.nearest(now):
                baseline.differences(nearest, now)
            found.with_([now]).to_json()

    holds(examples, check, st.sampled_from(["sealed", "sealed", "sealed", *bytewise.TEXT]), chances)
