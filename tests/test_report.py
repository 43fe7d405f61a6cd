"""The report as text: complete, well-formed, harmless, and the same every time."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ncu_swizzle.pack import bridge
from ncu_swizzle.render.view import document
from ncu_swizzle.render import page as report
from ncu_swizzle.profiles.comparison import SHARED_PIPE, compare
from ncu_swizzle.profiles.model import DURATION, IDEAL, WAVEFRONTS, Finding, Kernel, Machine, Metric, Profile
from ncu_swizzle.render.view import text
from ncu_swizzle.render.view.source import Token

KERNELS = ("kernel1", "kernel2", "reference-attention")
HOSTILE = "</script><img src=x onerror=alert(1)>"
VOID = {"meta", "link", "br", "img", "input", "hr"}
EMPTY = Profile(
    engine="ncu",
    kernel=Kernel("bare", ""),
    problem={},
    machine=Machine(),
    when="",
    command="",
    report="",
    report_sha256="",
    errors={},
    metrics={},
    instructions=(),
)

Recorded = Callable[[str], Profile]


class Page(HTMLParser):
    """What a page consists of; fails where an element is not closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


@pytest.fixture(scope="module")
def html(recorded: Recorded) -> str:
    return report.render(compare([recorded(name) for name in KERNELS]))


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def shown(*profiles: Profile) -> document.Report:
    return document.build(compare(profiles), report.highlight, report.declared_tiles)


def rendered(*profiles: Profile) -> Page:
    return Page(report.render(compare(profiles)))


# ------------------------------------------------------------------------------------------- the page as a whole


def test_it_is_the_same_every_time_and_small(html: str, recorded: Recorded) -> None:
    assert report.render(compare([recorded(name) for name in KERNELS])) == html
    assert len(report.render(compare([recorded(name) for name in KERNELS[:2]])).encode()) < 1_000_000


def test_it_needs_nothing_from_elsewhere(html: str, page: Page) -> None:
    assert all(target.startswith("#") for target in page.values("href"))
    assert page.values("src") == []
    assert not set(page.tags) & {"link", "img", "iframe", "object", "base", "form"}
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_one_script_may_run_and_it_is_the_one_that_the_policy_names(page: Page) -> None:
    *data, script = page.scripts
    assert page.values("type").count("application/json") == len(data) == len(KERNELS)
    assert page.tags["script"] == len(data) + 1
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    assert f"script-src 'sha256-{digest}';" in policy
    assert not re.search(
        r"eval|innerHTML|outerHTML|insertAdjacent|fetch\(|XMLHttp|localStorage|cookie|import\(", script
    )


def test_the_profiles_within_are_the_profiles(page: Page, recorded: Recorded) -> None:
    assert [Profile.from_json(text) for text in page.scripts[:-1]] == [recorded(name) for name in KERNELS]
    assert page.values("data-file") == [f"{name}.json" for name in KERNELS]


def test_profiles_that_would_make_the_page_too_large_are_named(recorded: Recorded) -> None:
    built = shown(*[recorded("kernel1")] * 30)
    assert 2 < len(built.data.stored) < 30
    assert built.data.left_out == built.labels[len(built.data.stored) :]


