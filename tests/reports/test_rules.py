"""The rule pack's decisions, on recorded launches and on made-up ones."""

import importlib
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import pack, reader
from ncu_swizzle.reports.model import Profile, UnknownCounts
from tests.support.places import DATA, ROOT
from tests.support.recordings import Recorded

facts, rules, shapes = (pack.pack(name) for name in ("facts", "rules", "shapes"))

WORDED = ("gemm-half-swizzled", "tma-none", "transpose-plain", "transpose-xor")  # record them again to reword the rules
ESTIMATED = ("ConflictCost", "StallShift")  # which say what a fix would save, or what is left then
PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"


def by_rule(profile: Profile) -> dict[str, Any]:
    return {finding.rule: finding for finding in pack.findings(profile)}


# ------------------------------------------------------------------------------------ recorded launches


@pytest.mark.long
@pytest.mark.xdist_group("recordings")  # all are read once, by one worker
def test_the_rules_say_what_the_catalogue_expects_and_what_they_said_inside_ncu(recorded: Recorded) -> None:
    """The recordings keep the wording of the day: rules and numbers have to agree, sentences need not.

    They were made before ConflictCost was calibrated, and keep what it estimated then.
    """
    partial = set()
    for _, kernel in catalog.shipped().run():
        profile = recorded(kernel.name)
        here = by_rule(profile)
        inside = {finding.rule: finding for finding in profile.findings if pack.is_ours(finding.rule)}
        assert inside
        assert set(inside) == set(here), kernel.name
        same = [{rule: one for rule, one in found.items() if rule not in ESTIMATED} for found in (inside, here)]
        assert numbers(same[0]) == numbers(same[1]), kernel.name
        if kernel.name in WORDED:
            assert words(same[0]) == words(same[1]), kernel.name
        partial |= {kernel.name for rule in here if rule == "PartialSwizzle"}
        conflicting = {kind: degree for kind, degree in kernel.degree.items() if degree > 1}
        alarms = {rule for rule, finding in here.items() if finding.kind in ("optimization", "warning")}
        if conflicting:
            kinds = {row[0]: row[-1] for row in here["SharedExcess"].tables[0].rows}
            degrees = {kind: degree for kind, degree in kinds.items() if degree > 1}
            assert degrees == pytest.approx(conflicting, abs=0.01), kernel.name
            assert {"SharedExcess", "SwizzleAdvice"} <= alarms, kernel.name
        else:
            assert not alarms | ({"SharedExcess"} & set(here)), kernel.name
    assert partial == {"gemm-half-swizzled", "cute-columns-half"}, "a mask that is too narrow is called one"


def numbers(findings: dict[str, Any]) -> dict[str, list[str]]:
    found = {rule: finding.message.replace(". ", " ").rstrip(".") for rule, finding in findings.items()}
    return {rule: sorted(re.findall(r"-?\d[\d,.]*%?", message)) for rule, message in found.items()}


