"""The rule pack's decisions on recorded and made-up launches, and as ncu runs it; every swizzle that it names."""

import ast
import importlib.util
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ncu_report
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.base import paths
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.engines import reader
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.smem import code, mapping, wavefronts
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import Swizzle
from tests.support.places import DATA
from tests.support.recordings import Recorded

Recording = Callable[[str], Path]
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


@pytest.mark.long
def test_lost_arbitration_is_no_alarm(recorded: Recorded) -> None:
    for name in ("kernel2", "reference-attention", "reference-gemm"):
        finding = by_rule(recorded(name))["PhantomConflicts"]
        assert finding.kind == "ok"
        assert "no swizzle" in finding.message
    assert "PhantomConflicts" not in by_rule(recorded("kernel1")), "its counters are right"


@pytest.mark.long
@pytest.mark.xdist_group("recordings")
def test_measured_savings_lie_in_the_interval_as_often_as_it_says(
    recorded: Recorded, bench: Callable[[str], ModuleType]
) -> None:
    pairs = list(bench("figures.rules").pairs(recorded))
    estimated = [pair for pair in pairs if pair.point is not None]
    assert (len(pairs), len(estimated)) == (21, 16), "tiles of TMA have no estimate"
    assert [pair.after for pair in estimated if not pair.holds] == ["cute-128x32-swizzled"]


