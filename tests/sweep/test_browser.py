"""The page of a sweep as a reader sees it: opened from a file in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.folder import Sweep

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all


def test_it_opens_without_an_error_fetches_nothing_but_itself_and_needs_no_scripts(
    browser: Browser, page_file: Path, hostile_file: Path
) -> None:
    for file in (page_file, hostile_file):
        browser.open(file)
        assert browser.errors() == []
        assert browser.fetched() == [file.as_uri()]
        assert not browser.alerted()
        assert browser.script("document.querySelectorAll('script, img, iframe, object').length") == 0
    browser.scripting(False)
    browser.open(page_file)
    assert len(browser.texts(".points tbody tr")) == 20


def test_the_table_shows_every_point(browser: Browser, page_file: Path, sweep: Sweep) -> None:
    browser.open(page_file)
    shown = browser.script(
        "[...document.querySelectorAll('.points tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    rows = table.rows_table(sweep)
    unit = table.time_unit(rows)
    for cells, row in zip(shown, rows, strict=True):
        if row.error:
            assert cells[:2] == table.cells(row, ("n",), unit)[:2]
            assert cells[2].split("\n") == ["failed: out differs by 0.5 of its size", "try: read it as it was written"]
        else:
            assert cells == table.cells(row, ("n",), unit)


def test_only_tables_scroll_sideways(browser: Browser, page_file: Path, hostile_file: Path) -> None:
    for file in (page_file, hostile_file):
        browser.open(file)
        for width in (400, 700, 1280):
            browser.resize(width)
            assert browser.script("document.documentElement.scrollWidth") <= width
