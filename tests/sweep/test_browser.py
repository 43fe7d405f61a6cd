"""The page of a sweep as a reader sees it: opened from a file in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.sweep import table, view
from ncu_swizzle.sweep.folder import Sweep

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all
SHAPES = "document.querySelectorAll('.chart')"


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


def test_every_figure_is_marked_where_it_belongs(browser: Browser, page_file: Path, sweep: Sweep) -> None:
    browser.open(page_file)
    tips = browser.texts(".chart .mark title")
    for row in table.rows_table(sweep):
        n = row.outcome.point.sizes["n"]
        for figure in view.FIGURES:
            value = figure.get(row)
            if value is not None:
                assert f"{row.kernel}, n={n:,}: {figure.show(value)}" in tips
    assert len(tips) == 4 * 19
    # Higher on the screen is more: the plain kernel takes longest, and its excess grows with n.
    where = "e => [e.firstElementChild.textContent, e.getBoundingClientRect().y]"
    for chart in (0, 2):
        marks = browser.script(f"[...{SHAPES}[{chart}].querySelectorAll('.mark')].map({where})")
        heights = [y for tip, y in marks if tip.startswith("transpose-plain")]
        assert heights == sorted(heights, reverse=True)
        assert len(set(heights)) == 5
    flat = browser.script(f"[...{SHAPES}[3].querySelectorAll('.c0 .mark')].map(e => e.getBoundingClientRect().y)")
    assert max(flat) - min(flat) < 1, "the degree does not depend on n"


def test_series_differ_in_colour_and_in_shape_in_the_light_and_in_the_dark(browser: Browser, page_file: Path) -> None:
    lights = {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(page_file)
        marks = browser.script(
            f"[...{SHAPES}[0].querySelectorAll('.series')].map(g => "
            "[getComputedStyle(g).stroke, g.querySelector('.mark').getAttribute('d')])"
        )
        assert len({colour for colour, _ in marks}) == len({shape for _, shape in marks}) == 4
        paper = browser.script("getComputedStyle(document.body).backgroundColor")
        assert all(contrast(colour, paper) >= 3 for colour, _ in marks), (scheme, marks)
        text = browser.script("getComputedStyle(document.querySelector('.chart text')).fill")
        lights[scheme] = luminance(paper)
        assert abs(lights[scheme] - luminance(text)) > 0.2
    assert lights["light"] > 0.8
    assert lights["dark"] < 0.1


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two CSS colours (WCAG 2)."""
    lights = sorted((luminance(one), luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_only_charts_and_tables_scroll_sideways(browser: Browser, page_file: Path, hostile_file: Path) -> None:
    for file in (page_file, hostile_file):
        browser.open(file)
        for width in (400, 700, 1280):
            browser.resize(width)
            assert browser.script("document.documentElement.scrollWidth") <= width
