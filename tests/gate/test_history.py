"""A kernel over commits: what is kept on disk, what changed, what is good, and what is never compared."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, UsageError
from ncu_swizzle.gate import history
from ncu_swizzle.gate import tracks as tracking
from ncu_swizzle.gate.baseline import Baseline, Policy, parse_rule
from ncu_swizzle.gate.history import RUN, RunLabel
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.tracks import entries, to_json, tracks
from ncu_swizzle.gate.verdict import Outcome, Verdict
from ncu_swizzle.reports.model import Profile
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.gate_profiles import (
    COMMITS,
    HOSTILE,
    Given,
    as_k,
    measured,
    named,
    rows_of,
    run_of,
    track_of,
    unknown,
)
from tests.support.hostile import CHECKS
from tests.support.recordings import Recorded
from tests.support.reports import spoiled
from tests.support.repositories import git, repository


def test_the_commit_that_brought_a_conflict_is_marked_and_the_last_good_one_stays(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    track = track_of(run_of(2, bad), run_of(0, good), run_of(1, good), run_of(3, bad), run_of(4, good))
    assert [run.commit for run in track.runs] == list(COMMITS[:5]), "by the commits' own time"
    assert [run.good for run in track.runs] == [True, True, False, False, True]
    assert [bool(run.changes) for run in track.runs] == [False, False, True, False, True]
    excess = recorded("transpose-plain").total.excessive
    assert track.runs[2].changes == (f"LDS 0 → {excess:,} excessive",)
    assert track_of(run_of(0, good), run_of(1, bad)).last_good == track_of(run_of(0, good)).runs[0]


def test_counts_are_those_of_the_profile(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    (track,) = tracks(rows_of(run_of(0, profile)))
    found = {kind: (c.executed, c.wavefronts, c.ideal) for kind, c in track.runs[0].entry.accesses.items()}
    assert found == {kind: (t.executed, t.wavefronts, t.ideal) for kind, t in profile.accesses.items()}
    rows = rows_of(run_of(0, profile))
    excess = rows[rows.access == "LDSM"].assign(excess=rows.wavefronts - rows.ideal)
    worst = excess[excess.excess == excess.excess.max()]
    assert track.runs[0].lines["LDSM"] in {f"{row.file}:{row.line}" for row in worst.itertuples()}
    assert int(excess.excess.sum()) == profile.accesses["LDSM"].excessive


def test_growth_that_was_accepted_is_the_new_standard(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    track = track_of(run_of(0, good), run_of(1, bad), run_of(1, bad, accepted=True), run_of(2, bad))
    assert [run.good for run in track.runs] == [True, False, True, True]


def test_what_is_unknown_stays_unknown_and_is_not_good(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    track = track_of(run_of(0, good), run_of(1, unknown(good)), run_of(2, bad), run_of(3, unknown(good), good))
    assert [run.known for run in track.runs] == [True, False, True, False]
    assert track.runs[1].entry.excessive is None
    assert "ncu counted no wavefronts of 1 of its instructions" in track.runs[1].why
    assert track.runs[2].changes, "compared with the last run whose counts are known"
    assert track.last_good == track.runs[0]
    content = json.loads(to_json([track]))["kernels"][0]
    assert content["runs"][1]["unknown"] == track.runs[1].why
    assert {each["excessive"] for each in content["runs"][1]["accesses"]} == {None, 0}


def test_a_time_changed_if_it_moved_beyond_both_spreads(recorded: Recorded) -> None:
    profile = recorded("transpose-xor")
    slow = [as_k(profile, ms) for ms in (2.09, 2.1, 2.11)]
    track = track_of(run_of(0, as_k(profile)), run_of(1, as_k(profile, 2.07)), run_of(2, *slow), run_of(3, *slow),
                     run_of(4, as_k(profile, 1.5)))  # fmt: skip
    assert [run.changes for run in track.runs] == [(), (), (), (), ("time -28.6 %",)]
    assert [round(run.entry.spread, 2) for run in track.runs] == [2.0, 2.0, 0.48, 0.48, 2.0]


def test_unlike_machines_engines_and_sizes_are_tracks_of_their_own(recorded: Recorded) -> None:
    profile = as_k(recorded("transpose-xor"))
    others = (
        as_k(recorded("transpose-xor"), gpu="NVIDIA H200"), as_k(recorded("transpose-xor"), ncu="2024.1"),
        as_k(recorded("transpose-xor"), clock_control="base"), dataclasses.replace(profile, engine="recorded"),
        dataclasses.replace(profile, engine="emulated"), dataclasses.replace(profile, problem={"n": 64}),
    )  # fmt: skip
    for other in others:
        assert len(tracks(rows_of(run_of(0, profile), run_of(1, other)))) == 2
    computed = [dataclasses.replace(each, engine="emulated") for each in (profile, others[0])]
    assert len(tracks(rows_of(run_of(0, computed[0]), run_of(1, computed[1])))) == 1, "computed for the same GPUs"
    assert track_of(run_of(0, computed[0])).runs[0].duration_ns is None, "nothing was timed"


def test_a_run_is_the_same_whatever_its_file_and_its_day_if_it_was_computed(recorded: Recorded) -> None:
    profile = measured(recorded("kernel2"))
    moved, later = dataclasses.replace(profile, report="x"), dataclasses.replace(profile, when="2027-01-01T00:00:00")

    def name(*given: object, label: RunLabel = RunLabel(COMMITS[0]), engine: str = "ncu") -> str:
        return history.identity(history.table([dataclasses.replace(each, engine=engine) for each in given], label))

    assert name(profile) == name(moved) == name(profile, moved)
    assert name(profile) != name(later)
    assert name(profile, engine="emulated") == name(later, engine="emulated")
    dirty = RunLabel(f"{COMMITS[0]}-dirty")
    assert name(profile, label=dirty, engine="emulated") != name(later, label=dirty, engine="emulated")
    assert name(profile) != name(profile, label=RunLabel(COMMITS[1]))


def test_a_run_added_alone_and_with_others_counts_once(recorded: Recorded) -> None:
    first, second = measured(recorded("kernel1")), measured(recorded("kernel2"))
    found = tracks(rows_of(run_of(0, first), run_of(0, first, second)))
    assert [(track.kernel, len(track.runs)) for track in found] == [("kernel1", 1), ("kernel2", 1)]


def test_the_page_shows_hostile_names_harmlessly_and_every_run(recorded: Recorded) -> None:
    profile = named(measured(recorded("kernel1")), HOSTILE)
    track = track_of(run_of(0, profile), run_of(1, unknown(profile)), run_of(2, profile))
    html = tracking.render([track])
    CHECKS["html"](html)
    assert html.count('<th scope="row"') == 3
    assert 'class="unknown"' in html
    assert html == tracking.render([track])
    CHECKS["json"](to_json([track]))


FOLDER = Path("h")


def judged(now: Profile, *given: Given, limits: tuple[str, ...] = (), allow_recorded: bool = False) -> Verdict:
    rules = tuple(parse_rule("max-regression", limit) for limit in limits)
    kept = Baseline(tuple(entries(tracks(rows_of(*given)))), FOLDER, history=True)
    return judge([now], Policy(rules=rules, allow_recorded=allow_recorded, history=FOLDER), history=kept)


def test_any_growth_of_any_access_kind_fails_and_nothing_else(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    assert judged(good, run_of(0, good)).outcome is Outcome.passed
    assert judged(good, run_of(0, bad)).outcome is Outcome.passed, "better"
    (check,) = judged(bad, run_of(0, good)).checks
    assert (check.outcome, check.criterion, check.origin) == (Outcome.failed, "history", "h")
    assert f"LDS has {bad.total.excessive:,} more" in check.message
    assert check.hint == "if this is intended: ncu-swizzle history add PROFILE… --accept"


def test_growth_of_one_kind_fails_even_if_another_shrank_by_more(recorded: Recorded) -> None:
    before = as_k(recorded("kernel1"))
    first = {row.access: row.wavefronts or 0 for row in reversed(before.instructions)}
    fewer = spoiled(before, "LDSM", wavefronts=first["LDSM"] - 10)
    (check,) = judged(spoiled(fewer, "STS", wavefronts=first["STS"] + 10), run_of(0, before)).checks
    assert check.outcome is Outcome.failed
    assert "STS has 10 more" in check.message


def test_the_last_good_run_is_compared_with_not_the_last(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    assert judged(bad, run_of(0, good), run_of(1, bad)).outcome is Outcome.failed
    assert judged(bad, run_of(0, good), run_of(1, bad, accepted=True)).outcome is Outcome.passed
    assert judged(good, run_of(0, bad), run_of(1, unknown(good))).outcome is Outcome.passed


def test_unlike_engines_and_kernels_are_never_compared_and_unknown_stays_unknown(recorded: Recorded) -> None:
    now = as_k(recorded("transpose-xor"))
    emulated, old = (dataclasses.replace(now, engine=engine) for engine in ("emulated", "recorded"))
    for before in (emulated, old, named(now, "other"), unknown(now)):
        verdict = judged(now, run_of(0, before), allow_recorded=True)
        assert verdict.outcome is Outcome.inconclusive
        assert "has no good run of it with the engine ncu" in verdict.checks[0].message
    assert judged(unknown(now), run_of(0, now)).outcome is Outcome.inconclusive
    assert judged(emulated, run_of(0, emulated)).outcome is Outcome.passed


@needs_fleet
def test_what_was_added_is_read_back_and_a_run_is_kept_once(recorded: Recorded, tmp_path: Path) -> None:
    profiles = [measured(recorded("kernel1")), named(measured(recorded("kernel2")), f"{HOSTILE}\udcff")]
    label, _ = run_of(0)
    file, new = history.add(profiles, tmp_path / "h", label)
    before = file.read_bytes()
    assert (new, history.add(profiles, tmp_path / "h", label)) == (True, (file, False))
    assert file.read_bytes() == before
    rows = history.load(tmp_path / "h")
    pd.testing.assert_frame_equal(rows.drop(columns=RUN), history.table(profiles, label), check_column_type=False)
    assert set(rows[RUN]) == {file.stem}
    history.add(profiles[:1], tmp_path / "h", RunLabel(COMMITS[1]))
    assert len(history.load(tmp_path / "h")[RUN].unique()) == 2


@pytest.mark.long
@needs_fleet
def test_two_who_add_at_once_keep_both(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("kernel1", "kernel2"):
        measured(recorded(name)).save(tmp_path / f"{name}.json")
    words = [sys.executable, "-m", "ncu_swizzle", "history", "add"]
    added = [[*words, f"{name}.json", "--commit", COMMITS[0]] for name in ("kernel1", "kernel2", "kernel1")]
    running = [subprocess.Popen(each, cwd=tmp_path, env=process.environment()) for each in added]
    assert [each.wait(120) for each in running] == [0, 0, 0]
    assert len(list((tmp_path / "ncu-swizzle-history").iterdir())) == 2
    assert set(history.load(tmp_path / "ncu-swizzle-history")["kernel"]) == {"kernel1", "kernel2"}


@needs_fleet
def test_a_damaged_or_changed_file_is_named(recorded: Recorded, tmp_path: Path) -> None:
    file, _ = history.add([measured(recorded("kernel1"))], tmp_path, RunLabel(COMMITS[0]))
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFile, match=f"{file.name} is damaged"):
        history.load(tmp_path)
    file.write_bytes(content)
    changed = history.load(tmp_path).drop(columns=RUN).assign(ideal=1)
    changed.to_parquet(file, index=False)
    with pytest.raises(DamagedFile, match="was changed after it was written"):
        history.load(tmp_path)
    for column, value, said in (
        ("problem", "n", "problem is 'n'"),
        ("ideal", -1, "negative"),
        ("launch", None, "unknown"),
    ):
        wrong = changed.assign(**{column: pd.array([value] * len(changed), dtype=changed[column].dtype)})
        file.unlink()
        file = tmp_path / f"{history.identity(wrong)}.parquet"
        wrong.to_parquet(file, index=False)
        with pytest.raises(DamagedFile, match=said):
            history.load(tmp_path)


@needs_fleet
def test_a_folder_without_runs_is_no_history(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(BadFile, match=r"has no runs|is not a folder"):
            history.load(folder)
    with pytest.raises(UsageError, match="nothing can be added"):
        history.add([], tmp_path, RunLabel())


def test_without_pyarrow_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentLacking, match="pyarrow is not installed"):
        history.load(tmp_path)


def test_the_commit_is_the_named_one_or_that_of_the_profiles(recorded: Recorded, tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 2, planted=None)
    profile = measured(recorded("kernel1"))
    inside, outside = tmp_path / "r", tmp_path
    made = history.in_utc(git(inside, "log", "-1", "--format=%cI").strip())
    assert history.label_of("HEAD", False, [profile], inside) == RunLabel(names[1], made)
    assert history.label_of(names[0][:9], True, [profile], inside).commit == names[0]
    assert history.label_of("", False, [profile], outside) == RunLabel(profile.commit)
    assert history.label_of(names[0], False, [profile], outside) == RunLabel(names[0])
    for folder in (inside, outside):
        with pytest.raises(UsageError, match=r"git knows no commit|is not in a git repository"):
            history.label_of("no-such-branch", False, [profile], folder)
