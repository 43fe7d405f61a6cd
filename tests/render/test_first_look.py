"""What a reader sees first, on a screen of any width, in the light and in the dark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.recordings import Recorded, faster

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all
SCREENS = ((1600, 900), (1280, 800), (390, 844))
UNFOLD = "document.querySelectorAll('details').forEach(part => part.open = true)"
# What holds for a table's first rows holds for all, and axe looks at every cell.
SHORTEN = "for (const t of document.querySelectorAll('table')) [...t.rows].slice(12).forEach(row => row.remove())"
# The least text, in pixels as shown; texts in SVGs are scaled with them. Without what only screen readers see, and
# without the bank maps, which have a test of their own.
SMALLEST = """(() => {
  const sizes = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    const hidden = parent.closest('.sr, script, .bankmaps') || !parent.getClientRects().length;
    if (hidden || !walk.currentNode.data.trim()) continue;
    const svg = parent.closest('svg');
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    sizes.push([parseFloat(getComputedStyle(parent).fontSize) * scale, parent.outerHTML.slice(0, 100)]);
  }
  return sizes.sort((a, b) => a[0] - b[0])[0];
})()"""
# The least contrast of ink to the heat behind it; axe does not judge text on gradients.
LEAST_CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const shown = (...colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  };
  const light = (parts) => 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  const paper = getComputedStyle(document.body).backgroundColor;
  return Math.min(...[...document.querySelectorAll('.source td.heat')].map(cell => {
    const style = getComputedStyle(cell);
    const pair = [light(shown(paper, style.backgroundColor)), light(shown(paper, style.color))].sort((a, b) => a - b);
    return (pair[1] + 0.05) / (pair[0] + 0.05);
  }));
})()"""


@pytest.mark.parametrize(("width", "height"), SCREENS)
@pytest.mark.parametrize("name", ["page_file", "four_file", "foreign_file"])
def test_the_first_picture_is_on_the_first_screen(
    browser: Browser, name: str, width: int, height: int, request: pytest.FixtureRequest
) -> None:
    browser.resize(width, height)
    browser.open(request.getfixturevalue(name))
    assert browser.script("document.querySelector('figure').getBoundingClientRect().bottom") <= height
    assert browser.script("document.querySelector('figure .bar').getBoundingClientRect().width") > 20


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_of_many_launches_the_first_bars_are_on_the_first_screen(
    browser: Browser, many_file: Path, width: int, height: int
) -> None:
    browser.resize(width, height)
    browser.open(many_file)
    assert browser.script("document.querySelector('#kernels tbody .bar').getBoundingClientRect().bottom") <= height


def test_no_number_of_the_picture_is_told_before(browser: Browser, page_file: Path, recorded: Recorded) -> None:
    browser.open(page_file)
    (verdict,) = browser.texts(".verdict")
    times = faster(recorded, "kernel1", "kernel2")
    assert verdict == f"kernel2 removes all excessive wavefronts of kernel1 and is {times} times as fast."
    figures = browser.texts(".glance li strong")
    assert figures[:2] == ["1,886,388,224", f"{(recorded('kernel1').duration_ns or 0) / 1e6:.3f} ms"]
    assert not [figure for figure in figures if len(figure) > 1 and figure in verdict]


def test_among_many_the_headline_is_the_best_against_the_first(
    browser: Browser, four_file: Path, recorded: Recorded
) -> None:
    browser.open(four_file)
    assert browser.texts("h1 bdi") == ["kernel1 #1", "kernel3"]
    (verdict,) = browser.texts(".verdict")
    times = faster(recorded, "kernel1", "kernel3")
    assert verdict.startswith(f"Best of 4: kernel3 removes all excessive wavefronts of kernel1 #1 and is {times} times")