def words(findings: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return titles and messages by rule; they were recorded when `explain` was still called `suggest`."""
    return {
        rule: (finding.title, finding.message.replace("ncu-swizzle suggest", "ncu-swizzle explain"))
        for rule, finding in findings.items()
    }


def test_lost_arbitration_is_no_alarm(recorded: Recorded) -> None:
    for name in ("kernel2", "reference-attention", "reference-gemm"):
        finding = by_rule(recorded(name))["PhantomConflicts"]
        assert finding.kind == "ok"
        assert "no swizzle" in finding.message
    assert "PhantomConflicts" not in by_rule(recorded("kernel1")), "its counters are right"


def test_measured_savings_lie_in_the_interval_as_often_as_it_says(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    pairs = list(importlib.import_module("rules").pairs(recorded))
    estimated = [pair for pair in pairs if pair.point is not None]
    assert (len(pairs), len(estimated)) == (21, 16), "tiles of TMA have no estimate"
    assert [pair.after for pair in estimated if not pair.holds] == ["cute-128x32-swizzled"]


def test_the_cost_is_that_of_the_accesses_that_conflict(recorded: Recorded) -> None:
    rows = {row[0]: row for row in by_rule(recorded("kernel1"))["ConflictCost"].tables[0].rows}
    assert rows["STS"][2] < 1
    assert rows["LDSM"][2] > 70
    assert rows["STS"][4] < 1
    before, after = recorded("gemm-half-swizzled"), recorded("gemm-swizzled")
    cost = by_rule(before)["ConflictCost"]
    measured = 100 * (1 - (after.duration_ns or 0) / (before.duration_ns or 1))
    assert cost.low <= measured <= cost.high
    assert cost.saving == pytest.approx(measured, abs=10)


def test_messages_name_the_next_bottleneck_and_advice_that_fits_the_width_and_the_hardware(recorded: Recorded) -> None:
    for name, rule, phrase in (
        ("transpose-plain", "ConflictCost", "DRAM"),
        ("vectors-4-stride", "StallShift", "DRAM as the next bottleneck"),
        ("gemm-half-swizzled", "PartialSwizzle", "degree 4"),
        ("gemm-half-swizzled", "PartialSwizzle", "takes only 2 values"),
        ("kernel1", "SwizzleAdvice", "Swizzle<3,0,3> on elements of 16 bytes"),
        ("transpose-plain", "SwizzleAdvice", "Swizzle<5,0,5> on elements of 4 bytes"),
        ("vectors-8-stride", "SwizzleAdvice", "Swizzle<4,0,4> on elements of 8 bytes"),
        ("vectors-16-stride", "SwizzleAdvice", "13 blocks per SM become 11"),
        ("tma-none", "SwizzleAdvice", "no padding: 32, 64 and 128 bytes"),
    ):
        assert phrase in by_rule(recorded(name))[rule].message, name
    assert "fallback is padding" not in by_rule(recorded("tma-none"))["SwizzleAdvice"].message


def test_lines_of_several_files_with_one_number_are_told_apart() -> None:
    ideal, *_ = reader.read(DATA / "programs" / "source-counters.ncu-rep")
    assert "GlobalSectors" not in by_rule(ideal)
    recorded, *_ = reader.read(DATA / "programs" / "columns.ncu-rep")
    found = by_rule(recorded)["GlobalSectors"]
    assert found.message == (
        "114,688 of 139,264 sectors of global memory (82%) are excessive. Worst source lines: put.cuh:8 (57,344) and "
        "set.cuh:8 (57,344). UncoalescedGlobalAccess ignores the file: its 114,688 of line 8 are put.cuh:8 (57,344) "
        "and set.cuh:8 (57,344)."
    )
    (load, first, second) = (each for each in recorded.instructions if each.traffic.sectors)
    assert [(marker.file, marker.line) for marker in found.markers] == [first.named, second.named]
    apart = replace(second, stack=(("/tmp/a/set.cuh", 9),))
    lines = by_rule(replace(recorded, instructions=(load, first, apart)))["GlobalSectors"].message
    assert "UncoalescedGlobalAccess" not in lines
    unknown = UnknownCounts(code="UN001", reason="its address", remedy="", offsets=(second.pc,))
    lacking = replace(second, traffic=Traffic())
    part = replace(recorded, instructions=(first, lacking), unknown_traffic=(unknown,))
    assert "GlobalSectors" not in by_rule(part), "the excess of a part is not that of the kernel"


# ------------------------------------------------------------------------------------- made-up launches


def access(sass: str = "LDS R1, [R2]", pc: int = 16, **fields: Any) -> Any:
    defaults = {"executed": 10, "wavefronts": 320, "ideal": 10, "file": "/src/a.cu", "line": 7, **fields}
    return facts.Instruction(**defaults, pc=pc, sass=sass, access=facts.access(sass, 1))


def launch(*instructions: Any, **metrics: float) -> Any:
    totals = facts.added(instructions)
    counts = {facts.WAVEFRONTS: totals.wavefronts, facts.IDEAL: totals.ideal, **metrics}
    return facts.Facts(counts, tuple(instructions))


def decided(given: Any) -> dict[str, Any]:
    return {finding.rule: finding for finding in rules.decide_all(given)}


def test_a_launch_without_shared_memory_is_passed_over_and_what_is_missing_is_said_once() -> None:
    assert rules.decide_all(launch(facts.Instruction(executed=3, sass="FADD R1, R2, R3"))) == []
    (finding,) = rules.decide_all(facts.Facts({"gpu__time_duration.sum": 5.0}))
    assert finding.kind == "warning"
    assert "memory_l1_wavefronts_shared" in finding.message
    assert "--section SwizzleConflicts" in finding.message
    assert "ConflictCost" not in decided(launch(access())), "without the pipe's utilisation there is no estimate"


def test_a_range_has_totals_and_no_instructions() -> None:
    found = decided(facts.Facts({facts.WAVEFRONTS: 80.0, facts.IDEAL: 10.0, PIPE: 90.0}))
    assert found["SharedExcess"].message.startswith("70 of 80 ")
    assert found["ConflictCost"].saving is None
    assert "no warp samples" in found["ConflictCost"].message


def test_lines_of_two_files_stay_apart_and_a_name_that_would_break_a_link_is_not_one() -> None:
    here, there, odd = access(), access(pc=32, file="/src/b.cu"), access(file="C:\\src\\a.cu")
    lines = [one.tables[1].rows for one in (decided(launch(here, there))["SharedExcess"],
                                            decided(launch(odd))["SharedExcess"])]  # fmt: skip
    assert [row[0] for row in lines[0]] == ["@source:/src/a.cu:7:a.cu:7@", "@source:/src/b.cu:7:b.cu:7@"]
    assert lines[1][0][0] == "a.cu:7"


def test_atomics_and_wmma_get_advice_of_their_own() -> None:
    def advice(*accesses: Any) -> str:
        return str(decided(launch(*accesses))["SwizzleAdvice"].message)

    atomics = advice(access("ATOMS.ADD RZ, [R1], R2"))
    assert "whatever the layout" in atomics
    assert "Swizzle<" not in atomics
    header = "/usr/local/cuda/include/crt/mma.hpp"
    inside_ncu, on_a_page = (access("LDSM.16.M88.4 R0, [R1]", **{field: header}) for field in ("file", "header"))
    for matrix in (inside_ncu, on_a_page):
        assert "16 bytes longer" in advice(matrix)
        assert "Swizzle<" not in advice(matrix)
    assert "Swizzle<5,0,5> on elements of 4 bytes" in advice(inside_ncu, access("LDS R4, [R5]", pc=32))


def test_shapes() -> None:
    for opcode, width, slots in (
        ("LDS", 4, 32), ("LDS.U8", 1, 32), ("LDS.S16", 2, 32), ("LDS.64", 8, 16), ("STS.128", 16, 8),
        ("LDSM.16.M88.4", 16, 8), ("STSM.16.MT88.2", 16, 8), ("LDGSTS.E.BYPASS.128", 16, 8), ("ATOMS.ADD", 4, 32),
        ("LDS.U.128", 16, 8),
    ):  # fmt: skip
        shape = shapes.shape(opcode)
        assert (shape.width, shape.slots) == (width, slots), opcode


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
    finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
    for finding in rules.decide_all(facts.Facts(finite, tuple(instructions))):
        assert "This rule failed" not in finding.message
        assert "nan" not in finding.message
        if finding.saving is not None:
            assert finding.low <= finding.saving <= finding.high <= 100


def test_a_rule_that_throws_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.setitem(rules.DECISIONS, "StallShift", fail)
    finding = decided(launch(access()))["StallShift"]
    assert finding.kind == "warning"
    assert "by hand" in finding.message