def test_messages_name_the_next_bottleneck_and_advice_that_fits_the_width_and_the_hardware(recorded: Recorded) -> None:
    for name, rule, phrase in (
        ("kernel1", "ConflictCost", "Of that: LDSM 77% and STS 0.1%."),
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


def test_shapes() -> None:
    for opcode, width, slots in (
        ("LDS", 4, 32), ("LDS.U8", 1, 32), ("LDS.S16", 2, 32), ("LDS.64", 8, 16), ("STS.128", 16, 8),
        ("LDSM.16.M88.4", 16, 8), ("STSM.16.MT88.2", 16, 8), ("LDGSTS.E.BYPASS.128", 16, 8), ("ATOMS.ADD", 4, 32),
        ("LDS.U.128", 16, 8),
    ):  # fmt: skip
        shape = shapes.shape(opcode)
        assert (shape.width, shape.slots) == (width, slots), opcode


# ------------------------------------------------------------------------------------- advice

OPS = {
    "LDS.U8 R1, [R2]": "ld.shared.u8", "LDS.S16 R1, [R2]": "ld.shared.u16", "LDS R1, [R2]": "ld.shared.b32",
    "LDS.64 R2, [R4]": "ld.shared.b64", "STS.128 [R4], R8": "st.shared.v4.b32", "LDSM.16.M88.4 R8, [R4]": "ldmatrix.x4",
}  # fmt: skip
NAMED = re.compile(
    r"Swizzle<(\d+),(\d+),(\d+)> on elements of (\d+) bytes? \([^()]*(?:\([^()]*(?:\([^()]*\))?[^()]*\))?\)"
)
WGMMA = facts.Instruction(10, 80, 80, pc=48, sass="HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", access="HGMMA")
COPY = facts.Instruction(10, 0, 0, pc=64, sass="UTMALDG.2D [UR4], [UR12]")


def advice(*instructions: Any) -> str:
    return str(decided(launch(*instructions))["SwizzleAdvice"].message)


def worst(sass: str, degree: float) -> Any:
    return access(sass, wavefronts=int(100 * degree), ideal=100)


def test_what_it_names_for_a_row_length_is_conflict_free_at_that_length() -> None:
    """32 lanes in 32 consecutive rows, at each position of a row, as the full degree says."""
    for sass, op in OPS.items():
        slots = shapes.shape(sass.split(maxsplit=1)[0]).slots
        named = re.findall(NAMED.pattern + r" for rows of (\d+) bytes", advice(worst(sass, slots)))
        assert [int(row_bytes) for *_, row_bytes in named] == [128, 256], op
        for bits, base, shift, size, row_bytes in (tuple(map(int, one)) for one in named):
            elements = np.arange(0, row_bytes // size, max(1, 16 // size) if "matrix" in op else 1)[:, None]
            addresses = np.arange(32) * row_bytes // size + elements
            plain = wavefronts(op, addresses * size)
            swizzled = wavefronts(op, Swizzle(bits=bits, base=base, shift=shift)(addresses) * size)
            assert (plain.actual > plain.ideal).all(), op
            least = np.maximum(plain.ideal, 1 if "matrix" not in op else 4)
            assert (swizzled.actual <= np.maximum(least, swizzled.ideal)).all(), op


def test_wider_accesses_to_the_same_tile_leave_what_it_says() -> None:
    text = advice(worst("LDS R1, [R2]", 32), access("STS.128 [R4], R8", pc=32, wavefronts=100, ideal=100))
    *_, (bits, base, shift, size) = (tuple(map(int, one)) for one in NAMED.findall(text))
    assert "leaves these accesses a degree of 4" in text
    addresses = Swizzle(bits=bits, base=base, shift=shift)(np.arange(32) * 128 // size + np.arange(32)[:, None]) * size
    counted = wavefronts("ld.shared.b32", addresses)
    assert (counted.actual == 4 * counted.ideal).all()


def test_where_the_addresses_decide_it_names_no_swizzle() -> None:
    for degree in (2, 4, 2.75, 13):
        text = advice(worst("LDS.128 R8, [R4]", degree))
        assert "Swizzle<" not in text, degree
        assert "my.cu" in text, "the command that computes it"
    tried = replace(launch(worst("LDS R1, [R2]", 32)), tried=("shared memory from 0x400: padding makes it clean",))
    text = decided(tried)["SwizzleAdvice"].message
    assert "Tried on the kernel's own addresses: shared memory from 0x400: padding makes it clean." in text
    assert not re.search(r"Swizzle<|fallback", text)


def test_the_width_is_the_one_of_the_modifiers_and_a_swizzle_is_spelled_as_everywhere() -> None:
    for sass, degree, phrase in (
        ("LDS.U16 R1, [R2]", 32, "LDS of 2 bytes, degree"),
        ("LDS.S8 R1, [R2]", 32, "LDS of 1 byte, degree"),
        ("LDSM.16.MT88.2 R1, [R2]", 8, "LDSM of 2 matrices of 16-byte rows, degree"),
        ("LDSM.16.M88 R1, [R2]", 8, "LDSM of 1 matrix of 16-byte rows, degree"),
    ):
        assert phrase in advice(worst(sass, degree))
    for bits, base, shift, size in ((3, 0, 4, 16), (5, 1, 5, 2), (3, 4, 3, 1)):
        tile = Mapping(Layout((8, 8), (8, 1)), Swizzle(bits=bits, base=base, shift=shift), size)
        assert shapes.spelled(bits, base, shift, size) == code.spelled(tile)
        assert mapping.parse("(8,8):(8,1)", size, f"{bits},{base},{shift}") == tile


def test_atomics_and_wmma_get_advice_of_their_own() -> None:
    atomics = advice(access("ATOMS.ADD RZ, [R1], R2"))
    assert "whatever the layout" in atomics
    assert "Swizzle<" not in atomics
    header = "/usr/local/cuda/include/crt/mma.hpp"
    inside_ncu, on_a_page = (access("LDSM.16.M88.4 R0, [R1]", **{field: header}) for field in ("file", "header"))
    for matrix in (inside_ncu, on_a_page):
        assert "16 bytes longer" in advice(matrix)
        assert "Swizzle<" not in advice(matrix)
    assert "Swizzle<5,0,5> on elements of 4 bytes" in advice(inside_ncu, access("LDS R4, [R5]", pc=32))


def test_plain_stores_beside_wgmma_are_told_of_stmatrix() -> None:
    """The widest mode is free of conflicts for STSM whose lanes store consecutive rows of 128 bytes."""
    stores, loads = worst("STS [R4], R8", 8), worst("LDS R1, [R2]", 8)
    text = advice(stores, WGMMA, COPY)
    for phrase in ("stmatrix (STSM)", "UTMASTG", "ncu-swizzle lint"):
        assert phrase in text
    for chunk in range(8):
        rows = np.arange(32) * 128 + 16 * chunk
        plain = wavefronts("stmatrix.x4", rows[None])
        swizzled = wavefronts("stmatrix.x4", Swizzle(bits=3, base=4, shift=3)(rows)[None])
        assert (plain.actual.tolist(), swizzled.actual.tolist(), swizzled.ideal.tolist()) == ([32], [4], [4])
    stored = access("STSM.16.M88.4 [R4], R8", pc=80, wavefronts=100, ideal=100)
    assert "stmatrix" not in advice(stores, WGMMA, stored), "it has it"
    assert "stmatrix" not in advice(stores, COPY), "it has no wgmma"
    assert "descriptors" not in advice(loads, COPY)
    assert "makes the results wrong" in advice(loads, WGMMA, COPY)


# ------------------------------------------------------------------------------------- whatever a launch has

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


@pytest.mark.long
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


@pytest.mark.long
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
