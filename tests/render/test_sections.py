"""The sections of a report: counters, stalls, sources, instructions, findings."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ncu_swizzle.render import page as report
from ncu_swizzle.render import summary, tables
from ncu_swizzle.render.source import Panel, SourceLine
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Finding
from tests.support.pages import rendered, shown
from tests.support.recordings import KERNELS, Recorded


def test_counters_without_excess_are_called_phantoms(recorded: Recorded) -> None:
    claims = tables.phantoms(compare([recorded(name) for name in KERNELS]))
    assert list(claims) == ["kernel2", "reference-attention"]
    assert re.fullmatch(r"[\d,]+ loads, [\d,]+ stores", claims["kernel2"])


def test_bars_end_at_the_longest_of_their_kind(recorded: Recorded) -> None:
    page = report.render(compare([recorded("kernel1"), recorded("kernel2")]))
    ldsm = page[page.index('<th scope="rowgroup" class="name" rowspan="2">LDSM') :]
    widths = re.findall(r'<span class="(?:ideal|excess)" style="width:([^"]*)">', ldsm)
    assert widths[:4] == ["12.5%", "87.5%", "12.5%", "0%"]


def test_stalls_keep_the_order_of_change_and_fold_the_minor(recorded: Recorded) -> None:
    stalls = shown(recorded("kernel1"), recorded("kernel2")).stalls
    assert stalls.major[0].reason == "short_scoreboard"
    assert "bank conflicts" in tables.meaning(stalls.major[0].reason)
    assert (stalls.major[0].moved or 0) < 0
    assert "membar" in [row.reason for row in stalls.minor]


def test_where_the_stall_went_is_said_in_words(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    fell, went, largest = shown(before, after).stalls.sentences
    shares = [100 * p.stalls["short_scoreboard"] / sum(p.stalls.values()) for p in (before, after)]
    assert f"short_scoreboard fell from {shares[0]:.1f} % of kernel1's samples to {shares[1]:.1f} %" in fell
    assert f"{shares[0] / 100 * before.duration_ns / 1e6:.3f} ms → " in fell
    assert went.endswith(" grew instead.")
    assert "short_scoreboard" not in went
    waits = {reason: n for reason, n in after.stalls.items() if reason not in ("selected", "not_selected")}
    assert f"on {max(waits, key=lambda reason: waits[reason])}, " in largest


def test_the_bars_of_change_are_parts_of_the_largest_change(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    page = report.render(compare([before, after]))
    sides = r'"less"><span style="width:([^"]*)"></span></span><span class="more"><span style="width:([^"]*)"'
    bars = re.findall(sides, page[page.index('id="stalls"') :])
    assert bars[0] == ("100%", "0%")
    assert all("0%" in bar for bar in bars), "a bar has one side"
    assert shown(recorded("kernel1"), recorded("kernel1")).stalls.sentences[0].startswith("No stall reason changed")
    assert shown(recorded("kernel1")).stalls.sentences == ()


def test_every_recorded_stall_reason_is_explained(recorded: Recorded) -> None:
    stalls = shown(recorded("kernel1")).stalls
    assert [row.reason for row in (*stalls.major, *stalls.minor) if not tables.meaning(row.reason)] == []


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


def test_an_excess_is_counted_once_per_file_however_deep_its_calls(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    (panel,) = [p for p in shown(profile).panels if p.file.path == "kernels/attention/attention.cuh"]
    assert f"{profile.total.excessive:,} excessive" in panel.summary


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


def test_more_than_two_profiles_are_shown_at_a_glance(recorded: Recorded) -> None:
    rows = summary.overview(compare([recorded(name) for name in KERNELS]))
    assert [row.label for row in rows] == list(KERNELS)
    assert [row.excessive for row in rows] == ["1,886,388,224", "0", "0"]
    assert rows[0].pace == "1.00×"
    assert summary.overview(compare([recorded("kernel1"), recorded("kernel2")])) == ()


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


@pytest.mark.long
def test_findings_and_raw_metrics_are_there(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    finding = Finding(rule="SharedMemoryConflicts", kind="optimization", title="A title", message="A message")
    page = rendered(replace(profile, findings=(finding,)))
    assert "A message" in page.text
    assert all(name in page.text for name in profile.metrics)
    assert "Other ncu rules" in page.text
    assert "Other ncu rules" not in rendered(profile).text


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
