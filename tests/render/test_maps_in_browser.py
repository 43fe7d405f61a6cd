"""Bank maps and the other pictures as a reader sees and operates them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all
UNFOLD = "document.querySelectorAll('details').forEach(part => part.open = true)"
SHOWN = "[...document.querySelectorAll(arguments[0])].filter(e => e.getClientRects().length)"
# The least contrast of a picture's text to the colours that it is on, and how many colours there are.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const root = getComputedStyle(document.documentElement);
  const ink = light(root.getPropertyValue('--ink'));
  const colours = [...Array(32).keys()].map(bank => root.getPropertyValue(`--b${bank}`));
  return [Math.min(...colours.map(colour => contrast(ink, light(colour)))), new Set(colours).size];
})()"""
# The least size of text in pictures, in pixels as shown.
SMALLEST = """(() => Math.min(...[...document.querySelectorAll('svg text, .stack span, .reasons li')]
  .filter(text => text.textContent.trim() && text.getClientRects().length).map(text => {
    const svg = text.closest('svg');
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    return scale * parseFloat(getComputedStyle(text).fontSize);
  })))()"""


def shown_steps(browser: Browser, selector: str) -> list[str]:
    """Return the classes of the steps that can be seen."""
    return list(browser.script(f"{SHOWN}.map(e => e.getAttribute('class').split(' ').at(-1))", selector))


@pytest.mark.parametrize("scripting", [True, False])
def test_the_phases_are_stepped_through_with_arrow_keys(browser: Browser, page_file: Path, scripting: bool) -> None:
    browser.scripting(scripting)
    try:
        browser.open(page_file)
        assert shown_steps(browser, "#banks .bankmap .step") == ["step-1"] * 2, "the first phase on both maps"
        browser.script("document.querySelector('#banks .steps input').focus()")
        assert browser.texts("#banks .loads .step-1 strong") == ["Request 0, phase 0:"] * 2
        for number in (2, 3):
            browser.press(browser.RIGHT)
            for part in (".bankmap .step", ".bankload", ".loads p"):
                assert shown_steps(browser, f"#banks {part}") == [f"step-{number}"] * 2
        browser.press(browser.LEFT)
        assert shown_steps(browser, "#banks .bankmap .step") == ["step-2"] * 2
        browser.script("document.querySelectorAll('#banks .steps label')[4].click()")
        assert shown_steps(browser, "#banks .bankmap .step") == ["step-5"] * 2
    finally:
        browser.scripting(True)


def test_the_steps_can_be_reached_and_seen_by_keyboard(browser: Browser, map_file: Path) -> None:
    browser.open(map_file)
    browser.press(browser.TAB)
    assert browser.script("document.activeElement.type") == "radio"
    assert browser.script("document.activeElement.closest('fieldset').textContent").strip().startswith("Request.phase")
    outline = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert browser.script(outline) == "solid"
    assert browser.script("document.querySelector('.loads').ariaLive") == "polite"


def test_the_bars_are_what_the_phase_wants_of_each_bank(browser: Browser, map_file: Path) -> None:
    browser.open(map_file)
    for number, first in ((1, 0), (3, 4)):
        browser.script(f"document.querySelectorAll('.steps input')[{number - 1}].click()")
        before, after = (f"figure:nth-of-type({side}) .bankload.step-{number} title" for side in (1, 2))
        assert browser.texts(before) == [f"bank {bank}: 8 words" for bank in range(first, first + 4)]
        assert browser.texts(after) == [f"bank {bank}: 1 word" for bank in range(32)]


def test_before_and_after_are_side_by_side(browser: Browser, page_file: Path, transpose_file: Path) -> None:
    browser.resize(1280)
    for file in (page_file, transpose_file):
        browser.open(file)
        boxes = browser.script(
            "[...document.querySelectorAll('#banks .bankmap')].map(m => m.getBoundingClientRect())"
            ".map(r => [r.left, r.right, r.top])"
        )
        (_, left_end, left_top), (right_start, right_end, right_top) = boxes
        assert left_top == right_top
        assert left_end < right_start < right_end <= 1280


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["page_file", "transpose_file", "map_file", "bits_file"])
def test_pictures_have_no_small_text_and_do_not_widen_the_page(
    browser: Browser, name: str, width: int, request: pytest.FixtureRequest
) -> None:
    browser.resize(width)
    browser.open(request.getfixturevalue(name))
    browser.driver.execute_script(UNFOLD)
    assert 11 <= browser.script(SMALLEST) < 20
    assert browser.script("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_every_banks_colour_can_be_read(browser: Browser, map_file: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(map_file)
    least, colours = browser.script(CONTRAST)
    assert least >= 4.5
    assert colours == 32


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("page_file", "#banks #units .stallbars #fragments"),
        ("map_file", "body"),
        ("bits_file", "body"),
    ],
)
def test_axe_finds_nothing_in_the_pictures(
    browser: Browser, name: str, parts: str, scheme: str, request: pytest.FixtureRequest
) -> None:
    browser.prefer(scheme)
    browser.open(request.getfixturevalue(name))
    browser.driver.execute_script(UNFOLD)
    for part in parts.split():
        assert browser.violations(part) == []
