"""The report as text, complete, harmless and the same every time; as Markdown and CSV."""

import base64
import csv
import hashlib
import io
import re
from collections import Counter
from dataclasses import replace

import pytest

from ncu_swizzle.render import formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import frames
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import KernelId
from tests.support.pages import Page, rendered
from tests.support.recordings import KERNELS, Recorded
from tests.support.reports import EMPTY


@pytest.mark.long
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
    assert page.values("type").count("application/gzip") == len(data) == len(KERNELS)
    assert page.tags["script"] == len(data) + 1
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    assert f"script-src 'sha256-{digest}';" in policy
    assert not re.search(
        r"eval|innerHTML|outerHTML|insertAdjacent|fetch\(|XMLHttp|localStorage|cookie|import\(", script
    )


@pytest.mark.long
def test_profiles_that_would_make_the_page_too_large_are_named(recorded: Recorded) -> None:
    comparison = compare([recorded("kernel1")] * 40)
    data = report.data_section({"": comparison})
    assert 20 < len(data.stored) < 40
    assert data.left_out == comparison.labels[len(data.stored) :]


def test_its_structure_can_be_read_aloud(page: Page) -> None:
    assert page.tags["h1"] == page.tags["main"] == page.tags["title"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert page.values("scope").__len__() == page.tags["th"]
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {target.removeprefix("#") for target in page.values("href")} <= set(ids)


def test_a_template_in_a_name_is_not_run() -> None:
    page = rendered(replace(EMPTY, kernel=KernelId(name="{{ 7 * 7 }}{% include 'report.css' %}", function="")))
    assert "{{ 7 * 7 }}{% include 'report.css' %}" in page.text


HOSTILE = "</td><img src=x onerror=alert(1)> | [a](http://x.y) @someone #1 `code` *b*\n# head"


def test_a_table_has_as_many_cells_in_every_row(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    hostile = replace(profile, kernel=KernelId(name=HOSTILE, function=HOSTILE))
    for profiles in ([profile], [hostile, recorded("kernel2")], [profile] * 9):
        block: list[int] = []
        for line in [*formats.render_all([compare(profiles)]).splitlines(), ""]:
            if line.startswith("|"):
                block.append(line.replace("\\|", "").count("|"))
            else:
                assert len(set(block)) <= 1
                block = []


@pytest.mark.long
def test_markdown_fits_a_comment_however_many_profiles(recorded: Recorded) -> None:
    profile = recorded("tma-none")
    many = [
        replace(profile, kernel=KernelId(name=f"{'long-name-' * 12}{number}", function="")) for number in range(300)
    ]
    text = formats.render_all([compare(many)])
    assert len(text.encode()) < 65_536
    assert text.endswith("Truncated to fit; the HTML report has everything.\n")


def test_csv_has_every_instruction_unrounded(recorded: Recorded) -> None:
    profiles = [recorded("kernel1"), recorded("kernel2")]
    rows = list(csv.DictReader(io.StringIO(formats.to_csv(compare(profiles)))))
    assert len(rows) == sum(len(profile.instructions) for profile in profiles)
    for label, profile in zip(("kernel1", "kernel2"), profiles, strict=True):
        own = [row for row in rows if row["profile"] == label]
        assert [row["sass"] for row in own] == [i.sass for i in profile.instructions]
        assert sum(int(row["excessive"] or 0) for row in own) == profile.total.excessive
        samples = sum(sum(i.samples.values()) for i in profile.instructions)
        assert sum(int(row["samples"]) for row in own) == samples
        assert sum(int(row[name]) for row in own for name in row if name.startswith("stall_")) == samples
        assert {row["engine"] for row in own} == {"recorded"}
        assert own[0]["offset"] == "0"
        classes: Counter[str] = Counter()
        for (name, _), executed in frames.count(profile).classes.items():
            classes[name] += executed
        for row in own:
            classes[row["class"]] -= int(row["executed"] or 0)
        assert not any(classes.values()), "the classes are those of the instruction mix"


def test_unknown_counts_are_empty_in_csv(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    unknown = replace(profile.instructions[0], executed=None, wavefronts=None, ideal=None)
    (row,) = csv.DictReader(io.StringIO(formats.to_csv(compare([replace(profile, instructions=(unknown,))]))))
    assert (row["executed"], row["wavefronts"], row["ideal"]) == ("", "", "")
