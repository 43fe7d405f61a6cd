"""The report as a reader sees and operates it: opened from a file in a real browser, which is started once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.reports.model import Profile
from tests.support.hostile import hidden
from tests.support.pages import HOSTILE
from tests.support.places import text
from tests.support.processes import wait_until
from tests.support.recordings import KERNELS, Recorded, faster

if TYPE_CHECKING:
    from tests.support.chromium import Browser

Written = Callable[[str], Path]
LONG = "kernels/attention/attention.cuh"
SCREENS = ((1600, 900), (1280, 800), (390, 844))
ASKED = text("render/page.js")
UNFOLD, SHORTEN, HEAT, BANKS, PAGE, SMALLEST = (
    f"(() => {{ {ASKED} return {name}(); }})()" for name in ("unfold", "shorten", "heat", "banks", "page", "smallest")
)
TARGET_TOP = "document.querySelector(':target').getBoundingClientRect().top"
WIDTH = "document.documentElement.scrollWidth"


def numbers(browser: Browser, selector: str) -> list[float]:
    return [float(text.replace(",", "")) for text in browser.texts(selector)]


def target(browser: Browser) -> tuple[str, int, list[str]]:
    """Return the path and the number of the line that the page has jumped to, and its counts."""
    number, _, _, *counts = browser.texts("tr:target > *")
    (path,) = browser.texts(".panel:has(:target) summary code")
    return path, int(number), counts


def sass(profile: Profile, line: int) -> list[str]:
    return [one.sass for one in profile.instructions if (LONG, line) in one.stack]


def under(browser: Browser, side: int) -> list[str]:
    return browser.texts(f".under .sides table:nth-child({side}) tbody code")


# ------------------------------------------------------------------------------------------------ what is there


def test_it_opens_without_an_error_fetches_nothing_but_itself_and_tells_no_number_twice(
    browser: Browser, written: Written, recorded: Recorded
) -> None:
    browser.open(written("three"))
    assert browser.script("document.readyState") == "complete"
    assert browser.errors() == []
    assert browser.fetched() == [written("three").as_uri()]
    (verdict,) = browser.texts(".verdict")
    ratio = faster(recorded, "kernel1", "kernel2")
    assert verdict == f"kernel2 removes all excessive wavefronts of kernel1 and is {ratio} times as fast."
    figures = browser.texts(".glance li strong")
    assert figures[0] == "1,886,388,224"
    assert not [figure for figure in figures if len(figure) > 1 and figure in verdict]


PICTURES = {"three": "figure", "four": "figure", "foreign": "figure", "many": "#kernels tbody .bar"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["three", "four", "foreign", "many", "hostile", "transpose", "map"])
def test_the_picture_is_on_the_first_screen_only_tables_scroll_sideways_and_no_text_is_small(
    browser: Browser, written: Written, name: str
) -> None:
    browser.open(written(name))
    for width, height in SCREENS:
        browser.resize(width, height)
        assert browser.script(WIDTH) <= width, width
        if picture := PICTURES.get(name):
            assert browser.box(picture).bottom <= height, width
            assert browser.box(".bar").width > 20, width
    browser.script(UNFOLD)
    for width in (1280, 700, 390) if name in ("three", "many") else (1280, 390):
        browser.resize(width)
        assert browser.script(WIDTH) <= width, width
        size, where = browser.script(SMALLEST)
        assert size >= 11, where


@pytest.mark.long
def test_the_way_to_the_sections_stays_in_view_and_a_link_into_a_hidden_one_shows_it(
    browser: Browser, written: Written
) -> None:
    browser.open(written("three"))
    for width, height in SCREENS:
        browser.resize(width, height)
        browser.script("document.querySelector('#metrics').scrollIntoView()")
        nav, heading = browser.box("nav"), browser.box("#metrics h2")
        assert 0 <= nav.top < nav.bottom <= heading.top < height, width
    press, table = "#metrics h2 button", "document.querySelector('#metrics table').offsetParent !== null"
    browser.script("document.querySelector(arguments[0]).focus()", press)
    browser.press(browser.ENTER)
    assert not browser.script(table)
    assert browser.script("document.querySelector(arguments[0]).ariaExpanded", press) == "false"
    browser.click("nav a[href='#metrics']")
    browser.script("new Promise(resolve => setTimeout(resolve, 50))")
    assert browser.script(table)


@pytest.mark.long
def test_pages_follow_the_reader_into_the_dark_and_can_be_read_there(browser: Browser, written: Written) -> None:
    papers, inks = {}, {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(written("four"))
        papers[scheme], inks[scheme] = browser.script(PAGE)
        assert 4.5 <= browser.script(HEAT) < 21, scheme
        browser.open(written("map"))
        contrast, colours = browser.script(BANKS)
        assert (contrast >= 4.5, colours) == (True, 32), scheme
    assert (papers["light"] > 0.8, inks["light"] < 0.1) == (True, True)
    assert (papers["dark"] < 0.1, inks["dark"] > 0.6) == (True, True)
    browser.prefer("light")
    browser.open(written("three"))
    shades = []
    for _ in range(4):
        shades.append(browser.script(PAGE)[0])
        browser.press("t")
    assert shades[0] == shades[1] == shades[3] == papers["light"]
    assert shades[2] == papers["dark"], "the reader's choice: automatic, light, dark"
    browser.open(written("three"))
    assert browser.texts(".tools button")[-1] == "Theme: autot", "which is forgotten"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        pytest.param("four", ("",), marks=pytest.mark.long),
        pytest.param("foreign", ("",), marks=pytest.mark.long),
        pytest.param("map", ("body",), marks=pytest.mark.long),
        pytest.param("many", ("header", "#kernels"), marks=pytest.mark.slow),
        pytest.param("three", ("#banks", "#units"), marks=pytest.mark.slow),
    ],
)
def test_axe_finds_no_violation(browser: Browser, written: Written, name: str, parts: Sequence[str]) -> None:
    browser.open(written(name))
    browser.script(UNFOLD)
    browser.driver.execute_script(SHORTEN)
    for part in parts:
        assert browser.violations(part) == [], part
    if name in ("foreign", "map"):  # in the dark only the colours are others, and they are the same on every page
        browser.prefer("dark")
        assert browser.violations(*parts, "color-contrast") == []


# ------------------------------------------------------------------------------------------------ lines and tables


@pytest.mark.long
def test_the_worst_lines_are_a_key_away_and_their_sass_unfolds(
    browser: Browser, written: Written, profiles: list[Profile]
) -> None:
    browser.open(written("three"))
    browser.click("nav .jump")
    path, number, counts = target(browser)
    assert counts[0] == f"{profiles[0].lines[path, number].wavefronts:,}"
    assert browser.script("document.querySelector('.panel:has(:target)').open")
    assert browser.script(TARGET_TOP) < 900
    browser.open(written("three"))
    for _ in range(3):
        browser.press("n")
        path, number, counts = target(browser)
        assert int(counts[1].replace(",", "")) == profiles[0].lines[path, number].excessive > 0  # type: ignore[operator]
        assert 0 < browser.script(TARGET_TOP) < 900
    there = browser.script("location.hash")
    browser.press("n")
    assert browser.script("location.hash") != there
    browser.press("p")
    assert browser.script("location.hash") == there
    button = f'[data-path="{LONG}"] tr[id$="-89"] button'
    browser.unfold(button)
    assert [under(browser, side) for side in (1, 2)] == [sass(profile, 89) for profile in profiles[:2]]
    assert browser.script("document.querySelector(arguments[0]).ariaExpanded", button) == "true"
    browser.click(button)
    assert browser.texts(".under") == []
    folded = "[...document.querySelectorAll('.source tbody.folded')].filter(b => b.offsetParent).length"
    browser.open(written("three"))
    assert browser.script(folded) == 0
    browser.press("e")
    assert browser.count("main details:not([open])") == 0
    assert browser.script(folded) == browser.count(".source tbody.folded") > 0
    browser.press("e")
    assert browser.count("main details[open]") == 0


@pytest.mark.long
def test_a_long_source_in_two_versions_shows_the_few_lines_that_matter_side_by_side(
    browser: Browser, written: Written, profiles: list[Profile]
) -> None:
    assert written("long").stat().st_size < 5_000_000
    browser.open(written("long"))
    assert browser.count(f'[data-path="{LONG}"] .text code') >= 3_000
    shown = f"[...document.querySelectorAll('[data-path=\"{LONG}\"] tbody tr')].filter(r => r.offsetParent).length"
    assert 20 < browser.script(shown) < 1_500
    browser.press("n")
    assert browser.script("document.querySelector(':target').offsetParent !== null")
    assert browser.texts(".source tr.added code") == ["+ // edited"]
    browser.unfold(f'[data-path="{LONG}"] tr[data-lines="[89,90]"] button')
    for side, profile in enumerate(profiles[:2], start=1):
        wanted = sass(profile, 89)
        assert len(wanted) > 10
        assert under(browser, side)[: len(wanted)] == wanted
    assert browser.errors() == []


@pytest.mark.long
def test_tables_sort_and_search(browser: Browser, written: Written, profiles: list[Profile]) -> None:
    browser.open(written("three"))
    press = "document.querySelectorAll('#mix .mix thead button')[1]"
    column = "#mix .mix tbody tr td:nth-of-type(1) .share > :first-child"
    browser.script(f"{press}.click()")
    largest_first = numbers(browser, column)
    assert largest_first == sorted(largest_first, reverse=True)
    assert browser.script(f"{press}.parentElement.ariaSort") == "descending"
    browser.script(f"{press}.focus()")
    browser.press(browser.ENTER)
    assert numbers(browser, column) == largest_first[::-1]
    assert browser.count("#mix .mix [aria-sort]") == 1
    browser.click("#mix .mix thead button")
    names = browser.texts("#mix .mix tbody th")
    assert names == sorted(names, key=str.lower)
    assert browser.texts("#mix .mix tfoot th")[0].startswith("All")
    browser.script("document.querySelectorAll('#stalls thead button')[3].click()")
    changes = [text.replace("−", "-").removesuffix(" pp") for text in browser.texts("#stalls .stalls td.change")[:9]]
    assert [float(text) for text in changes] == sorted(map(float, changes), reverse=True), "as numbers, not as text"
    assert float(changes[0]) > 0 > float(changes[-1])
    browser.script("scrollTo(0, 0)")
    browser.press("/")
    assert browser.script("[document.activeElement.type, document.activeElement.closest('section').id]") == [
        "search", "raw",
    ]  # fmt: skip
    browser.press("shared EXCESSIVE")
    metrics = {name for profile in profiles for name in profile.metrics}
    wanted = sorted(name for name in metrics if "shared" in name.lower() and "excessive" in name.lower())
    assert browser.texts("#raw tbody tr:not([hidden]) th") == wanted
    assert browser.texts("#raw [role=status]") == [f"{len(wanted):,} of {browser.count('#raw tbody tr'):,}"]
    assert browser.script("document.documentElement.dataset.theme ?? 'auto'") == "auto", "t was text, not a key"
    browser.open(written("three"))
    browser.driver.execute_script("document.querySelector('#instructions').scrollIntoView()")
    browser.press("/")
    assert browser.script("document.activeElement.closest('section').id") == "instructions", "where the reader is"


@pytest.mark.long
def test_each_of_many_launches_has_its_lines_and_its_data(browser: Browser, written: Written) -> None:
    browser.open(written("many"))
    assert browser.texts("#kernels tbody th") == ["f<0>", "f<1>", "f<2>"]
    browser.click("#kernels tbody tr:last-child a")
    assert browser.script("document.querySelector('#k2').open")
    browser.unfold("#k2-source .source tr:nth-child(1 of [id]) button")
    captions = {caption.split(":")[0] for caption in browser.texts("#k2-source .under caption")}
    assert captions
    assert captions <= {"old", "new"}
    assert browser.texts("#data button")[:2] == ["Download f-0-old.json", "Download f-0-new.json"]
    assert browser.errors() == []


# ------------------------------------------------------------------------------------------------ hostile text, scripts


@pytest.mark.long
def test_a_hostile_name_is_only_a_name_and_what_would_hide_or_reorder_text_is_shown(
    browser: Browser, written: Written
) -> None:
    foreign = "img, iframe, object, svg:not(.bankmap)"
    browser.open(written("hostile"))
    assert browser.fetched() == [written("hostile").as_uri()]
    assert (browser.count(foreign), browser.count("script")) == (0, 3)
    browser.unfold(".source th button")
    assert browser.count(".under table") > 4
    assert browser.count(foreign) == 0
    assert not browser.alerted()
    assert browser.errors() == []
    (heading,) = browser.texts("h1")
    assert heading.startswith(HOSTILE)
    assert HOSTILE in browser.texts("td.text")
    assert under(browser, 1)[0].endswith("\ufffd\ufffd\ufffd\ufffd[2J\ufffd")
    assert hidden(str(browser.script("document.body.innerText"))) == []


@pytest.mark.long
def test_a_downloaded_profile_is_the_profile_and_no_other_script_may_run(
    browser: Browser, written: Written, profiles: list[Profile], tmp_path: Path
) -> None:
    browser.download_to(tmp_path)
    browser.open(written("three"))
    assert browser.texts("#data button") == [f"Download {name}.json" for name in KERNELS]
    browser.script("document.querySelectorAll('#data button')[1].click()")
    file = tmp_path / "kernel2.json"
    assert wait_until(file.exists)
    assert file.read_bytes() == profiles[1].to_json().encode()
    assert browser.errors() == []
    html, tampered = written("three").read_text(encoding="utf-8"), tmp_path / "tampered.html"
    tampered.write_text(html.replace("</body>", "<script>document.title = 'taken'</script></body>"), encoding="utf-8")
    browser.open(tampered)
    assert "taken" not in browser.script("document.title")
    assert any("Content Security Policy" in error for error in browser.errors())
    browser.scripting(False)
    browser.open(written("three"))
    assert browser.texts("button, input[type=search]") == [], "without scripts nothing is dead"
    assert browser.count("#raw tbody tr") > 100
    browser.click(".gap input")
    assert browser.script("document.querySelector('.gap + .folded').offsetParent !== null")


# ------------------------------------------------------------------------------------------------ bank maps


def shown_steps(browser: Browser, selector: str) -> list[str]:
    """Return the classes of the steps that can be seen."""
    seen = "[...document.querySelectorAll(arguments[0])].filter(e => e.getClientRects().length)"
    return list(browser.script(f"{seen}.map(e => e.getAttribute('class').split(' ').at(-1))", selector))


@pytest.mark.long
@pytest.mark.parametrize("scripting", [True, False])
def test_the_phases_are_stepped_through_with_arrow_keys(browser: Browser, written: Written, scripting: bool) -> None:
    browser.scripting(scripting)
    browser.open(written("three"))
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
