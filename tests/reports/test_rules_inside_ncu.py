"""The rule pack as ncu runs it: each rule is a file, which reads from an action what we read from a profile."""

import ast
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ncu_report
import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.reports import pack
from tests.support.recordings import Recorded

facts, rules = (pack.pack(name) for name in ("facts", "rules"))
Recording = Callable[[str], Path]
PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"


def action_of(report: Path) -> Any:
    return ncu_report.load_report(str(report)).range_by_idx(0).action_by_idx(0)


@pytest.mark.long
@pytest.mark.parametrize("name", ["kernel1", "cute-columns-half", "tma-none", "reference-gemm"])
def test_an_action_and_a_profile_say_the_same(name: str, recorded: Recorded, recorded_file: Recording) -> None:
    """But for the folders of files: a profile's are below the sources' root."""

    def plain(finding: Any) -> Any:
        markers = sorted((replace(one, file=Path(one.file).name) for one in finding.markers), key=str)
        tables = re.sub(r"@source:(?:[^@]*/)?([^/@]*)@", r"\1", str([table.rows for table in finding.tables]))
        return replace(finding, markers=tuple(markers), tables=tables)

    action = action_of(recorded_file(name))
    from_action = rules.decide_all(facts.Facts(facts.numbers(action), facts.instructions(action)))
    assert [plain(one) for one in from_action] == [plain(one) for one in pack.findings(recorded(name))]


class Frontend:
    """Takes down what a rule tells ncu, by the function that it calls; it lacks or refuses some."""

    def __init__(self, lacks: str = "", refuses: Collection[str] = ()) -> None:
        self.lacks, self.refuses = lacks, refuses
        self.told: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)

    def __getattr__(self, function: str) -> Callable[..., int]:
        if function == self.lacks:
            raise AttributeError(function)

        def call(*told: Any) -> int:
            if function in self.refuses:
                raise ValueError(function)
            self.told[function].append(told)
            return len(self.told[function]) - 1

        return call


def run_inside(
    monkeypatch: pytest.MonkeyPatch, action: Any, rule: str, old: bool = False, refuses: Collection[str] = ()
) -> dict[str, list[tuple[Any, ...]]]:
    """Run a rule's file with a stand-in for NvRules, with the names of old versions or of new ones."""
    frontend = Frontend("generate_table" if old else "", refuses)
    context = SimpleNamespace(
        frontend=lambda: frontend, range_by_idx=lambda _: SimpleNamespace(action_by_idx=lambda _: action)
    )
    names: dict[str, Any] = {"Severity_SEVERITY_LOW": 1, "Severity_SEVERITY_HIGH": 2, "SpeedupType_GLOBAL": 2}
    api: dict[str, Any] = {"get_context": lambda handle: context}
    if old:
        names |= {"MsgType_MSG_OK": 1, "MsgType_MSG_OPTIMIZATION": 2, "MsgType_MSG_WARNING": 3}
        names |= {"MarkerKind_SASS": 1, "MarkerKind_SOURCE": 2}
    else:
        api["MsgType"] = SimpleNamespace(OK=1, OPTIMIZATION=2, WARNING=3)
        api["MarkerKind"] = SimpleNamespace(SASS=1, SOURCE=2)
    monkeypatch.setitem(sys.modules, "NvRules", SimpleNamespace(**api, IFrontend=SimpleNamespace(**names)))
    loaded(rule).apply(object())
    return frontend.told


def loaded(rule: str) -> Any:
    """Return a rule's file as ncu loads it."""
    pack.pack("frontend")
    spec = importlib.util.spec_from_file_location(f"rules_{rule}", paths.rules() / f"{rule}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_rule_tells_old_and_new_versions_of_ncu_everything(
    recorded_file: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = action_of(recorded_file("kernel1"))
    for old in (False, True):
        excess = run_inside(monkeypatch, action, "SharedExcess", old)
        assert [kind for kind, _, _ in excess["message"]] == [2]
        assert facts.WAVEFRONTS in [metric for _, metric, *_ in excess["focus_metric"]]
        assert {type(value) for _, _, value, *_ in excess["focus_metric"]} == {float}
        assert len([marker for marker in excess["source_marker"] if marker[2] == 1]) == 100, "on SASS"
        assert {Path(m[3]).name for m in excess["source_marker"] if m[2] == 2} == {"ptx.cuh", "attention.cuh"}
        assert len(excess["generate_table"]) == (0 if old else 3)
        ((_, kind, saving, *_),) = run_inside(monkeypatch, action, "ConflictCost", old)["speedup"]
        assert kind == 2
        assert 70 < saving < 90
    refusing = run_inside(monkeypatch, action, "SharedExcess", refuses=("focus_metric", "source_marker"))
    assert [len(refusing[name]) for name in ("message", "generate_table")] == [1, 3], "what it takes it is told"


def test_the_counts_rule_is_silent_where_the_others_speak(
    recorded_file: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = action_of(recorded_file("kernel1"))
    assert run_inside(monkeypatch, action, "SharedCounts")["message"] == []
    counts = SimpleNamespace(
        metric_names=lambda: [name for name in action.metric_names() if name != PIPE],
        **{name: getattr(action, name) for name in ("name", "metric_by_name", "sass_by_pc", "source_info")},
    )
    titles = [title for _, _, title in run_inside(monkeypatch, counts, "SharedCounts")["message"]]
    assert titles == ["Excessive Shared Wavefronts (SW040)", "Swizzle Advice (SW042)"]


def test_an_action_that_cannot_be_read_is_an_incomplete_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SimpleNamespace(name=lambda: "k", metric_names=lambda: 1 / 0)
    ((_, _, title),) = run_inside(monkeypatch, broken, "SharedExcess")["message"]
    assert title == "Not Collected (UN020)"
    assert run_inside(monkeypatch, broken, "ConflictCost")["message"] == []


def test_the_pack_needs_nothing_but_python_and_each_rule_is_a_file_of_a_section() -> None:
    known = sys.stdlib_module_names | {"swizzle_pack", "NvRules"}
    for file in paths.rules().rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= known, file
    sections = {file.stem: file.read_text(encoding="utf-8") for file in paths.rules().glob("*.section")}
    for file in paths.rules().glob("*.py"):
        rule = loaded(file.stem)
        assert rule.get_identifier() == file.stem
        assert rule.get_section_identifier() in sections
        assert rule.get_description().endswith(".")
    for section, text in sections.items():
        assert f'Identifier: "{section}"' in text