def test_four_profiles_leave_the_code_in_view(browser: Browser, four_file: Path) -> None:
    browser.resize(1280, 800)
    browser.open(four_file)
    panel = "document.querySelector('.panel .scroll')"
    assert len(browser.texts(".panel:first-of-type thead .heat")) == 4
    assert browser.script(f"{panel}.scrollWidth <= {panel}.clientWidth")
    code = browser.script(
        f"[...{panel}.querySelectorAll('td.text')].filter(c => c.offsetParent)"
        ".map(c => [c.getBoundingClientRect().left, c.getBoundingClientRect().right, c.scrollWidth <= c.clientWidth])"
    )
    assert len(code) > 100
    assert all(0 < left < right <= 1280 and fits for left, right, fits in code)
    assert min(right - left for left, right, _ in code) > 480
    assert browser.script("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("width", [390, 1280])
def test_code_stays_in_view_beside_all_counts(browser: Browser, four_file: Path, width: int) -> None:
    browser.resize(width)
    browser.open(four_file)
    assert browser.script("[...document.querySelectorAll('.source .more')].every(c => !c.offsetParent)")
    browser.script("document.querySelector('.counts input').click()")
    row = "document.querySelector('.panel tr[id$=\"-89\"]')"
    assert browser.script(f"[...{row}.cells].slice(2, 6).map(c => c.textContent)")[1:] == [
        "1,073,741,824", "939,524,096", "8.00",
    ]  # fmt: skip
    browser.script("document.querySelector('.panel .scroll').scrollLeft = 9999")
    left, right = browser.script(
        f"[{row}.cells[1].getBoundingClientRect().left, {row}.cells[1].getBoundingClientRect().right]"
    )
    assert 0 < left < right < width


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_is_smaller_than_eleven_pixels(browser: Browser, any_file: Path, width: int) -> None:
    browser.resize(width)
    browser.open(any_file)
    browser.driver.execute_script(UNFOLD)
    size, where = browser.script(SMALLEST)
    assert size >= 11, where


def test_on_a_phone_only_tables_scroll_sideways(browser: Browser, any_file: Path) -> None:
    browser.resize(390, 844)
    browser.open(any_file)
    assert browser.script("document.documentElement.scrollWidth") <= 390
    browser.driver.execute_script(UNFOLD)
    assert browser.script("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["four_file", "foreign_file", "many_file"])
def test_axe_finds_no_violation(browser: Browser, name: str, scheme: str, request: pytest.FixtureRequest) -> None:
    browser.prefer(scheme)
    browser.open(request.getfixturevalue(name))
    browser.driver.execute_script(UNFOLD)
    browser.driver.execute_script(SHORTEN)
    browser.driver.set_script_timeout(300)
    assert browser.violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_on_heat_can_be_read(browser: Browser, four_file: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(four_file)
    assert 4.5 <= browser.script(LEAST_CONTRAST) < 21


def test_what_no_figure_depends_on_is_folded_and_there(browser: Browser, foreign_file: Path) -> None:
    browser.open(foreign_file)
    assert browser.texts("[role=alert]") == []
    assert browser.texts(".conditions .aside") == ["2 notes"]
    assert not browser.script("document.querySelector('.conditions').open")
    notes = browser.texts(".conditions li")
    assert [note.partition(": ")[2] for note in notes] == [
        "ncu wrote NaN for pcie__read_bytes.sum.",
        "no instruction has a source line: compile with -lineinfo.",
    ]


def test_a_section_hides_and_comes_back_for_a_link_into_it(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    table = "document.querySelector('#metrics table').offsetParent !== null"
    press = "document.querySelector('#metrics h2 button')"
    browser.script(f"{press}.focus()")
    browser.press(browser.ENTER)
    assert not browser.script(table)
    assert browser.script(f"{press}.ariaExpanded") == "false"
    browser.script("document.querySelector('nav a[href=\"#metrics\"]').click()")
    browser.script("new Promise(resolve => setTimeout(resolve, 50))")
    assert browser.script(table)


def test_the_way_to_the_sections_stays_in_view(browser: Browser, page_file: Path) -> None:
    for width, height in SCREENS:
        browser.resize(width, height)
        browser.open(page_file)
        browser.driver.execute_script("document.querySelector('#metrics').scrollIntoView()")
        nav, heading = browser.script(
            "['nav', '#metrics h2'].map(s => document.querySelector(s).getBoundingClientRect())"
            ".map(r => [r.top, r.bottom])"
        )
        assert 0 <= nav[0] < nav[1] <= heading[0] < height


def test_the_search_begins_where_the_reader_is(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    browser.driver.execute_script("document.querySelector('#instructions').scrollIntoView()")
    browser.press("/")
    assert browser.script("document.activeElement.closest('section').id") == "instructions"


def test_in_print_figures_stay_whole_and_hidden_sections_are_there(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    browser.script("document.querySelector('#metrics h2 button').click()")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.script("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"
        assert browser.script("document.querySelector('#metrics table').offsetParent !== null")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