def test_its_structure_can_be_read_aloud(page: Page) -> None:
    assert page.tags["h1"] == page.tags["main"] == page.tags["title"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert page.values("scope").__len__() == page.tags["th"]
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {target.removeprefix("#") for target in page.values("href")} <= set(ids)


def test_it_says_what_happened_and_that_it_was_recorded(page: Page, recorded: Recorded) -> None:
    assert "kernel2 removes all 1,886,388,224 excessive wavefronts of kernel1" in page.text
    assert "Recorded, not measured now." in page.text
    day = recorded("kernel1").when[:10]
    assert f"kernel1, kernel2 and reference-attention on NVIDIA H100 80GB HBM3, {day}" in page.text


def test_what_was_measured_now_is_not_called_recorded(recorded: Recorded) -> None:
    assert "Recorded, not measured now" not in rendered(replace(recorded("kernel2"), engine="ncu")).text


def test_warnings_are_alerts(recorded: Recorded) -> None:
    other = replace(recorded("kernel2"), machine=replace(recorded("kernel2").machine, gpu="NVIDIA A100"))
    page = rendered(recorded("kernel1"), other)
    assert "alert" in page.values("role")
    assert "Different GPU" in page.text


def test_thousands_of_lines_are_laid_out_within_a_second(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    path = "kernels/common/ptx.cuh"
    long = replace(profile, sources={**profile.sources, path: profile.sources[path] * 50})
    comparison = compare([long])
    started = time.process_time()
    html = report.render(comparison)
    assert html.count("<tr>") > 2_900
    assert time.process_time() - started < 3  # about 0.3 s; a loaded machine may take its time


# --------------------------------------------------------------------------------------------------- hostile text


def test_hostile_text_stays_text_wherever_it_comes_from(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    hostile = replace(
        profile,
        engine=HOSTILE,
        kernel=Kernel(HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        problem={HOSTILE: 1},
        machine=Machine(*[HOSTILE] * 2, 132, *[HOSTILE] * 4),
        when=HOSTILE,
        command=HOSTILE,
        report=HOSTILE,
        report_sha256=HOSTILE,
        errors={HOSTILE: 1e-3},
        metrics={**profile.metrics, HOSTILE: Metric(HOSTILE, HOSTILE)},
        instructions=tuple(
            replace(
                i, stack=((HOSTILE, 2), (HOSTILE, 7)), sass=HOSTILE, access=i.access and HOSTILE, samples={HOSTILE: 5}
            )
            for i in profile.instructions[:500]
        ),
        findings=(Finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        sources={HOSTILE: f'{HOSTILE}\n"{HOSTILE}" // {HOSTILE}\n' * 200},
    )
    page = rendered(hostile, recorded("kernel2"))
    assert "img" not in page.tags
    assert page.tags["script"] == 3  # two profiles and the page's own
    assert Profile.from_json(page.scripts[0]) == hostile
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.text.count(HOSTILE) > 500


def test_a_template_in_a_name_is_not_run() -> None:
    page = rendered(replace(EMPTY, kernel=Kernel("{{ 7 * 7 }}{% include 'report.css' %}", "")))
    assert "{{ 7 * 7 }}{% include 'report.css' %}" in page.text


# -------------------------------------------------------------------------------------- less than two, or unknown


def test_one_profile_has_no_change(recorded: Recorded) -> None:
    page = rendered(recorded("kernel1"))
    assert "1,886,388,224" in page.text
    assert "Change" not in page.text
    assert "→ 0" not in page.text


def test_a_profile_of_nothing_still_makes_a_page() -> None:
    page = rendered(EMPTY, replace(EMPTY, kernel=Kernel("also bare", "")))
    assert page.text.count("unknown") > 10
    for phrase in ("No shared-memory access", "no warp samples", "No line has counts", "no shared-memory instructions"):
        assert phrase in page.text


def test_what_is_unknown_is_called_so(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    lacking = {name: m for name, m in profile.metrics.items() if name not in (DURATION, WAVEFRONTS, IDEAL)}
    unknown = replace(
        profile,
        metrics={**lacking, SHARED_PIPE: Metric(float("nan"), "%")},
        instructions=tuple(replace(i, executed=None, wavefronts=None, ideal=None) for i in profile.instructions),
        errors={"o": float("nan")},
    )
    page = rendered(recorded("kernel1"), unknown)
    assert not {"nan", "nan %", "NaN", "None", "<NA>", "inf"} & {part.strip() for part in page.texts}
    excessive, degree, pace, pipe = shown(recorded("kernel1"), unknown).figures
    assert {excessive.after, degree.after, pace.after, pipe.after} == {"unknown"}
    assert excessive.before == "1,886,388,224"


def test_a_profile_without_samples_has_unknown_shares_and_not_zero(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    unsampled = replace(
        profile,
        metrics={name: metric for name, metric in profile.metrics.items() if "pcsamp" not in name},
        instructions=tuple(replace(i, samples={}) for i in profile.instructions),
    )
    built = shown(recorded("kernel1"), unsampled)
    assert {row.shares[1].text for row in built.stalls.major} == {"unknown"}
    assert {row.change for row in built.stalls.major} == {"unknown"}


# ---------------------------------------------------------------------------------------------------- the sections


def test_counters_without_excess_are_called_phantoms(recorded: Recorded) -> None:
    built = shown(*(recorded(name) for name in KERNELS))
    assert [phantom.label for phantom in built.phantoms] == ["kernel2", "reference-attention"]
    assert re.fullmatch(r"[\d,]+ loads, [\d,]+ stores", built.phantoms[0].counters)


def test_bars_end_at_the_longest_of_their_kind(recorded: Recorded) -> None:
    (ldsm,) = [kind for kind in shown(recorded("kernel1"), recorded("kernel2")).accesses if kind.name == "LDSM"]
    before, after = ldsm.rows
    assert (before.ideal_width, before.excess_width) == ("12.5%", "87.5%")
    assert (after.ideal_width, after.excess_width) == ("12.5%", "0%")


def test_stalls_keep_the_order_of_change_and_fold_the_minor(recorded: Recorded) -> None:
    stalls = shown(recorded("kernel1"), recorded("kernel2")).stalls
    assert stalls.major[0].reason == "short_scoreboard"
    assert "bank conflicts" in stalls.major[0].meaning
    assert stalls.major[0].change.startswith("−")
    assert "membar" in [row.reason for row in stalls.minor]


def test_where_the_stall_went_is_said_in_words(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    fell, went, largest = shown(before, after).stalls.sentences
    shares = [100 * p.stalls["short_scoreboard"] / sum(p.stalls.values()) for p in (before, after)]
    assert f"short_scoreboard fell from {shares[0]:.1f} % of kernel1's samples to {shares[1]:.1f} %" in fell
    assert f"{shares[0] / 100 * before.duration_ns / 1e6:.3f} ms →" in fell
    assert went.endswith(" grew instead.")
    assert "short_scoreboard" not in went
    waits = {reason: n for reason, n in after.stalls.items() if reason not in ("selected", "not_selected")}
    assert f"stalls most on {max(waits, key=lambda reason: waits[reason])}, " in largest


def test_the_bars_of_change_are_parts_of_the_largest_change(recorded: Recorded) -> None:
    first, *others = shown(recorded("kernel1"), recorded("kernel2")).stalls.major
    assert (first.delta.less, first.delta.more) == ("100%", "0%")
    assert {row.delta.less != "0%" for row in others if row.change.startswith("+")} == {False}
    assert shown(recorded("kernel1"), recorded("kernel1")).stalls.sentences[0].startswith("No stall reason changed")
    assert shown(recorded("kernel1")).stalls.sentences == ()


def test_every_recorded_stall_reason_is_explained(recorded: Recorded) -> None:
    stalls = shown(recorded("kernel1")).stalls
    assert [row.reason for row in (*stalls.major, *stalls.minor) if not row.meaning] == []


def all_lines(panel):
    return [line for block in panel.blocks for line in block.lines]


def test_one_text_of_two_profiles_is_one_panel(recorded: Recorded) -> None:
    built = shown(recorded("kernel1"), recorded("kernel2"))
    shared = [panel for panel in built.panels if panel.path == "kernels/attention/attention.cuh"]
    assert [panel.labels for panel in shared] == [("kernel1", "kernel2")]
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
    (panel,) = [panel for panel in shown(before, edited).panels if panel.path == path]
    assert panel.labels == ("kernel1", "kernel2")
    assert [line.mark for line in all_lines(panel)[:3]] == ["+", "+", ""]
    assert ["".join(t.text for t in line.tokens) for line in all_lines(panel)[2:]] == source.splitlines()
    (line,) = [line for line in all_lines(panel) if line.shown == "89→91"]
    assert line.numbers == (89, 91)
    assert [c.wavefronts for c in line.counts if c] == [
        f"{p.lines[path, number].wavefronts:,}" for p, number in ((before, 89), (edited, 91))
    ]
    assert panel.worst[0].shown == "89→91"


def test_two_texts_that_have_little_in_common_are_two_panels(recorded: Recorded) -> None:
    path = "kernels/attention/attention.cuh"
    after = recorded("kernel2")
    edited = replace(after, sources={path: "\n".join(f"// other {n}" for n in range(300))})
    paths = [panel.path for panel in shown(recorded("kernel1"), edited).panels]
    assert paths.count(path) == 2


def test_the_worst_file_comes_first_and_the_worst_line_is_linked(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    built = shown(profile)
    assert built.worst is not None
    assert built.panels[0].path == "kernels/attention/attention.cuh"
    assert built.worst.target.startswith(f"{built.panels[0].key}-")
    line = all_lines(built.panels[0])[built.worst.number - 1]
    assert "ldmatrix" in "".join(token.text for token in line.tokens)
    assert line.counts[0] is not None
    assert line.counts[0].excess_heat == "1"


def test_an_excess_is_counted_once_per_file_however_deep_its_calls(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    (panel,) = [p for p in shown(profile).panels if p.path == "kernels/attention/attention.cuh"]
    assert f"{profile.total.excessive:,} excessive" in panel.summary


def test_lines_that_do_not_matter_are_folded_and_none_is_lost(recorded: Recorded) -> None:
    built = shown(recorded("kernel1"), recorded("kernel2"))
    panel = built.panels[0]
    assert {block.folded for block in panel.blocks} == {True, False}
    for one in built.panels:
        visible = {line.number for block in one.blocks if not block.folded for line in block.lines}
        assert {jump.number for jump in one.worst} <= visible
    folded = [line for block in panel.blocks if block.folded for line in block.lines]
    assert not [line for line in folded for counts in line.counts if counts and counts.wavefronts]


def test_a_text_of_many_profiles_has_columns_for_some_and_names_the_others(recorded: Recorded) -> None:
    panel = shown(*[recorded("kernel1")] * 6).panels[0]
    assert (len(panel.labels), len(panel.left_out)) == (4, 2)
    assert {len(line.counts) for line in all_lines(panel)} == {0, 4}


def test_more_than_two_profiles_are_shown_at_a_glance(recorded: Recorded) -> None:
    rows = shown(*(recorded(name) for name in KERNELS)).overview
    assert [row.label for row in rows] == list(KERNELS)
    assert [row.excessive for row in rows] == ["1,886,388,224", "0", "0"]
    assert rows[0].pace == "1.00×"
    assert shown(recorded("kernel1"), recorded("kernel2")).overview == ()


def test_lines_of_a_file_without_its_text_are_shown_all_the_same(recorded: Recorded) -> None:
    bare = replace(recorded("kernel1"), sources={})
    panel = shown(bare).panels[0]
    assert not panel.embedded
    assert all(line.counts for line in all_lines(panel))
    assert "does not embed this file's text" in rendered(bare).text


def test_instructions_are_worst_first_from_the_first_pc(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    (table,) = shown(profile).instructions
    worst = max(profile.shared(), key=lambda i: (i.excessive or 0, -i.pc))
    assert table.rows[0].offset == f"0x{worst.pc - profile.instructions[0].pc:04x}"
    assert table.rows[0].excessive == f"{worst.excessive:,}"
    assert len(table.rows) == sum(1 for i in profile.instructions if i.access)


def test_findings_and_raw_metrics_are_there(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    finding = Finding("SharedMemoryConflicts", "optimization", "A title", "A message")
    page = rendered(replace(profile, findings=(finding,)))
    assert "A message" in page.text
    assert all(name in page.text for name in profile.metrics)
    assert "Other ncu rules" in page.text
    assert "Other ncu rules" not in rendered(profile).text


def test_the_rule_pack_s_findings_are_there_word_by_word(recorded: Recorded) -> None:
    profiles = [recorded("kernel1"), recorded("kernel2")]
    page = rendered(*profiles)
    for profile in profiles:
        for finding in bridge.findings(profile):
            assert finding.message in page.text
    cost = next(one for one in bridge.findings(profiles[0]) if one.rule == "ConflictCost")
    assert f"{cost.saving:.1f} % of the duration, {cost.low:.1f} % to {cost.high:.1f} %" in page.text
    assert "@source:" not in page.text
    inside = Finding("SharedExcess", "optimization", "As ncu ran it", "Said twice")
    assert "Said twice" not in rendered(replace(profiles[0], findings=(inside,))).text


# ------------------------------------------------------------------------------------------------- numbers and text


@pytest.mark.parametrize(
    ("before", "after", "reads"),
    [
        (100, 50, "÷ 2.00"),
        (10, 35, "× 3.50"),
        (100, 112, "+12 %"),
        (100, 99, "−1 %"),
        (3, 3, "same"),
        (0, 1234, "+1,234"),
        (5, 0, "−100 %"),
        (None, 5, "unknown"),
        (5, float("nan"), "unknown"),
    ],
)
def test_a_change_reads_well(before: float | None, after: float | None, reads: str) -> None:
    assert text.change(before, after) == reads


def test_numbers_read_well() -> None:
    assert text.count(1886388224) == "1,886,388,224"
    assert text.count(None) == text.degree(float("inf")) == text.percent(float("nan")) == "unknown"
    assert text.fixed(0.000123, 3) == "0.000123"
    assert text.points(86.85, 31.04) == "−55.8 pp"
    assert text.raw(9658720.0) == "9,658,720"
    assert text.raw(0.125) == "0.125"


def test_highlighting_keeps_every_character_on_its_line() -> None:
    source = '\n\n/* one\ntwo */ int x = 1;\r\n#define A "s" \\\n  1\nno end'
    lines = report.highlight(source, "a.cu")
    assert ["".join(token.text for token in line) for line in lines] == source.split("\n")
    assert Token("com", "/* one") in lines[2]
    assert report.highlight("", "a.cu") == []
    assert len(report.highlight("a\nb\n", "a.cu")) == 2
