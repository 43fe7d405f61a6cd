"""Sections that tests/data/shown does not have, and reports with many kernels or without metrics, in all formats."""

import csv
import dataclasses
import io
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ncu_swizzle.base.timeline import Step, Timeline
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.render import formats, tables
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import pack, pairing
from ncu_swizzle.reports.comparison import Comparison, JobResult, compare
from ncu_swizzle.reports.model import NEEDED, STALLED, Finding, LaunchId, Profile, UnknownCounts
from tests.support.gate_profiles import scattered
from tests.support.pages import Page, rendered
from tests.support.pages import shown as view
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY, ENGINE, laid_out, program, shown, without
from tests.support.shown import counted, inlined


@pytest.mark.long
def test_a_timeline_is_drawn_with_the_lines_of_its_steps(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    first = profile.instructions[0]
    reads = Step(row=0, start=1, end=2, does="reads", stage=0, offset=first.pc)
    timeline = Timeline(rows=("<b>", "warp 4"), stages=(((0x400, 0x800),),), steps=(reads,), cut=True)
    drawn = replace(profile, timeline=timeline)
    texts = rendered(drawn).texts
    assert f"<b> reads, stage 0: {tables.source_of(first)}" in texts
    assert "0x400-0x7ff" in texts
    assert "Timeline" in texts
    assert "Timeline" not in rendered(profile).texts
    assert Profile.from_json(drawn.to_json()) == drawn


@pytest.mark.long
def test_the_rule_pack_s_findings_are_there_word_by_word(recorded: Recorded) -> None:
    profiles = [recorded("kernel1"), recorded("kernel2")]
    page = rendered(*profiles)
    for profile in profiles:
        for finding in pack.findings(profile):
            assert finding.message in page.text
    cost = next(one for one in pack.findings(profiles[0]) if one.rule == "ConflictCost")
    assert f"{cost.saving:.1f} % of the duration, {cost.low:.1f} % to {cost.high:.1f} %" in page.text
    assert "@source:" not in page.text
    inside = Finding(rule="SharedExcess", kind="optimization", title="As ncu ran it", message="Said twice")
    assert "Said twice" not in rendered(replace(profiles[0], findings=(inside,))).text


def test_the_page_opens_on_a_file_that_it_holds() -> None:
    header = ("/usr/local/cuda/include/crt/mma.hpp", 91)
    first, second = view(inlined(counted((5, 8, 1, "LDSM")), header)).panels
    assert (first.file.path, first.open, [jump.number for jump in first.worst]) == ("k.cu", True, [5])
    assert (second.file.path, second.open) == (header[0], False)


@pytest.mark.long
def test_the_first_picture_has_shared_and_global_memory_side_by_side(recorded: Recorded) -> None:
    bad, good = recorded("kernel1"), recorded("kernel2")
    pages = {
        "only shared": rendered(bad, good),
        "both": rendered(scattered(bad, 1), scattered(good, 3)),
        "one unknown": rendered(scattered(bad, 1), unknown_sectors(scattered(good, 3))),
    }
    assert "Sectors of global memory" not in pages["only shared"].text
    accesses = sum(each.access == "LDGSTS" for each in good.instructions)
    assert "0 excessive, 1.00 for each ideal one" in pages["both"].text
    assert f"{200 * accesses:,} excessive, 3.00 for each ideal one" in pages["both"].text
    assert f"at least {200 * (accesses - 1):,} excessive" in pages["one unknown"].text
    assert "3.00 for each ideal one" not in pages["one unknown"].text


def unknown_sectors(profile: Profile) -> Profile:
    """Return the profile without the sectors of its first copy."""
    first = next(each for each in profile.instructions if each.access == "LDGSTS")
    rows = tuple(replace(each, traffic=Traffic()) if each is first else each for each in profile.instructions)
    why = UnknownCounts(code="UN001", reason="its address", remedy="", offsets=(first.pc,))
    return replace(profile, instructions=rows, unknown_traffic=(why,))


@pytest.mark.long
def test_the_page_lists_all_and_shows_the_worst(recorded: Recorded) -> None:
    result = laid_out(program(recorded, times=8))
    html = report.render_all(result.comparisons, ["A note."], "a program")
    page = Page(html)
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    assert max(ids.values()) == 1, "labels repeat, names in links must not"
    for target in page.values("href"):
        assert target.removeprefix("#") in ids
    assert page.tags["tr"] > 32
    for text in ("All 32 launches", "A note.", "rows<float> #8", "16 of 32 launches have"):
        assert text in page.text
    assert html == report.render_all(result.comparisons, ["A note."], "a program")
    assert page.values("type").count("application/gzip") == len(pairing.worst(result.comparisons, 8)) == 4
    assert len(set(page.values("data-label"))) == 4


@pytest.mark.long
def test_markdown_json_and_csv_have_every_launch(recorded: Recorded) -> None:
    result = laid_out(program(recorded), program(recorded)[:3])
    data = json.loads(formats.to_json(result))
    assert [one["launch"] for one in data["kernels"]] == [[0, 0], [1, 1], [2, 2], [3]]
    assert [len(one["profiles"]) for one in data["comparisons"]] == [2, 2, 2, 1]
    rows = list(csv.DictReader(io.StringIO(formats.to_csv(*result.comparisons))))
    assert len(rows) == sum(len(p.instructions) for one in result.comparisons for p in one.profiles)
    assert {row["profile"] for row in rows} >= {"rows<float>: run0", "rows<float>: run1", "copy: run0"}
    many = formats.render_all(laid_out(program(recorded, times=100)).comparisons)
    assert len(many.encode()) < 65_536


@pytest.mark.parametrize("workload", ["kernel", "range", "graph", "command list"])
def test_nothing_at_all_is_shown_with_the_command_that_would_help(workload: str) -> None:
    bare = dataclasses.replace(EMPTY, launch=LaunchId(workload=workload))
    for result in (laid_out([bare]), laid_out([bare, bare]), laid_out([bare, bare], [bare, bare])):
        page = Page(report.render_all(result.comparisons, result.notes))
        assert "-- PROGRAM" in page.text
        assert "Not in the report" in page.text
        assert "-- PROGRAM" in " ".join(shown(result, 1000).split())
        formats.render_all(result.comparisons, result.notes)
        json.loads(formats.to_json(result))
        formats.to_csv(*result.comparisons)
    if workload != "kernel":
        assert f"no per-instruction counts for a {workload}" in laid_out([bare]).comparison.warnings[0]


@pytest.mark.long
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gone=st.sets(st.sampled_from([*NEEDED[:4], STALLED, "launch__", "device__", "l1tex__", "sm", "lts", "dram"])),
       keep_instructions=st.booleans(), stacks=st.booleans())  # fmt: skip
