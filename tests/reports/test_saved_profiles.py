"""A profile survives being saved; what is damaged or impossible is refused, what is doubtful is told, not judged."""

import base64
import dataclasses
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bench.attacks.corpus import hostile, originals, trees
from ncu_swizzle.base import codes
from ncu_swizzle.base.cache import sha256_of_json
from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.engines import reader
from ncu_swizzle.engines.profiles import with_recording
from ncu_swizzle.gate import baseline, judge
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.verdict import Outcome
from ncu_swizzle.render.formats import to_csv
from ncu_swizzle.reports import model, remarks, run_folder
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.counts import KEPT, Instruction, SavedRequests, Total
from ncu_swizzle.reports.frames import comparison_table, profile_table
from ncu_swizzle.reports.model import DURATION, EXECUTED, IDEAL, WAVEFRONTS, LaunchId, Profile, UnknownCounts
from ncu_swizzle.reports.options import EMULATED
from ncu_swizzle.reports.side_by_side import SHARED_PIPE
from ncu_swizzle.smem.requests import AccessRequests
from tests.support.gate_profiles import measured
from tests.support.places import PROGRAMS
from tests.support.properties import chances, examples, holds
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY, spoiled
from tests.support.shown import with_metrics

SEVERAL = PROGRAMS / "several.ncu-rep"


def test_a_saved_profile_loads_back_equal(recorded: Recorded) -> None:
    whole, bare = recorded("kernel1"), Instruction(pc=16, sass="LDS R0, [R1]", opcode="LDS", access="LDS")
    assert (bare.executed, bare.wavefronts, bare.ideal) == (None, None, None)
    for profile in (EMPTY, whole, replace(whole, instructions=(bare, *whole.instructions)), *reader.read(SEVERAL)):
        assert Profile.from_json(profile.to_json()) == profile


def test_profiles_of_schema_1_still_load(recorded: Recorded) -> None:
    content = json.loads(recorded("kernel1").to_json())
    del content["digest"], content["launch"], content["kernel"]["mangled"]
    old = {**content, "schema": 1}
    loaded = Profile.from_json(json.dumps({**old, "digest": sha256_of_json(old)}))
    assert (loaded.launch, loaded.grid, loaded.total) == (LaunchId(), (64, 16, 4), recorded("kernel1").total)


def test_lines_of_findings_before_schema_12_are_in_their_titles() -> None:
    titles = ("k.cu:7", "", "k.cu", ":7", "k.cu:", "k.cu:x", "k.cu:٣", f"k.cu:{'9' * 5000}")
    old = json.loads(replace(EMPTY, findings=tuple(model.violation("outside") for _ in titles)).to_json())
    del old["digest"]
    for finding, title in zip(old["findings"], titles, strict=True):
        finding["title"] = title
        del finding["line"]
    old |= {"schema": 11}
    loaded = Profile.from_json(json.dumps({**old, "digest": sha256_of_json(old)}))
    assert [finding.line for finding in model.violations(loaded)] == [("k.cu", 7), *[None] * (len(titles) - 1)]


def test_every_altered_count_and_every_truncation_are_noticed(recorded: Recorded) -> None:
    text = recorded("kernel1").to_json()
    assert text.count("1073741824") == 0, "counts are stored per instruction"
    with pytest.raises(DamagedFile, match="was changed after it was written"):
        Profile.from_json(text.replace("33554432", "33554433", 1))
    for size in (0, 1, 1000, -2):
        with pytest.raises(DamagedFile, match="is damaged"):
            Profile.from_json(text[:size])


def test_foreign_json_and_other_schemas_are_refused(recorded: Recorded) -> None:
    for text in ("[]", "{}", '{"schema": 1}', "3"):
        with pytest.raises(BadFile, match="is not a saved profile"):
            Profile.from_json(text)
    content = json.loads(recorded("tma-128").to_json())
    with pytest.raises(BadFile, match="has schema 99"):
        Profile.from_json(json.dumps({**content, "schema": 99}))


def test_ratios_are_unknown_where_counts_are_and_what_is_missing_is_named(recorded: Recorded) -> None:
    unknown, idle = Total(executed=1, wavefronts=None, ideal=None), Total(executed=1, wavefronts=0, ideal=0)
    assert (unknown.excessive, unknown.degree) == (None, None)
    assert (idle.excessive, idle.degree) == (0, None)
    profile, name = recorded("kernel1"), "memory_l1_wavefronts_shared"
    assert profile.missing == ()
    metrics = {other: metric for other, metric in profile.metrics.items() if other != name}
    assert replace(profile, metrics=metrics).missing == (name,)


