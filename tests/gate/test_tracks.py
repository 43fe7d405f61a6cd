"""A kernel over commits: what changed, what is good, and what is never compared."""

import dataclasses
import json

from ncu_swizzle.gate import history, history_page
from ncu_swizzle.gate.history import RunLabel
from ncu_swizzle.gate.tracks import to_json, tracks
from tests.support.gate_profiles import COMMITS, HOSTILE, as_k, measured, named, rows_of, run_of, track_of, unknown
from tests.support.hostile import CHECKS
from tests.support.recordings import Recorded


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
    html = history_page.render([track])
    CHECKS["html"](html)
    assert html.count('<th scope="row"') == 3
    assert 'class="unknown"' in html
    assert html == history_page.render([track])
    assert 'class="band"' in html
    CHECKS["json"](to_json([track]))