def test_whatever_is_missing_nothing_crashes(
    gone: set[str], keep_instructions: bool, stacks: bool, recorded: Recorded
) -> None:
    whole = recorded("transpose-plain")
    poor = without(whole, *sorted(gone)) if gone else whole
    if not keep_instructions:
        poor = dataclasses.replace(poor, instructions=())
    if not stacks:
        bare = tuple(dataclasses.replace(i, stack=()) for i in poor.instructions)
        poor = dataclasses.replace(poor, instructions=bare, sources={})
    missing = set(poor.missing)
    assert missing == {name for name in NEEDED if any(name.startswith(part) for part in gone)}
    for comparison in (compare([poor]), compare([whole, poor]), compare([poor, whole])):
        _show_everywhere(comparison, missing)
    together = laid_out([poor, whole], [whole, poor])
    Page(report.render_all(together.comparisons, together.notes))
    shown(together)
    formats.render_all(together.comparisons, together.notes)


def _show_everywhere(comparison: Comparison, missing: set[str]) -> None:
    result = JobResult(comparisons=(comparison,), engine=ENGINE)
    page = Page(report.render(comparison))
    assert ("Not in the report" in page.text) == bool(missing)
    for name in missing:
        assert name in page.text
        assert name in " ".join(shown(result, 2000).split())
    for text in (page.text, shown(result), formats.render_all([comparison])):
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    json.loads(formats.to_json(result))
    formats.to_csv(comparison)