def test_a_line_counts_what_is_inlined_there(recorded: Recorded) -> None:
    profile, file = recorded("kernel1"), "kernels/attention/1_plain.cu"
    call = next(n for n, text in enumerate(profile.sources[file].splitlines(), 1) if "attention::forward" in text)
    assert profile.lines[file, call].wavefronts == profile.total.wavefronts


# --------------------------------------------------------------------------- other content under a digest that fits


INFINITY, NOT_A_NUMBER = float("inf"), float("nan")
REFUSED: list[tuple[str, list[Any], str]] = [  # where, values, and what is said of them
    ("kernel", [None, "kernel2"], ""),
    ("extra", [1], ""),
    ("when", [7], "when is 7"),
    ("sources", [{"a.cu": None}], "sources.a.cu is None"),
    ("problem/n", [-1, 10**30, 10**400], "problem.n is"),
    ("errors/out", [-1.0, INFINITY], "errors.out is"),
    ("machine/sm_count", [-1, "many"], "machine.sm_count is"),
    ("launch/index", [-1], "launch.index is -1"),
    ("launch/grid", [[-1, 1, 1]], "launch.grid"),
    (f"metrics/{DURATION}/value", [-7.0, INFINITY], DURATION),
    (f"metrics/{model.WAVEFRONTS}/value", [-7, NOT_A_NUMBER, 10**30], model.WAVEFRONTS),
    (f"metrics/{model.STALLED}barrier/value", [-7], "barrier"),
    ("metrics/launch__grid_dim_x/value", [-7], "launch__grid_dim_x"),
    ("instructions/rows/0", [[1]], ""),
    ("instructions/stacks/0", [[["file", "line"]], [["a.cu", -1]]], ""),
    ("instructions/rows/0/pc", [-16, 1 << 64], ""),
    ("instructions/rows/0/executed", [-1], ""),
    ("instructions/rows/0/wavefronts", [-1, 10**20], ""),
    ("instructions/rows/0/ideal", [-(1 << 40)], ""),
    ("instructions/rows/0/samples", [{"barrier": -3}, {"barrier": 10**30}], ""),
    ("instructions/rows/0/at", [-1], ""),
]


@pytest.mark.parametrize(("path", "values", "said"), REFUSED)
def test_a_right_digest_over_wrong_content_is_refused(
    path: str, values: list[Any], said: str, recorded: Recorded, tmp_path: Path
) -> None:
    """Whoever can change a file can make its digest fit."""
    content, file = json.loads(recorded("tma-128").to_json()), tmp_path / "k.json"
    columns = content["instructions"]["columns"]

    def at(parent: Any, name: str) -> Any:
        return name if isinstance(parent, dict) else int(name) if name.isdigit() else columns.index(name)

    *folders, last = path.split("/")
    parent = content
    for name in folders:
        parent = parent[at(parent, name)]
    for value in values:
        parent[at(parent, last)] = value
        file.write_bytes(trees.written(content, trees.sealed_profile))
        with pytest.raises(DamagedFile, match="is damaged: ") as refused:
            run_folder.load_profile(file)
        assert said in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=8), part, max_size=4),
    max_leaves=12,
)


def few_instructions() -> trees.Content:
    """Return a profile with its first instructions only: what is tried is the reading, not the size."""
    profile = originals.profile("tma/tma-128")
    sources = {name: text[:200] for name, text in profile.sources.items()}
    small = replace(profile, instructions=profile.instructions[:20], sources=sources)
    return dict(json.loads(small.to_json()))


def read(file: Path, content: trees.Content) -> None:
    """Read what is written under a digest that fits, or see it refused; ask a profile for all that it derives."""
    file.write_bytes(trees.written(content, trees.sealed_profile))
    try:
        profile = run_folder.load_profile(file)
    except (BadFile, DamagedFile):
        return
    assert Profile.from_json(profile.to_json()) == profile
    derived = (profile.grid, profile.block, profile.stalls, profile.missing, profile.duration_ns)
    assert isinstance(repr(derived), str)
    for total in (profile.total, *profile.accesses.values(), *profile.lines.values()):
        for count in (total.executed, total.wavefronts, total.ideal):
            assert count is None or count >= 0, "a count is not negative"
        assert isinstance(repr((total.excessive, total.degree)), str)


