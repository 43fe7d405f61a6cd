"""The report as text: complete, well-formed, harmless, and the same every time."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest

from ncu_swizzle.render import page as report
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import KernelId
from tests.support.pages import Page, rendered
from tests.support.recordings import KERNELS, Recorded
from tests.support.reports import EMPTY

# ------------------------------------------------------------------------------------------- the page as a whole


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


# --------------------------------------------------------------------------------------------------- hostile text


def test_a_template_in_a_name_is_not_run() -> None:
    page = rendered(replace(EMPTY, kernel=KernelId(name="{{ 7 * 7 }}{% include 'report.css' %}", function="")))
    assert "{{ 7 * 7 }}{% include 'report.css' %}" in page.text
