"""Sections of a report that tests/data/shown does not have: timelines, findings, memory beside shared memory."""

from dataclasses import replace

from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.emulate.events import Step, Timeline
from ncu_swizzle.render import tables
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.model import Finding, Profile, UnknownCounts
from tests.support.gate_profiles import scattered
from tests.support.pages import rendered, shown
from tests.support.recordings import Recorded
from tests.support.shown import counted, inlined


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
    first, second = shown(inlined(counted((5, 8, 1, "LDSM")), header)).panels
    assert (first.file.path, first.open, [jump.number for jump in first.worst]) == ("k.cu", True, [5])
    assert (second.file.path, second.open) == (header[0], False)


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