@pytest.mark.long
@examples
def test_hostile_values_under_a_digest_that_fits_are_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = few_instructions(), tmp_path / "k.json"
    columns, rows = (content["instructions"][name] for name in ("columns", "rows"))

    def anywhere(chance: Random) -> None:
        read(file, trees.with_hostile_value(content, chance))

    def field_of_profile(name: str, value: Any) -> None:
        read(file, {**content, name: value})

    def number_of_instruction(row: int, column: str, value: Any) -> None:
        changed = [list(values) for values in rows]
        changed[row][columns.index(column)] = value
        read(file, {**content, "instructions": {**content["instructions"], "rows": changed}})

    numbers = st.sampled_from((*hostile.INTEGERS, *hostile.FLOATS)) | st.integers() | JSON
    holds(examples // 2, anywhere, chances)
    holds(examples, field_of_profile, st.sampled_from(sorted(content)), JSON)
    names = st.sampled_from(["pc", "executed", "wavefronts", "ideal", "stack", "at"])
    holds(examples, number_of_instruction, st.integers(0, 19), names, numbers)


# --------------------------------------------------------------------------- requests within a profile


def requests(count: int, source: bool = False) -> AccessRequests:
    chance = np.random.default_rng(5)
    return AccessRequests(
        op="cp.async.cg.16" if source else "ld.shared.b32",
        places=chance.integers(0, 1 << 14, (count, 32), np.int32) * 16,
        active=chance.integers(0, 2, (count, 32)).astype(bool),
        times=chance.integers(1, 1 << 40, count),
        source=chance.integers(-1, 1 << 38, (count, 32)) if source else None,  # -1 of lanes that write zeros
    )


@pytest.mark.parametrize("source", [False, True])
def test_requests_come_back_as_they_were(source: bool) -> None:
    before = requests(50, source)
    back = SavedRequests.of(16, before).unpacked()
    assert (back.op, back.complete, back.source is None) == (before.op, True, before.source is None)
    for name in ("addresses", "active", "times", "source"):
        assert np.array_equal(getattr(back, name), getattr(before, name)) or getattr(before, name) is None, name


def test_of_many_requests_the_most_frequent_are_kept() -> None:
    many = requests(KEPT + 10)
    back = SavedRequests.of(16, many).unpacked()
    assert (len(back.times), back.complete) == (KEPT, False)
    assert back.times.min() >= np.sort(many.times)[9]


def test_damaged_requests_are_refused() -> None:
    def packed(numbers: np.ndarray) -> str:
        return base64.b64encode(zlib.compress(numbers.astype("<i8").tobytes())).decode()

    damages: list[dict[str, Any]] = [
        {"packed": "no base 64"},
        {"packed": base64.b64encode(b"not zlib").decode()},
        {"packed": packed(np.zeros(1 << 20))},  # far larger than it says
        {"packed": packed(np.full(34, -1))},
        {"packed": packed(np.full(34, 1 << 40))},
        {"count": KEPT + 1},
        {"count": 2},
        {"op": "ld.shared.b99"},
    ]
    for damage in damages:
        with pytest.raises(DamagedFile, match="the requests of the instruction at 0x10 are damaged"):
            replace(SavedRequests.of(16, requests(1)), **damage).unpacked()


# --------------------------------------------------------------------------------------- where numbers come from


def test_a_profile_says_what_was_measured_recorded_and_computed(recorded: Recorded) -> None:
    shipped = recorded("kernel2")
    known = {name: shipped.metrics[name] for name in (EXECUTED, model.WAVEFRONTS, model.IDEAL)}
    computed = replace(shipped, engine=EMULATED, metrics=known)
    assert [replace(shipped, engine="ncu").provenance, shipped.provenance, computed.provenance] == [
        "measured", "recorded", "computed",
    ]  # fmt: skip
    mixed = with_recording(computed, shipped)
    origin = json.loads(mixed.to_json())["provenance"]
    assert (origin["*"], origin["samples"]) == ("computed", "recorded")
    assert {origin["metrics"].get(name, origin["metrics"]["*"]) for name in known} == {"computed"}
    assert origin["metrics"][DURATION] == "recorded"
    assert Profile.from_json(mixed.to_json()) == mixed


def test_reasons_and_codes_are_kept(recorded: Recorded) -> None:
    first, second = recorded("kernel2").instructions[:2]
    why = UnknownCounts.of(codes.DATA, "its address depends on data", [first.pc])
    found = model.violation("unlike rows", None, model.TILES_RULE, codes.ALONG_K)
    profile = replace(recorded("kernel2"), unknowns=(why,), findings=(found,))
    loaded = Profile.from_json(profile.to_json())
    assert loaded == profile
    assert loaded.unknowns[0].remedy == codes.CATALOGUE[codes.DATA].remedy
    assert [violation.code for violation in model.violations(loaded)] == ["SW011"]
    uncounted: list[Instruction] = [second, first, first]
    assert model.codes_of_unknown(loaded, uncounted) == (codes.NOT_RUN, codes.DATA)


def test_a_report_that_lacks_metrics_says_so_with_a_code() -> None:
    for profile in reader.read(SEVERAL):
        assert [why.reason for why in profile.unknowns] == [f"the report lacks {name}" for name in profile.missing]
        assert {why.code for why in profile.unknowns} <= {codes.NOT_COLLECTED}


Change = Callable[[Profile], Profile]


MOST = (1 << 64) - 1  # what ncu stores is unsigned: a negative count would read like this


def test_the_largest_numbers_of_a_report_are_exact_in_every_table(recorded: Recorded, tmp_path: Path) -> None:
    largest = spoiled(recorded("kernel2"), wavefronts=MOST, pc=MOST, samples={"barrier": MOST})
    with_metrics(largest, {WAVEFRONTS: MOST}).save(tmp_path / "p.json")
    read = run_folder.load_profile(tmp_path / "p.json")
    table, both = profile_table(read), comparison_table(compare([read, recorded("kernel1")]))
    for column in (table["wavefronts"], table["pc"], table["stall_barrier"], both["stall_barrier"]):
        assert column.dropna().max() == MOST
    assert str(both["executed"].dtype) == "Int64"
    assert profile_table(read, "accesses")["wavefronts"].max() >= MOST, "a sum of more than 64 bits"
    assert str(MOST) in to_csv(compare([read]))
    assert any("its counts are unreliable" in doubt for doubt in remarks.doubts(read))


# ------------------------------------------------------------------------------------------------ doubts

ABSURD: list[tuple[Change, str]] = [
    (lambda p: with_metrics(p, {SHARED_PIPE: 250.0}), "is 250.0 %"),
    (lambda p: with_metrics(p, {SHARED_PIPE: -3.0}), "is -3.0 %"),
    (lambda p: with_metrics(p, {WAVEFRONTS: -5}), f"{WAVEFRONTS} is -5"),
    (lambda p: with_metrics(p, {IDEAL: 1 << 63}), f"{IDEAL} is 9,223,372"),
    (lambda p: with_metrics(p, {WAVEFRONTS: float("nan")}), f"{WAVEFRONTS} is nan"),
    (lambda p: spoiled(p, wavefronts=1), "has 1 wavefronts, fewer than"),
    (lambda p: spoiled(p, executed=0), "was never executed"),
    (lambda p: spoiled(p, ideal=-1), "has -1 ideal wavefronts"),
    (lambda p: spoiled(p, wavefronts=1 << 63), "wavefronts: its counts"),
]


def test_absurd_counts_are_told_and_never_judged(recorded: Recorded) -> None:
    rules = Policy(rules=(baseline.parse_rule("max-excessive", "0"), baseline.parse_rule("max-degree", "LDSM=1")))
    for change, words in ABSURD:
        profile = change(measured(recorded("tma-128")))
        assert [doubt for doubt in remarks.doubts(profile) if words in doubt], words
        warnings = compare([profile]).warnings
        assert [one for one in warnings if one.startswith("tma-128: ") and words in one], words
        outcomes = {check.outcome for check in judge.judge([profile], rules).checks}
        assert outcomes == {Outcome.inconclusive}, words


@pytest.mark.long
def test_doubts_are_about_what_they_are_about(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    doubtful = spoiled(profile, "LDSM", executed=0)
    assert remarks.about_counts(doubtful, "LDSM")
    assert remarks.about_counts(doubtful, "STS") == ""
    for duration in (0.0, -7.0):
        assert remarks.about_time(with_metrics(profile, {DURATION: duration}))
    for name in ("kernel1", "kernel2", "tma-128", "reference-attention"):
        assert remarks.doubts(recorded(name)) == [], "it was really measured"


def test_fewer_wavefronts_than_the_ideal_leave_the_excess_unknown(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    damaged = spoiled(profile, wavefronts=1)
    access = next(instruction for instruction in damaged.instructions if instruction.access)
    assert access.implausible
    assert (access.excessive, access.degree) == (None, None)
    assert profile.total.excessive == profile.total.wavefronts - profile.total.ideal > 0
    assert damaged.total.excessive is None, "and so is every total that contains it"


def test_a_library_s_kernel_without_lines_is_not_doubted(recorded: Recorded) -> None:
    bare = tuple(dataclasses.replace(one, stack=()) for one in recorded("kernel2").instructions)
    without_lines = dataclasses.replace(recorded("kernel2"), instructions=bare)
    assert remarks.about_counts(without_lines) == "", "its counts are as good as any"
    assert remarks.doubts(dataclasses.replace(without_lines, sources={})) == []
