"""The report as a reader sees it: opened from a file in a real browser."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.render import page as report
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from tests.support.hostile import hidden, poisoned
from tests.support.pages import HOSTILE
from tests.support.recordings import KERNELS

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = pytest.mark.xdist_group("chromium")  # one browser for all
LONG = "kernels/attention/attention.cuh"
HIDING = ("KernelId.name", "Instruction.sass", "Instruction.stack", "Profile.sources")


def test_it_opens_without_an_error_and_fetches_nothing_but_itself(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    assert browser.script("document.readyState") == "complete"
    assert browser.errors() == []
    assert browser.fetched() == [page_file.as_uri()]


def test_it_shows_the_figures_of_the_profiles(browser: Browser, page_file: Path, profiles: list[Profile]) -> None:
    browser.open(page_file)
    (row,) = [cells for cells in _rows(browser, "#metrics") if cells[0].startswith("Excessive")]
    first, second, _, third = row[1:]
    assert [first, second, third] == [f"{p.total.excessive:,}" for p in profiles]
    counts, times = browser.texts(".glance li .counted"), browser.texts(".glance li .timed")
    assert [count.split()[0] for count in counts] == [f"{p.total.excessive:,}" for p in profiles]
    assert [time.split(" ms")[0] for time in times] == [f"{p.duration_ns / 1e6:.3f}" for p in profiles]
    assert times[1].endswith(" ms"), "the verdict has its speedup"
    assert times[2].endswith(f" {profiles[0].duration_ns / profiles[2].duration_ns:.2f}×")


def test_it_shows_every_access_kind_of_every_profile(
    browser: Browser, page_file: Path, profiles: list[Profile]
) -> None:
    browser.open(page_file)
    shown = [cells[-8:-2] for cells in _rows(browser, "#accesses")]
    for label, profile in zip(KERNELS, profiles, strict=True):
        for total in profile.accesses.values():
            counts = [f"{n:,}" for n in (total.wavefronts, total.ideal, total.excessive)]
            assert [label, *counts, f"{total.degree:.2f}"] in [cells[:5] for cells in shown]


def test_the_jump_leads_to_the_worst_line(browser: Browser, page_file: Path, profiles: list[Profile]) -> None:
    browser.open(page_file)
    browser.script("document.querySelector('nav .jump').click()")
    number, _, _, wavefronts, *_ = browser.texts("tr:target > *")
    (path,) = browser.texts(".panel:has(:target) summary code")
    assert wavefronts == f"{profiles[0].lines[path, int(number)].wavefronts:,}"
    assert browser.script("document.querySelector('.panel:has(:target)').open")
    assert browser.script("document.querySelector(':target').getBoundingClientRect().top") < 900


def test_a_hostile_name_is_only_a_name(browser: Browser, hostile_file: Path) -> None:
    browser.open(hostile_file)
    assert not browser.alerted()
    assert browser.errors() == []
    assert browser.fetched() == [hostile_file.as_uri()]
    assert browser.script("document.querySelectorAll('img, iframe, object, svg:not(.bankmap)').length") == 0
    assert browser.script("document.querySelectorAll('script').length") == 3
    browser.unfold(".source th button")
    assert browser.script("document.querySelectorAll('.under table').length") > 10
    assert browser.script("document.querySelectorAll('img, iframe, object, svg:not(.bankmap)').length") == 0
    assert not browser.alerted()
    (heading,) = browser.texts("h1")
    assert heading.startswith(HOSTILE)
    assert HOSTILE in browser.texts("td.text")


def test_what_would_reorder_or_hide_text_is_shown(browser: Browser, profiles: list[Profile], tmp_path: Path) -> None:
    before = poisoned(profiles[0], lambda text: f"{text}\u202e\u2066\u200b\x1b[2J\u2028", HIDING)
    file = tmp_path / "hiding.html"
    file.write_text(report.render(compare([before, profiles[1]])), encoding="utf-8")
    browser.open(file)
    browser.unfold(".source th button")
    unfolded = browser.texts(".under .sides table:first-child tbody code")
    assert unfolded[0].endswith("\ufffd\ufffd\ufffd\ufffd[2J\ufffd")
    assert hidden(str(browser.script("document.body.innerText"))) == []


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_only_tables_scroll_sideways(browser: Browser, page_file: Path, hostile_file: Path, width: int) -> None:
    browser.resize(width)
    for file in (page_file, hostile_file):
        browser.open(file)
        browser.script("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert browser.script("document.documentElement.scrollWidth") <= width
        assert browser.script("document.documentElement.clientWidth") >= width - 20


def test_it_follows_the_reader_into_the_dark(browser: Browser, page_file: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(page_file)
        style = "getComputedStyle(document.body)"
        colours[scheme] = [_brightness(browser.script(f"{style}.{what}")) for what in ("backgroundColor", "color")]
    assert colours["light"][0] > 600
    assert colours["light"][1] < 200
    assert colours["dark"][0] < 200
    assert colours["dark"][1] > 600


def test_the_theme_is_the_readers_choice_and_forgotten(browser: Browser, page_file: Path) -> None:
    browser.prefer("light")
    browser.open(page_file)
    colour = "getComputedStyle(document.body).backgroundColor"
    shades = []
    for _ in range(4):
        shades.append(_brightness(browser.script(colour)))
        browser.press("t")
    light, also_light, dark, again = shades
    assert light == also_light == again > 600
    assert dark < 200
    browser.open(page_file)
    assert browser.texts(".tools button")[-1] == "Theme: autot"


def test_a_head_sorts_its_column_by_click_and_by_key(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    press = "document.querySelectorAll('#mix .mix thead button')[1]"
    column = "#mix .mix tbody tr td:nth-of-type(1) .share > :first-child"
    browser.script(f"{press}.click()")
    largest_first = _numbers(browser, column)
    assert largest_first == sorted(largest_first, reverse=True)
    assert browser.script(f"{press}.parentElement.ariaSort") == "descending"
    browser.script(f"{press}.focus()")
    browser.press(browser.ENTER)
    assert _numbers(browser, column) == largest_first[::-1]
    assert browser.script("document.querySelectorAll('#mix .mix [aria-sort]').length") == 1
    browser.script("document.querySelectorAll('#mix .mix thead button')[0].click()")
    names = browser.texts("#mix .mix tbody th")
    assert names == sorted(names, key=str.lower)
    assert browser.texts("#mix .mix tfoot th")[0].startswith("All")


def test_changes_sort_by_what_they_mean(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    browser.script("document.querySelectorAll('#stalls thead button')[3].click()")
    shown = [float(t.replace("−", "-").removesuffix(" pp")) for t in browser.texts("#stalls .stalls td.change")[:9]]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] > 0 > shown[-1]


def test_the_search_leaves_what_was_searched(browser: Browser, page_file: Path, profiles: list[Profile]) -> None:
    browser.open(page_file)
    browser.press("/")
    assert browser.script("document.activeElement.type") == "search"
    assert browser.script("document.activeElement.closest('section').id") == "raw"
    browser.press("shared EXCESSIVE")
    wanted = sorted({n for p in profiles for n in p.metrics if "shared" in n.lower() and "excessive" in n.lower()})
    assert browser.texts("#raw tbody tr:not([hidden]) th") == wanted
    assert browser.texts("#raw [role=status]") == [f"{len(wanted):,} of {len(browser.texts('#raw tbody tr')):,}"]
    assert browser.script("document.documentElement.dataset.theme ?? 'auto'") == "auto", "t was text, not a key"


def test_the_next_hot_line_is_a_key_away(browser: Browser, page_file: Path, profiles: list[Profile]) -> None:
    browser.open(page_file)
    for _ in range(3):
        browser.press("n")
        number, _, _, _, excessive, *_ = browser.texts("tr:target > *")
        (path,) = browser.texts(".panel:has(:target) summary code")
        assert int(excessive.replace(",", "")) == profiles[0].lines[path, int(number)].excessive > 0
        assert 0 < browser.script("document.querySelector(':target').getBoundingClientRect().top") < 900
    there = browser.script("location.hash")
    browser.press("n")
    assert browser.script("location.hash") != there
    browser.press("p")
    assert browser.script("location.hash") == there


def test_everything_unfolds_and_folds_again(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    hidden = "[...document.querySelectorAll('.source tbody.folded')].filter(b => b.offsetParent).length"
    assert browser.script(hidden) == 0
    browser.press("e")
    assert browser.script("document.querySelectorAll('main details:not([open])').length") == 0
    assert browser.script(hidden) == browser.script("document.querySelectorAll('.source tbody.folded').length") > 0
    browser.press("e")
    assert browser.script("document.querySelectorAll('main details[open]').length") == 0


def test_a_lines_sass_unfolds_under_it(browser: Browser, page_file: Path, profiles: list[Profile]) -> None:
    browser.open(page_file)
    path, number = "kernels/attention/attention.cuh", 89
    button = f'document.querySelector(\'[data-path="{path}"] tr[id$="-{number}"] button\')'
    browser.unfold(f'[data-path="{path}"] tr[id$="-{number}"] button')
    for side, profile in enumerate(profiles[:2], start=1):
        wanted = [i.sass for i in profile.instructions if (path, number) in i.stack]
        assert browser.texts(f".under .sides table:nth-child({side}) tbody code") == wanted
    assert browser.script(f"{button}.ariaExpanded") == "true"
    browser.script(f"{button}.click()")
    assert browser.texts(".under") == []


def test_two_versions_of_a_source_unfold_side_by_side(
    browser: Browser, profiles: list[Profile], tmp_path: Path
) -> None:
    before, after = profiles[:2]
    edited = replace(
        after,
        sources={**after.sources, LONG: f"// edited\n{after.sources[LONG]}"},
        instructions=tuple(
            replace(i, stack=tuple((file, line + (file == LONG)) for file, line in i.stack)) for i in after.instructions
        ),
    )
    file = tmp_path / "edited.html"
    file.write_text(report.render(compare([before, edited])), encoding="utf-8")
    browser.open(file)
    browser.unfold(f'[data-path="{LONG}"] tr[data-lines="[89,90]"] button')
    assert browser.texts(".source tr.added code") == ["+ // edited"]
    for side, (profile, number) in enumerate(((before, 89), (edited, 90)), start=1):
        wanted = [i.sass for i in profile.instructions if (LONG, number) in i.stack]
        assert len(wanted) > 10
        assert browser.texts(f".under .sides table:nth-child({side}) tbody code") == wanted


def test_a_profile_downloaded_from_the_page_is_the_profile(
    browser: Browser, page_file: Path, profiles: list[Profile], tmp_path: Path
) -> None:
    browser.download_to(tmp_path)
    browser.open(page_file)
    assert browser.texts("#data button") == [f"Download {name}.json" for name in KERNELS]
    browser.script("document.querySelectorAll('#data button')[1].click()")
    file = tmp_path / "kernel2.json"
    for _ in range(100):
        if file.exists():
            break
        time.sleep(0.1)
    assert file.read_bytes() == profiles[1].to_json().encode()
    assert browser.errors() == []


def test_another_script_may_not_run(browser: Browser, page_file: Path, tmp_path: Path) -> None:
    tampered = tmp_path / "tampered.html"
    html = page_file.read_text(encoding="utf-8")
    tampered.write_text(html.replace("</body>", "<script>document.title = 'taken'</script></body>"), encoding="utf-8")
    browser.open(tampered)
    assert "taken" not in browser.script("document.title")
    assert any("Content Security Policy" in error for error in browser.errors())


def test_without_scripts_all_is_there_and_nothing_is_dead(browser: Browser, page_file: Path) -> None:
    browser.scripting(False)
    try:
        browser.open(page_file)
        assert browser.texts("button, input[type=search]") == []
        assert len(browser.texts("#raw tbody tr")) > 100
        assert browser.script("document.querySelectorAll('.gap input').length") > 0
        browser.script("document.querySelector('.gap input').click()")
        assert browser.script("document.querySelector('.gap + .folded').offsetParent !== null")
    finally:
        browser.scripting(True)


def test_it_prints(browser: Browser, page_file: Path) -> None:
    browser.open(page_file)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF-")
    assert 3 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 40


def test_sixty_profiles_stay_readable(browser: Browser, profiles: list[Profile], tmp_path: Path) -> None:
    file = tmp_path / "sixty.html"
    file.write_text(report.render(compare(profiles * 20)), encoding="utf-8")
    browser.resize(1280)
    browser.open(file)
    assert len(browser.texts("#overview tbody tr")) == 60
    assert browser.texts("h1 small") == ["and 58 others"]
    assert browser.script("document.documentElement.scrollWidth") <= 1280
    assert browser.script("document.querySelector('figure').getBoundingClientRect().top") < 900
    assert browser.errors() == []
    browser.script("document.querySelectorAll('#overview thead button')[1].click()")
    shown = _numbers(browser, "#overview tbody td:nth-of-type(1) .share > :first-child")
    assert shown == sorted(shown, reverse=True)


def test_a_source_of_three_thousand_lines_shows_the_few_that_matter(
    browser: Browser, profiles: list[Profile], tmp_path: Path
) -> None:
    file = tmp_path / "long.html"
    file.write_text(report.render(compare([_long(profile) for profile in profiles[:2]])), encoding="utf-8")
    assert file.stat().st_size < 5_000_000
    browser.open(file)
    assert browser.script(f"document.querySelectorAll('[data-path=\"{LONG}\"] .text code').length") >= 3_000
    seen = f"[...document.querySelectorAll('[data-path=\"{LONG}\"] tbody tr')].filter(r => r.offsetParent).length"
    assert 20 < browser.script(seen) < 1_500
    browser.press("n")
    assert browser.script("document.querySelector(':target').offsetParent !== null")
    assert browser.errors() == []


def _long(profile: Profile) -> Profile:
    """Return a profile of 5,000 instructions, whose sites are spread over 3,000 lines."""
    lines = profile.sources[LONG].splitlines()
    start, own = profile.instructions[0].pc, len(profile.instructions)
    instructions = []
    for number in range(5_000):
        one = profile.instructions[number % own]
        moved = number // own * 2 * len(lines)
        stack = tuple((file, line + moved if file == LONG else line) for file, line in one.stack)
        instructions.append(replace(one, pc=start + 16 * number, stack=stack))
    text = "\n".join((lines * (3_000 // len(lines) + 1))[:3_000])
    return replace(profile, sources={**profile.sources, LONG: text}, instructions=tuple(instructions))


def _numbers(browser: Browser, selector: str) -> list[float]:
    return [float(text.replace(",", "")) for text in browser.texts(selector)]


def _brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def _rows(browser: Browser, section: str) -> list[list[str]]:
    code = "[...document.querySelectorAll(arguments[0])].map(r => [...r.cells].map(c => c.textContent.trim()))"
    return browser.script(code, f"{section} tbody tr")


def test_a_page_of_many_kernels_works_for_each_of_them(browser: Browser, many_file: Path) -> None:
    browser.open(many_file)
    assert browser.errors() == []
    assert browser.texts("#kernels tbody th") == ["f<0>", "f<1>", "f<2>"]
    browser.script("document.querySelector('#kernels tbody tr:last-child a').click()")
    assert browser.script("document.querySelector('#k2').open")
    browser.unfold("#k2-source .source tr:nth-child(1 of [id]) button")
    captions = browser.texts("#k2-source .under caption")
    assert captions
    assert {caption.split(":")[0] for caption in captions} <= {"old", "new"}
    assert browser.texts("#data button")[:2] == ["Download f-0-old.json", "Download f-0-new.json"]
    browser.resize(700)
    browser.script("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.script("document.documentElement.scrollWidth") <= 700
