"""The report as a reader sees it: opened from a file in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="needs selenium")

from ncu_swizzle import report
from ncu_swizzle.compare import compare
from ncu_swizzle.profile import Profile
from tests.browser import Browser, chromium

KERNELS = ("kernel1", "kernel2", "reference-attention")
HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def profiles(recorded: Callable[[str], Profile]) -> list[Profile]:
    return [recorded(name) for name in KERNELS]


@pytest.fixture(scope="module")
def page(profiles: list[Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(report.render(compare(profiles)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def hostile_page(profiles: list[Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = HOSTILE + "long" * 50
    before, after, _ = profiles
    source = {path: f"{HOSTILE}\n{text}" for path, text in before.sources.items()}
    hostile = replace(before, kernel=replace(before.kernel, name=name, title=name, function=name), sources=source)
    file = tmp_path_factory.mktemp("report") / "hostile.html"
    file.write_text(report.render(compare([hostile, after])), encoding="utf-8")
    return file


def test_it_opens_without_an_error_and_fetches_nothing_but_itself(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.script("document.readyState") == "complete"
    assert browser.errors() == []
    assert browser.fetched() == [page.as_uri()]


def test_it_shows_the_figures_of_the_profiles(browser: Browser, page: Path, profiles: list[Profile]) -> None:
    browser.open(page)
    (row,) = [cells for cells in _rows(browser, "#metrics") if cells[0].startswith("Excessive")]
    first, second, _, third = row[1:]
    assert [first, second, third] == [f"{p.total.excessive:,}" for p in profiles]
    shown = browser.texts(".figures dd")
    assert shown[0].startswith("1,886,388,224 → 0")
    assert shown[2].startswith(f"{profiles[0].duration_ns / profiles[1].duration_ns:.2f}×")


def test_it_shows_every_access_kind_of_every_profile(browser: Browser, page: Path, profiles: list[Profile]) -> None:
    browser.open(page)
    shown = [cells[-8:-2] for cells in _rows(browser, "#accesses")]
    for label, profile in zip(KERNELS, profiles, strict=True):
        for total in profile.accesses.values():
            counts = [f"{n:,}" for n in (total.wavefronts, total.ideal, total.excessive)]
            assert [label, *counts, f"{total.degree:.2f}"] in [cells[:5] for cells in shown]


def test_the_jump_leads_to_the_worst_line(browser: Browser, page: Path, profiles: list[Profile]) -> None:
    browser.open(page)
    browser.script("document.querySelector('nav .jump').click()")
    number, wavefronts, *_ = browser.texts("tr:target > *")
    (path,) = browser.texts(".panel:has(:target) summary code")
    assert wavefronts == f"{profiles[0].lines[path, int(number)].wavefronts:,}"
    assert browser.script("document.querySelector('.panel:has(:target)').open")
    assert browser.script("document.querySelector(':target').getBoundingClientRect().top") < 900


def test_a_hostile_name_is_only_a_name(browser: Browser, hostile_page: Path) -> None:
    browser.open(hostile_page)
    assert not browser.alerted()
    assert browser.errors() == []
    assert browser.fetched() == [hostile_page.as_uri()]
    assert browser.script("document.querySelectorAll('img, script, iframe, object, svg').length") == 0
    (heading,) = browser.texts("h1")
    assert heading.startswith(HOSTILE)
    assert HOSTILE in browser.texts("td.text")


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_only_tables_scroll_sideways(browser: Browser, page: Path, hostile_page: Path, width: int) -> None:
    browser.resize(width)
    for file in (page, hostile_page):
        browser.open(file)
        browser.script("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert browser.script("document.documentElement.scrollWidth") <= width
        assert browser.script("document.documentElement.clientWidth") >= width - 20


def test_it_follows_the_reader_into_the_dark(browser: Browser, page: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(page)
        style = "getComputedStyle(document.body)"
        colours[scheme] = [_brightness(browser.script(f"{style}.{what}")) for what in ("backgroundColor", "color")]
    assert colours["light"][0] > 600
    assert colours["light"][1] < 200
    assert colours["dark"][0] < 200
    assert colours["dark"][1] > 600


def _brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def _rows(browser: Browser, section: str) -> list[list[str]]:
    code = "[...document.querySelectorAll(arguments[0])].map(r => [...r.cells].map(c => c.textContent.trim()))"
    return browser.script(code, f"{section} tbody tr")
