"""The sections of a report that are about lines and instructions: sources, counts, findings."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.emulate.events import Step, Timeline
from ncu_swizzle.render import page, source, tables, text
from ncu_swizzle.render.colours import Colours
from ncu_swizzle.render.source import Panel, SourceLine
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Finding, Profile, UnknownCounts
from ncu_swizzle.reports.options import EMULATED
from tests.support.gate_profiles import scattered
from tests.support.pages import rendered, shown
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY
from tests.support.shown import sampled


def test_every_recorded_stall_reason_is_explained(recorded: Recorded) -> None:
    stalls = shown(recorded("kernel1")).stalls
    assert [row.reason for row in (*stalls.major, *stalls.minor) if not tables.meaning(row.reason)] == []


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


def labels(panel: Panel) -> list[str]:
    return [counts.label for counts in panel.columns]


def all_lines(panel: Panel) -> list[SourceLine]:
    return [line for block in panel.blocks for line in block.lines]


def test_one_text_of_two_profiles_is_one_panel(recorded: Recorded) -> None:
    built = shown(recorded("kernel1"), recorded("kernel2"))
    shared = [panel for panel in built.panels if panel.file.path == "kernels/attention/attention.cuh"]
    assert [labels(panel) for panel in shared] == [["kernel1", "kernel2"]]
    source = recorded("kernel1").sources["kernels/attention/attention.cuh"]
    assert ["".join(t.text for t in line.tokens) for line in all_lines(shared[0])] == source.splitlines()


def test_two_versions_of_one_file_are_aligned(recorded: Recorded) -> None:
    path = "kernels/attention/attention.cuh"
    before, after = recorded("kernel1"), recorded("kernel2")
    source = after.sources[path]
    moved = {place: i.stack for place, i in enumerate(after.instructions)}
    stacks = {n: tuple((f, line + 2 if f == path else line) for f, line in stack) for n, stack in moved.items()}
    edited = replace(
        after,
        sources={**after.sources, path: f"// edited\n// twice\n{source}"},
        instructions=tuple(replace(i, stack=stacks[n]) for n, i in enumerate(after.instructions)),
    )
    (panel,) = [panel for panel in shown(before, edited).panels if panel.file.path == path]
    assert labels(panel) == ["kernel1", "kernel2"]
    assert [panel.file.mark(line.number) for line in all_lines(panel)[:3]] == ["+", "+", ""]
    assert ["".join(t.text for t in line.tokens) for line in all_lines(panel)[2:]] == source.splitlines()
    (line,) = [line for line in all_lines(panel) if panel.file.shown(line.number) == "89→91"]
    assert panel.file.numbers(line.number) == (89, 91)
    assert [column.lines[line.number] for column in panel.columns] == [
        p.lines[path, number] for p, number in ((before, 89), (edited, 91))
    ]
    assert panel.file.shown(panel.worst[0].number) == "89→91"


def test_two_texts_that_have_little_in_common_are_two_panels(recorded: Recorded) -> None:
    path = "kernels/attention/attention.cuh"
    after = recorded("kernel2")
    edited = replace(after, sources={path: "\n".join(f"// other {n}" for n in range(300))})
    paths = [panel.file.path for panel in shown(recorded("kernel1"), edited).panels]
    assert paths.count(path) == 2


def test_the_worst_file_comes_first_and_the_worst_line_is_linked(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    built = shown(profile)
    panel, number = built.panels[0], built.panels[0].worst[0].number
    assert panel.file.path == "kernels/attention/attention.cuh"
    assert built.worst == f"{panel.key}-{number}"
    assert "ldmatrix" in "".join(token.text for token in all_lines(panel)[number - 1].tokens)
    bar = [float(width) for width in re.findall(r"--[ix]:([\d.]+)%", panel.bars(panel.columns[0], number))]
    assert sum(bar) == pytest.approx(100, abs=0.01)


def test_lines_that_do_not_matter_are_folded_and_none_is_lost(recorded: Recorded) -> None:
    built = shown(recorded("kernel1"), recorded("kernel2"))
    panel = built.panels[0]
    assert [line for block in panel.blocks for line in block.lines] == list(all_lines(panel))
    assert {block.folded for block in panel.blocks} == {True, False}
    for one in built.panels:
        visible = {line.number for block in one.blocks if not block.folded for line in block.lines}
        assert {jump.number for jump in one.worst} <= visible
    folded = [line for block in panel.blocks if block.folded for line in block.lines]
    assert not [line for line in folded for c in panel.columns if line.number in c.lines and c.accesses(line.number)]


@pytest.mark.long
def test_a_text_of_many_profiles_has_columns_for_some_and_names_the_others(recorded: Recorded) -> None:
    panel = shown(*[recorded("kernel1")] * 6).panels[0]
    assert (len(panel.columns), len(panel.file.counts)) == (4, 6)
    assert "2 more profiles were built from this source" in rendered(*[recorded("kernel1")] * 6).text


def test_lines_of_a_file_without_its_text_are_shown_all_the_same(recorded: Recorded) -> None:
    bare = replace(recorded("kernel1"), sources={})
    panel = shown(bare).panels[0]
    assert panel.file.text is None
    assert all(line.counted for line in all_lines(panel))
    assert "does not embed this file's text" in rendered(bare).text


def test_instructions_are_worst_first_from_the_first_pc(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    (table,) = shown(profile).instructions
    worst = max(profile.shared(), key=lambda i: (i.excessive or 0, -i.pc))
    assert table.rows[0] == worst
    assert table.start == profile.instructions[0].pc
    assert len(table.rows) == sum(1 for i in profile.instructions if i.access)
    assert f"0x{worst.pc - table.start:04x}" in rendered(profile).text


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


FILE = "k.cu"


def profile_of(*instructions: Instruction) -> Profile:
    lines = "\n".join(f"line {number};" for number in range(1, 10))
    return replace(EMPTY, engine=EMULATED, instructions=instructions, sources={FILE: lines})


def access(line: int, wavefronts: int | None, ideal: int | None = 1, kind: str = "LDS") -> Instruction:
    return Instruction(16 * line, f"{kind} R0", kind, kind, ((FILE, line),), 1, wavefronts, ideal)


def panels(*profiles: Profile) -> Sequence[Panel]:
    return source.panels(compare(list(profiles)), Colours())[0]


MIXED = profile_of(access(3, 1), access(5, 8, 1, "STS"), access(5, None, None))
UNKNOWN = profile_of(access(3, None, None), access(5, None, None))


def test_a_line_with_known_excess_among_unknown_counts_is_linked() -> None:
    (panel,) = panels(MIXED)
    assert [(jump.number, jump.why) for jump in panel.worst] == [(5, "7 excessive")]
    (counts,) = panel.columns
    assert text.summed(counts.lines[5], "wavefronts") == "at least 8"
    assert source.brief(counts.lines[5]) == "≥ 7"
    assert text.summed(counts.lines[3], "wavefronts") == "1"


def test_the_worst_lines_are_those_of_one_profile() -> None:
    (panel,) = panels(profile_of(access(3, 6), access(5, 8)), profile_of(access(3, 6), access(5, 1)))
    assert [jump.number for jump in panel.worst] == [5, 3]
    assert [jump.why for jump in panel.worst] == ["7 excessive in bare #1", "5 excessive in bare #1"]


def test_two_versions_with_unknown_counts_are_aligned() -> None:
    after = replace(UNKNOWN, sources={FILE: UNKNOWN.sources[FILE].replace("line 4;", "line 4;\nnew line;")})
    (panel,) = panels(UNKNOWN, after)
    assert panel.file.pairs


def test_the_page_opens_on_a_file_that_it_holds() -> None:
    header = ("/usr/local/cuda/include/crt/mma.hpp", 91)
    inlined = Instruction(16, "LDSM R0", "LDSM", "LDSM", (header, (FILE, 5)), 1, 8, 1)
    first, second = panels(profile_of(inlined))
    assert (first.file.path, first.open, bool(first.file.text)) == (FILE, True, True)
    assert [jump.number for jump in first.worst] == [5]
    assert (second.file.path, second.open) == (header[0], False)


def test_a_line_and_an_instruction_with_few_samples_are_grey(recorded: Recorded) -> None:
    profile = sampled(recorded("kernel1"), short_scoreboard=2, wait=1)
    built = shown(profile)
    classes = [value for value in rendered(profile).values("class") if value.startswith("heat")]
    assert len(classes) > 10
    assert all("few" in value or value == "heat" for value in classes), "heads of columns are not grey"
    (row,) = [row for table in built.instructions for row in table.rows if tables.top_stall(row)]
    assert (tables.top_stall(row), row.all_samples) == ("short_scoreboard 66.7 %", 3)
    assert '<td class="few">short_scoreboard 66.7 %' in page.render(compare([profile]))
    assert "of its 3 samples" in built.panels[0].summary


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
