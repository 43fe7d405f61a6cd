"""The rule pack's decisions, on recorded launches and on made-up ones."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ncu_report
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.base import paths
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.model import Profile
from tests.support.places import ROOT
from tests.support.recordings import Recorded

facts, rules, shapes = (pack.pack(name) for name in ("facts", "rules", "shapes"))


KERNELS = [kernel.name for _, kernel in catalog.shipped()]
WORDED = ("gemm-half-swizzled", "tma-none", "transpose-plain", "transpose-xor")  # record them again to reword the rules
PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
ALARMS = ("optimization", "warning")


def said(profile: Profile) -> dict[str, Any]:
    return {finding.rule: finding for finding in pack.findings(profile)}


def access(sass: str = "LDS R1, [R2]", pc: int = 16, **counts: int) -> Any:
    known = {"executed": 10, "wavefronts": 320, "ideal": 10, **counts}
    return facts.Instruction(**known, pc=pc, sass=sass, access=facts.access(sass, 1), file="/src/a.cu", line=7)


def launch(*instructions: Any, **metrics: float) -> Any:
    totals = facts.added(instructions)
    numbers = {facts.WAVEFRONTS: totals.wavefronts, facts.IDEAL: totals.ideal, **metrics}
    return facts.Facts(numbers, tuple(instructions))


# ------------------------------------------------------------------------------------ recorded launches


@pytest.mark.parametrize("name", KERNELS)
def test_the_rules_say_what_the_catalogue_expects(name: str, recorded: Recorded) -> None:
    profile, kernel = recorded(name), catalog.shipped().named(name)[1]
    found = said(profile)
    conflicting = {kind for kind, degree in kernel.degree.items() if degree > 1}
    alarms = {rule for rule, finding in found.items() if finding.kind in ALARMS}
    if not conflicting:
        assert not alarms
        assert "SharedExcess" not in found
        return
    kinds = dict(row[:1] + row[-1:] for row in found["SharedExcess"].tables[0].rows)
    assert {kind for kind, degree in kinds.items() if degree > 1} == conflicting
    for kind in conflicting:
        assert kinds[kind] == pytest.approx(kernel.degree[kind], abs=0.01)
    assert {"SharedExcess", "SwizzleAdvice"} <= alarms


def test_a_mask_that_is_too_narrow_is_called_one(recorded: Recorded) -> None:
    partial = {name for name in KERNELS if "PartialSwizzle" in said(recorded(name))}
    assert partial == {"gemm-half-swizzled", "cute-columns-half"}
    message = said(recorded("gemm-half-swizzled"))["PartialSwizzle"].message
    assert "degree 4" in message
    assert "takes only 2 values" in message


def test_lost_arbitration_is_no_alarm(recorded: Recorded) -> None:
    for name in ("kernel2", "reference-attention", "reference-gemm"):
        finding = said(recorded(name))["PhantomConflicts"]
        assert finding.kind == "ok"
        assert "no swizzle" in finding.message
    assert "PhantomConflicts" not in said(recorded("kernel1"))  # its counters are right


def test_every_measured_saving_lies_in_the_interval(recorded: Recorded) -> None:
    bench = _load(ROOT / "bench" / "rules.py")
    pairs = list(bench.pairs(recorded))
    assert len(pairs) == 21
    assert [pair for pair in pairs if not pair.holds] == []


def test_kernel1_s_stores_are_not_the_problem(recorded: Recorded) -> None:
    rows = {row[0]: row for row in said(recorded("kernel1"))["ConflictCost"].tables[0].rows}
    assert rows["STS"][2] < 1
    assert rows["LDSM"][2] > 70
    assert rows["STS"][4] < 1


def test_the_estimate_holds_for_a_pair_that_it_was_not_fitted_to(recorded: Recorded) -> None:
    before, after = recorded("gemm-half-swizzled"), recorded("gemm-swizzled")
    found = said(before)["ConflictCost"]
    measured = 100 * (1 - (after.duration_ns or 0) / (before.duration_ns or 1))
    assert found.low <= measured <= found.high
    assert found.saving == pytest.approx(measured, abs=10)


def test_the_next_wall_is_named(recorded: Recorded) -> None:
    assert "DRAM" in said(recorded("transpose-plain"))["ConflictCost"].message
    assert "DRAM as the next bottleneck" in said(recorded("vectors-4-stride"))["StallShift"].message


def test_advice_fits_the_width_and_the_hardware(recorded: Recorded) -> None:
    assert "Swizzle<3,0,3> on elements of 16 bytes" in said(recorded("kernel1"))["SwizzleAdvice"].message
    assert "Swizzle<5,0,5> on elements of 4 bytes" in said(recorded("transpose-plain"))["SwizzleAdvice"].message
    assert "Swizzle<4,0,4> on elements of 8 bytes" in said(recorded("vectors-8-stride"))["SwizzleAdvice"].message
    tma = said(recorded("tma-none"))["SwizzleAdvice"].message
    assert "no padding: 32, 64 and 128 bytes" in tma
    assert "fallback is padding" not in tma
    assert "13 blocks per SM become 11" in said(recorded("vectors-16-stride"))["SwizzleAdvice"].message


@pytest.mark.long
@pytest.mark.parametrize("name", ["kernel1", "cute-columns-half", "tma-none", "reference-gemm"])
def test_an_action_and_a_profile_say_the_same(name: str, recorded: Recorded, recorded_file: Any) -> None:
    action = ncu_report.load_report(str(recorded_file(name))).range_by_idx(0).action_by_idx(0)
    from_action = rules.decide_all(facts.Facts(facts.numbers(action), facts.instructions(action)))
    assert [_plain(one) for one in from_action] == [_plain(one) for one in pack.findings(recorded(name))]


@pytest.mark.parametrize("name", KERNELS)
def test_what_ncu_recorded_of_the_pack_has_the_numbers_of_here(name: str, recorded: Recorded) -> None:
    """The recordings keep the wording of the day: rules and numbers have to agree, sentences need not."""
    profile = recorded(name)
    inside = {f.rule: _numbers(f.message) for f in profile.findings if pack.is_ours(f.rule)}
    here = {finding.rule: _numbers(finding.message) for finding in pack.findings(profile)}
    assert inside.keys() == here.keys()
    assert inside == here
    assert inside


@pytest.mark.parametrize("name", WORDED)
def test_what_the_pack_says_inside_ncu_is_what_it_says_here(name: str, recorded: Recorded) -> None:
    profile = recorded(name)
    inside = {f.rule: (f.title, f.message) for f in profile.findings if pack.is_ours(f.rule)}
    here = {finding.rule: (finding.title, finding.message) for finding in pack.findings(profile)}
    assert inside.keys() == here.keys()
    assert inside == here
    assert inside


def _numbers(message: str) -> list[str]:
    return sorted(re.findall(r"-?\d[\d,.]*%?", message.replace(". ", " ").rstrip(".")))


def _plain(finding: Any) -> Any:
    """Return a finding without the folders of its files, which differ: a profile's are below the sources' root."""
    markers = tuple(replace(marker, file=Path(marker.file).name) for marker in finding.markers)
    tables = json.dumps([[[_text(cell) for cell in row] for row in table.rows] for table in finding.tables])
    return replace(finding, markers=tuple(sorted(markers, key=str)), tables=tables)


def _text(cell: Any) -> Any:
    return cell.rsplit(":", 2)[-2:] if isinstance(cell, str) and cell.startswith("@source") else cell


# ------------------------------------------------------------------------------------- made-up launches


def test_a_launch_without_shared_memory_is_passed_over() -> None:
    assert rules.decide_all(launch(facts.Instruction(executed=3, sass="FADD R1, R2, R3"))) == []


def test_what_is_missing_is_said_once() -> None:
    (finding,) = rules.decide_all(facts.Facts({"gpu__time_duration.sum": 5.0}))
    assert finding.kind == "warning"
    assert "memory_l1_wavefronts_shared" in finding.message
    assert "--section SwizzleConflicts" in finding.message


def test_a_range_has_totals_and_no_instructions() -> None:
    found = rules.decide_all(facts.Facts({facts.WAVEFRONTS: 80.0, facts.IDEAL: 10.0, PIPE: 90.0}))
    by_rule = {finding.rule: finding for finding in found}
    assert by_rule["SharedExcess"].message.startswith("70 of 80 ")
    assert by_rule["ConflictCost"].saving == pytest.approx(78.75)


def test_equal_lines_of_two_files_stay_apart() -> None:
    here, there = access(pc=16), replace(access(pc=32), file="/src/b.cu")
    (excess, *_) = rules.decide_all(launch(here, there))
    places = [row[0] for row in next(table for table in excess.tables if "lines" in table.title).rows]
    assert places == ["@source:/src/a.cu:7:a.cu:7@", "@source:/src/b.cu:7:b.cu:7@"]


def test_a_file_whose_name_would_break_a_link_is_no_link() -> None:
    (excess, *_) = rules.decide_all(launch(replace(access(), file="C:\\src\\a.cu")))
    assert excess.tables[1].rows[0][0] == "a.cu:7"


def test_atomics_get_advice_of_their_own() -> None:
    atomics = access("ATOMS.ADD RZ, [R1], R2")
    message = next(f.message for f in rules.decide_all(launch(atomics)) if f.rule == "SwizzleAdvice")
    assert "whatever the layout" in message
    assert "Swizzle<" not in message


def test_wmma_gets_padding_and_no_swizzle() -> None:
    inside_ncu = replace(access("LDSM.16.M88.4 R0, [R1]"), file="/usr/local/cuda/include/crt/mma.hpp")
    on_a_page = replace(access("LDSM.16.M88.4 R0, [R1]"), header="/usr/local/cuda/include/crt/mma.hpp")
    for matrix in (inside_ncu, on_a_page):
        message = next(f.message for f in rules.decide_all(launch(matrix)) if f.rule == "SwizzleAdvice")
        assert "16 bytes longer" in message
        assert "Swizzle<" not in message
    both = rules.decide_all(launch(inside_ncu, access("LDS R4, [R5]", pc=32)))
    assert "Swizzle<5,0,5> on elements of 4 bytes" in next(f.message for f in both if f.rule == "SwizzleAdvice")


def test_without_the_pipe_s_utilisation_there_is_no_estimate() -> None:
    assert "ConflictCost" not in {finding.rule for finding in rules.decide_all(launch(access()))}


@pytest.mark.parametrize(
    ("opcode", "width", "slots"),
    [("LDS", 4, 32), ("LDS.U8", 1, 32), ("LDS.S16", 2, 32), ("LDS.64", 8, 16), ("STS.128", 16, 8),
     ("LDSM.16.M88.4", 16, 8), ("STSM.16.MT88.2", 16, 8), ("LDGSTS.E.BYPASS.128", 16, 8), ("ATOMS.ADD", 4, 32),
     ("LDS.U.128", 16, 8)],
)  # fmt: skip
def test_shapes(opcode: str, width: int, slots: int) -> None:
    shape = shapes.shape(opcode)
    assert (shape.width, shape.slots) == (width, slots)


NUMBERS = st.one_of(st.floats(), st.integers(-(10**12), 10**12).map(float))
INSTRUCTIONS = st.builds(
    facts.Instruction,
    executed=st.integers(0, 10**9),
    wavefronts=st.integers(0, 10**9),
    ideal=st.integers(0, 10**9),
    pc=st.integers(0, 2**48),
    sass=st.sampled_from(["LDS.128 R0, [R1]", "@!PT LDS RZ, [RZ]", "LDSM.16.M88.4 R0, [R1]", "HGMMA", "", "@P0", ";"]),
    access=st.sampled_from(["", "LDS", "LDSM", "ATOMS", "HGMMA"]),
    file=st.text(max_size=8),
    line=st.integers(0, 99),
    samples=st.dictionaries(st.sampled_from(["wait", "short_scoreboard"]), st.integers(0, 99)),
)
METRICS = st.dictionaries(
    st.sampled_from(
        [facts.WAVEFRONTS, facts.IDEAL, PIPE, "launch__shared_mem_per_block", "launch__occupancy_limit_shared_mem",
         "device__attribute_max_shared_memory_per_multiprocessor", "dram__bytes.sum.pct_of_peak_sustained_elapsed",
         f"{facts.STALLED}wait", f"{facts.STALLED}short_scoreboard", f"{facts.CONFLICTS}_op_ld.sum"]
    ),
    NUMBERS,
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(METRICS, st.lists(INSTRUCTIONS, max_size=5))
def test_no_rule_ever_fails(metrics: dict[str, float], instructions: list[Any]) -> None:
    known = {name: value for name, value in metrics.items() if math.isfinite(value)}
    for finding in rules.decide_all(facts.Facts(known, tuple(instructions))):
        assert "This rule failed" not in finding.message
        assert "nan" not in finding.message
        if finding.saving is not None:
            assert finding.low <= finding.saving <= finding.high <= 100


def test_a_rule_that_throws_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.setitem(rules.DECISIONS, "StallShift", fail)
    (finding,) = [one for one in rules.decide_all(launch(access())) if one.rule == "StallShift"]
    assert finding.kind == "warning"
    assert "by hand" in finding.message


# ------------------------------------------------------------------------------------------- inside ncu


class Frontend:
    """Takes down what a rule tells ncu; without `tables` as an older version does."""

    def __init__(self, tables: bool) -> None:
        self.messages: list[tuple[Any, str, str]] = []
        self.markers: list[tuple[Any, ...]] = []
        self.speedups: list[tuple[Any, ...]] = []
        self.focused: list[str] = []
        self.tables: list[list[list[Any]]] = []
        if tables:
            self.generate_table = lambda message, heads, rows, config: self.tables.append(rows)

    def message(self, kind: Any, text: str, name: str) -> int:
        self.messages.append((kind, text, name))
        return len(self.messages) - 1

    def speedup(self, *told: Any) -> None:
        self.speedups.append(told)

    def focus_metric(self, *told: Any) -> None:
        assert isinstance(told[2], float)
        self.focused.append(told[1])

    def source_marker(self, *told: Any) -> None:
        self.markers.append(told)


def run_inside(monkeypatch: pytest.MonkeyPatch, action: Any, rule: str, old: bool = False) -> Frontend:
    """Carry out a rule's file with a stand-in for NvRules, with the names of old versions or of new ones."""
    frontend = Frontend(tables=not old)
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
    _load(paths.rules() / f"{rule}.py").apply(object())
    return frontend


