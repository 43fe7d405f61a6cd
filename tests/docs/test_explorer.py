"""The bank explorer in a browser: its arithmetic is the package's, and a reader can operate it."""

from __future__ import annotations

import csv
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.smem import access, bankmap, mapping
from tests.support.places import ROOT, text

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all
EXPLORED = (ROOT / "tests" / "docs" / "explored.js").read_text(encoding="utf-8")
COUNTS = "#counts tbody td:nth-child({})"
OVERFLOW = "document.documentElement.scrollWidth"


def cases() -> list[dict[str, Any]]:
    """Return what readers may type, drawn at random once: one in five is refused."""
    rows = csv.DictReader(text("facts/explorer.csv").splitlines())
    numbers = ("element", "pad", "threads")
    return [{**row, **{name: int(row[name]) for name in numbers}, "write": row["write"] == "1"} for row in rows]


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return what the explorer must say about a case: the maps before and after, or that it is refused."""
    try:
        plain = mapping.parse(case["layout"], case["element"])
        after = mapping.parse(case["layout"], case["element"], case["swizzle"] or None, case["pad"])
        taken = access.parse(case["access"], plain.layout, case["element"], case["write"], case["threads"])
        maps = [bankmap.build(each, taken) for each in (plain, after)]
    except NcuSwizzleError:
        return {"refused": True}
    request = bankmap.worst_request(maps)

    def shown(bank_map: bankmap.BankMap) -> dict[str, Any]:
        counts = taken.wavefronts(bank_map.mapping)
        loads = list(takewhile(lambda load: load.request == request, bankmap.loads(bank_map, request)))
        return {
            "banks": bank_map.banks.tolist(),
            "ways": bank_map.ways.tolist(),
            **{name: getattr(counts, name).tolist() for name in ("actual", "ideal", "known")},
            "words": [list(load.words) for load in loads],
            "lanes": [list(load.lanes) for load in loads],
            "cells": [[list(cell) for cell in load.cells] for load in loads],
            "bijection": bank_map.mapping.collision() is None,
            "code": bank_map.mapping.transform.cuda("offset"),
        }

    return {"refused": False, "request": request, "maps": [shown(each) for each in maps]}


@pytest.mark.long
def test_its_arithmetic_is_that_of_the_package(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    found = browser.driver.execute_script(f"{EXPLORED}; return arguments[0].map(explored)", cases())
    for case, theirs in zip(cases(), found, strict=True):
        assert theirs == answer(case), case
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
    for typed in ("(64,64", "<img src=x onerror=alert(1)>"):
        browser.driver.execute_script(
            "const field = document.getElementById('layout'); field.value = arguments[0];"
            "field.dispatchEvent(new Event('input'))",
            typed,
        )
        assert typed in browser.texts("#refused")[0]
        assert browser.script("document.getElementById('answer').hidden") is True
    assert not browser.alerted()


@pytest.mark.long
def test_every_example_has_an_answer(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    choose = (
        "const list = document.getElementById('example'); list.selectedIndex = arguments[0];"
        "list.dispatchEvent(new Event('change')); return document.getElementById('refused').hidden"
    )
    examples = browser.script("Object.keys(EXAMPLES).length")
    assert examples >= 10
    assert all(browser.driver.execute_script(choose, number + 1) for number in range(examples))


@pytest.mark.long
def test_it_fits_the_screen_and_is_accessible(browser: Browser, explorer_file: Path) -> None:
    for width in (390, 1280):
        browser.resize(width)
        browser.open(explorer_file)
        assert browser.script(OVERFLOW) <= width
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(explorer_file)
        assert browser.violations() == [], scheme
