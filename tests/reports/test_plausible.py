"""Numbers that cannot be: refused as damaged where they are read, exact in tables where they can."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import DamagedFile
from ncu_swizzle.gate import baseline
from ncu_swizzle.render.formats import to_csv
from ncu_swizzle.reports import container, run_folder, sanity
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.frames import of_comparison, of_profile
from ncu_swizzle.reports.model import DURATION, STALLED, WAVEFRONTS, Finding, Metric, Profile
from tests.support.gate_profiles import measured
from tests.support.process import command
from tests.support.recordings import Recorded

Change = Callable[[Profile], Profile]


def first(profile: Profile, **fields: Any) -> Profile:
    """Return the profile with other fields of its first access."""
    number = next(number for number, one in enumerate(profile.instructions) if one.access)
    changed = list(profile.instructions)
    changed[number] = dataclasses.replace(changed[number], **fields)
    return dataclasses.replace(profile, instructions=tuple(changed))


def metric(profile: Profile, name: str, value: float) -> Profile:
    return dataclasses.replace(profile, metrics={**profile.metrics, name: Metric(value)})


IMPOSSIBLE: dict[str, Change] = {
    "negative wavefronts": lambda p: first(p, wavefronts=-1),
    "negative ideal": lambda p: first(p, ideal=-(1 << 40)),
    "negative executions": lambda p: first(p, executed=-1),
    "negative samples": lambda p: first(p, samples={"barrier": -3}),
    "negative address": lambda p: first(p, pc=-16),
    "negative line": lambda p: first(p, stack=(("a.cu", -1),)),
    "negative place": lambda p: first(p, at=-1),
    "count of 10^20": lambda p: first(p, wavefronts=10**20),
    "address of 2^64": lambda p: first(p, pc=1 << 64),
    "samples of 10^30": lambda p: first(p, samples={"barrier": 10**30}),
    "negative grid": lambda p: dataclasses.replace(p, launch=dataclasses.replace(p.launch, grid=(-1, 1, 1))),
    "negative index": lambda p: dataclasses.replace(p, launch=dataclasses.replace(p.launch, index=-1)),
    "negative size": lambda p: dataclasses.replace(p, problem={"n": -1}),
    "size of 10^30": lambda p: dataclasses.replace(p, problem={"n": 10**30}),
    "negative SMs": lambda p: dataclasses.replace(p, machine=dataclasses.replace(p.machine, sm_count=-1)),
    "negative error": lambda p: dataclasses.replace(p, errors={"y": -1.0}),
    "infinite error": lambda p: dataclasses.replace(p, errors={"y": float("inf")}),
    "negative duration": lambda p: metric(p, DURATION, -7.0),
    "negative total": lambda p: metric(p, WAVEFRONTS, -7),
    "negative stalls": lambda p: metric(p, STALLED + "barrier", -7),
    "negative dimension": lambda p: metric(p, "launch__grid_dim_x", -7),
    "infinite metric": lambda p: metric(p, DURATION, float("inf")),
    "metric that is NaN": lambda p: metric(p, WAVEFRONTS, float("nan")),
    "metric of 10^30": lambda p: metric(p, WAVEFRONTS, 10**30),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_numbers_are_refused_when_a_profile_is_read(name: str, recorded: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    IMPOSSIBLE[name](recorded("kernel2")).save(file)
    with pytest.raises(DamagedFile, match=r"p\.json is damaged"):
        run_folder.load_profile(file)


def test_fewer_wavefronts_than_the_ideal_leave_the_excess_unknown(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    damaged = first(profile, wavefronts=1)
    access = next(instruction for instruction in damaged.instructions if instruction.access)
    assert access.implausible
    assert (access.excessive, access.degree) == (None, None)
    assert profile.total.excessive == profile.total.wavefronts - profile.total.ideal > 0
    assert damaged.total.excessive is None, "and so is every total that contains it"


def test_a_refused_profile_ends_every_command(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("negative wavefronts", "count of 10^20", "address of 2^64"):
        IMPOSSIBLE[name](recorded("kernel2")).save(tmp_path / "p.json")
        for words in ("report p.json --csv -", "compare p.json p.json", "check p.json", "rules apply p.json"):
            done = command(*words.split(), folder=tmp_path)
            assert done.returncode == 2, (words, done.stderr)
            assert "p.json is damaged" in done.stderr


def test_the_largest_numbers_of_a_report_are_exact_in_every_table(recorded: Recorded, tmp_path: Path) -> None:
    most = (1 << 64) - 1  # what ncu stores is unsigned: a negative count would read like this
    profile = first(recorded("kernel2"), wavefronts=most, pc=most, samples={"barrier": most})
    profile = metric(profile, WAVEFRONTS, most)
    profile.save(tmp_path / "p.json")
    read = run_folder.load_profile(tmp_path / "p.json")
    table = of_profile(read)
    assert table["wavefronts"].dropna().max() == most
    assert table["pc"].dropna().max() == most
    assert table["stall_barrier"].dropna().max() == most
    both = of_comparison(compare([read, recorded("kernel1")]))
    assert both["stall_barrier"].dropna().max() == most
    assert str(both["executed"].dtype) == "Int64"
    assert of_profile(read, "accesses")["wavefronts"].max() >= most, "a sum of more than 64 bits"
    assert str(most) in to_csv(compare([read]))
    assert any("its counts are unreliable" in doubt for doubt in sanity.doubts(read))
    for words in ("report p.json --csv -", "report p.json --json -", "report p.json --markdown -", "report p.json"):
        done = command(*words.split(), folder=tmp_path)
        assert done.returncode == 0, (words, done.stderr)


def test_a_baseline_with_impossible_numbers_is_damaged(recorded: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    for path, value in (
        (("accesses", "LDSM", "wavefronts"), -1),
        (("accesses", "LDSM", "ideal"), 10**20),
        (("durations_ns",), [-1.0]),
        (("durations_ns",), [float("nan")]),
        (("problem", "seq"), -1),
    ):
        entry = json.loads(baseline.Baseline((baseline.entry_of([measured(recorded("kernel2"))]),)).to_json())
        kernel = entry["kernels"][0]
        place = kernel
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        del kernel["digest"]
        kernel["digest"] = cache.sha256_of_json(kernel)
        file.write_text(json.dumps(entry), encoding="utf-8")
        with pytest.raises(DamagedFile, match=r"b\.json is damaged"):
            baseline.load(file)


def test_facts_with_impossible_numbers_are_damaged() -> None:
    for content in ({"problem": {"n": -1}}, {"problem": {"n": 1 << 64}}, {"errors": {"k": {"y": -0.5}}}):
        assert container._wrong_facts(content)
    assert not container._wrong_facts({"problem": {"n": 4096}, "errors": {"k": {"y": 0.0}}})


def test_a_share_that_rounds_to_zero_is_no_doubt(recorded: Recorded) -> None:
    name = "dram__bytes.sum.pct_of_peak_sustained_elapsed"
    assert sanity.doubts(metric(recorded("kernel2"), name, -0.01)) == []
    assert sanity.doubts(metric(recorded("kernel2"), name, -1.0)) != []


def test_a_note_about_values_that_no_figure_needs_is_an_aside(recorded: Recorded) -> None:
    def noted(name: str) -> Profile:
        note = Finding(rule=sanity.NOTE, kind="warning", title=sanity.TITLE, message=f"{sanity.NOT_MEASURED}{name}.")
        return dataclasses.replace(recorded("kernel2"), findings=(note,))

    minor, major = compare([noted("pcie__read_bytes.sum")]), compare([noted(DURATION)])
    assert minor.asides == minor.warnings == ("kernel2: ncu wrote NaN for pcie__read_bytes.sum.",)
    assert major.asides == ()
    assert len(major.warnings) == 1
