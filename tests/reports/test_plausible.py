"""Impossible figures are refused where they are read; doubtful ones are told and never judged; large ones are exact."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from ncu_swizzle.gate import baseline, judge
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.verdict import Outcome
from ncu_swizzle.render.formats import to_csv
from ncu_swizzle.reports import remarks, run_folder
from ncu_swizzle.reports.comparison import SHARED_PIPE, compare
from ncu_swizzle.reports.frames import of_comparison, of_profile
from ncu_swizzle.reports.model import DURATION, IDEAL, WAVEFRONTS, Profile
from tests.support.gate_profiles import measured
from tests.support.recordings import Recorded
from tests.support.reports import spoiled
from tests.support.shown import with_metrics

Change = Callable[[Profile], Profile]


MOST = (1 << 64) - 1  # what ncu stores is unsigned: a negative count would read like this


def extremes(profile: Profile) -> Profile:
    return with_metrics(spoiled(profile, wavefronts=MOST, pc=MOST, samples={"barrier": MOST}), {WAVEFRONTS: MOST})


def test_the_largest_numbers_of_a_report_are_exact_in_every_table(recorded: Recorded, tmp_path: Path) -> None:
    extremes(recorded("kernel2")).save(tmp_path / "p.json")
    read = run_folder.load_profile(tmp_path / "p.json")
    table, both = of_profile(read), of_comparison(compare([read, recorded("kernel1")]))
    for column in (table["wavefronts"], table["pc"], table["stall_barrier"], both["stall_barrier"]):
        assert column.dropna().max() == MOST
    assert str(both["executed"].dtype) == "Int64"
    assert of_profile(read, "accesses")["wavefronts"].max() >= MOST, "a sum of more than 64 bits"
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