@pytest.mark.long
@pytest.mark.parametrize("old", [False, True])
def test_a_rule_tells_ncu_everything(old: bool, recorded_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    action = ncu_report.load_report(str(recorded_file("kernel1"))).range_by_idx(0).action_by_idx(0)
    excess = run_inside(monkeypatch, action, "SharedExcess", old)
    assert [kind for kind, _, _ in excess.messages] == [2]
    assert facts.WAVEFRONTS in excess.focused
    on_sass = [marker for marker in excess.markers if marker[2] == 1]
    on_source = [marker for marker in excess.markers if marker[2] == 2]
    assert len(on_sass) == 100
    assert all(Path(marker[3]).name in ("ptx.cuh", "attention.cuh") for marker in on_source)
    assert len(excess.tables) == (0 if old else 3)
    cost = run_inside(monkeypatch, action, "ConflictCost", old)
    assert cost.speedups[0][1] == 2
    assert 70 < cost.speedups[0][2] < 90


@pytest.mark.long
def test_the_counts_rule_is_silent_where_the_others_speak(recorded_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    action = ncu_report.load_report(str(recorded_file("kernel1"))).range_by_idx(0).action_by_idx(0)
    assert run_inside(monkeypatch, action, "SharedCounts").messages == []
    counts = SimpleNamespace(
        metric_names=lambda: [name for name in action.metric_names() if name != PIPE],
        **{name: getattr(action, name) for name in ("name", "metric_by_name", "sass_by_pc", "source_info")},
    )
    titles = [title for _, _, title in run_inside(monkeypatch, counts, "SharedCounts").messages]
    assert titles == ["Excessive Shared Wavefronts", "Swizzle Advice"]


def test_an_action_that_cannot_be_read_is_an_incomplete_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SimpleNamespace(name=lambda: "k", metric_names=lambda: 1 / 0)
    assert [title for _, _, title in run_inside(monkeypatch, broken, "SharedExcess").messages] == ["Not Collected"]
    assert run_inside(monkeypatch, broken, "ConflictCost").messages == []


def test_a_frontend_that_refuses_details_still_gets_the_message(
    recorded_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ncu_report.load_report(str(recorded_file("kernel1"))).range_by_idx(0).action_by_idx(0)
    monkeypatch.setattr(Frontend, "focus_metric", lambda *_: 1 / 0)
    monkeypatch.setattr(Frontend, "source_marker", lambda *_: 1 / 0)
    told = run_inside(monkeypatch, action, "SharedExcess")
    assert len(told.messages) == 1
    assert len(told.tables) == 3


def test_the_pack_needs_nothing_but_python() -> None:
    for file in paths.rules().rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in (name.split(".")[0] for name in names):
                assert name in sys.stdlib_module_names | {"swizzle_pack", "NvRules"}, (file, name)


def test_every_rule_belongs_to_a_section_and_is_named_after_its_file() -> None:
    for rule in pack.rules():
        assert (paths.rules() / f"{rule.name}.py").is_file()
        assert rule.section in pack.sections()
        assert rule.description.endswith(".")
    for section in pack.sections():
        assert f'Identifier: "{section}"' in (paths.rules() / f"{section}.section").read_text(encoding="utf-8")


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"rules_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module
