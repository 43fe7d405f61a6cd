"""The bank explorer in a browser: its arithmetic is the package's, and a reader can operate it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.explorer import asked, random_cases
from tests.support.places import ROOT

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all
BATCH = 250
EXPLORED = (ROOT / "tests" / "docs" / "explored.js").read_text(encoding="utf-8")
COUNTS = "#counts tbody td:nth-child({})"
OVERFLOW = "document.documentElement.scrollWidth"


def answers(browser: Browser, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(browser.driver.execute_script(f"{EXPLORED}; return arguments[0].map(explored)", cases))


@pytest.mark.long
@pytest.mark.parametrize(("number", "seed"), [(400, 1), pytest.param(10_000, 2, marks=pytest.mark.slow)])
def test_its_arithmetic_is_that_of_the_package(browser: Browser, explorer_file: Path, number: int, seed: int) -> None:
    browser.open(explorer_file)
    pairs = list(random_cases(number, seed))
    assert 0.6 < sum(not expected["refused"] for _, expected in pairs) / number < 0.95
    for first in range(0, number, BATCH):
        batch = pairs[first : first + BATCH]
        found = answers(browser, [asked(case) for case, _ in batch])
        for (case, expected), answer in zip(batch, found, strict=True):
            assert answer == expected, case
    assert browser.errors() == []


def test_it_shows_before_and_after_and_loads_nothing_else(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    assert browser.texts(COUNTS.format(4)) == ["512", "64"]
    assert browser.texts(COUNTS.format(6)) == ["8.00", "1.00"]
    assert browser.errors() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.fetched())


def test_the_phases_are_stepped_through_with_arrow_keys(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    browser.script("document.getElementById('step').focus()")
    assert browser.texts("#where")[0].startswith("Request 0 of 16, phase 0: lanes 0 to 7")
    browser.press(browser.RIGHT)
    assert browser.texts("#where") == ["Request 0 of 16, phase 1: lanes 8 to 15. Words of the busiest bank: 8 → 1."]
    assert browser.script("document.querySelectorAll('.bankmap .own').length") == 16
    browser.script("document.getElementById('previous').click()")
    assert "phase 0" in browser.texts("#where")[0]


def test_a_link_brings_back_what_was_typed(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    browser.script(
        "['layout', '(32,32):(32,1)', 'element', '4', 'swizzle', '', 'pad', '1', 'access', 'column']"
        ".forEach((word, i, all) => { if (i % 2) document.getElementById(all[i - 1]).value = word; })"
    )
    browser.script("document.getElementById('layout').dispatchEvent(new Event('input'))")
    browser.script("document.getElementById('next').click()")
    link = browser.script("location.href")
    browser.driver.get("about:blank")
    browser.driver.get(link)
    assert browser.texts(COUNTS.format(1)) == ["(32,32):(32,1), plain", "(32,32):(32,1) with padding 32+1"]
    assert browser.texts(COUNTS.format(4)) == ["1024", "32"]
    assert browser.texts("#where")[0].startswith("Request 1 of 32, phase 0")


def test_what_cannot_be_read_is_said_beside_the_form(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    for text in ("(64,64", "<img src=x onerror=alert(1)>"):
        browser.driver.execute_script(
            "const field = document.getElementById('layout'); field.value = arguments[0];"
            "field.dispatchEvent(new Event('input'))",
            text,
        )
        assert text in browser.texts("#refused")[0]
        assert browser.script("document.getElementById('answer').hidden") is True
    assert not browser.alerted()


def test_every_example_has_an_answer(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    choose = (
        "const list = document.getElementById('example'); list.selectedIndex = arguments[0];"
        "list.dispatchEvent(new Event('change')); return document.getElementById('refused').hidden"
    )
    examples = browser.script("Object.keys(EXAMPLES).length")
    assert examples >= 10
    assert all(browser.driver.execute_script(choose, number + 1) for number in range(examples))


def test_it_fits_the_screen_and_is_accessible(browser: Browser, explorer_file: Path) -> None:
    for width in (390, 1280):
        browser.resize(width)
        browser.open(explorer_file)
        assert browser.script(OVERFLOW) <= width
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(explorer_file)
        assert browser.violations() == [], scheme
