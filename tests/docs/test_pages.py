"""The documentation's pages, the bank explorer in a browser, and the site as it is read from disk."""

from __future__ import annotations

import csv
import html
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs import picture
from ncu_swizzle import cli
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.frontends import contract
from ncu_swizzle.smem import access, bankmap, mapping
from tests.support.places import ROOT, text

if TYPE_CHECKING:
    from tests.support.chromium import Browser


DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?P<target>[^)#:]+)(?:#[^)]*)?\)")
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def named(part: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    if isinstance(part, str):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from named(each)


def test_every_page_is_in_the_navigation_once() -> None:
    yaml = pytest.importorskip("ruamel.yaml", reason="needs ruamel.yaml")
    configuration = yaml.YAML(typ="safe").load(ROOT / "mkdocs.yml")
    pages = list(named(configuration["nav"]))
    assert sorted(set(pages)) == sorted(pages)
    assert set(PAGES) <= set(pages), "a page needs its line under nav in mkdocs.yml"


def test_links_lead_somewhere() -> None:
    made = {"reference/cli.md", "catalog.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "recordings.md"}
    nowhere = []
    for page in [ROOT / "README.md", *(DOCS / page for page in PAGES)]:
        for link in LINK.finditer(page.read_text(encoding="utf-8")):
            target = (page.parent / link["target"]).resolve()
            built = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else ""
            if not target.exists() and built not in made and not built.startswith(("schemas/", "gallery/")):
                nowhere.append(f"{page.name}: {link[0]}")
    assert nowhere == []


def test_the_pictures_are_up_to_date() -> None:
    for name in picture.MAPS:
        assert (DOCS / "learn" / f"{name}.svg").read_bytes() == picture.bank_map(name), f"{name}: make picture"
    moving = (DOCS / "session.svg").read_text(encoding="utf-8")
    assert "<script" not in moving
    assert "href" not in moving
    shown = "".join(html.unescape("".join(re.findall(r">([^<]*)</tspan>", moving))).split())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```console\n\$ (ncu-swizzle (?:lint|fix) turn.cu.*?)```", readme, re.DOTALL):
        for line in block.splitlines()[1:]:  # tests/docs/test_commands.py runs these
            assert line == "…" or line.startswith("exit code") or "".join(line.split()) in shown, (
                f"{line}: make picture"
            )


def test_the_python_of_the_case_studies_says_what_it_gives() -> None:
    page = (DOCS / "cases" / "index.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    said = [int(number) for number in re.findall(r"^copied\(.*\)  # (\d+)", snippet, re.MULTILINE)]
    names: dict[str, Any] = {"found": []}
    exec(re.sub(r"^copied\((.*)\)  #.*$", r"found.append(copied(\1))", snippet, flags=re.MULTILINE), names)
    assert [int(count) for count in names["found"]] == said == [32, 16, 4]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
TYPED = re.compile(r"(?:ncu-swizzle|-e '\.|install '\.|--editable '\.)\[([\w,-]+)\]")


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [PROJECT["version"]]
    assert f"\n## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_whatever_is_to_be_typed_names_extras_that_exist() -> None:
    folders = [path for name in ("ncu_swizzle", "docs", "editors", "examples") for path in (ROOT / name).rglob("*.*")]
    files = [path for path in folders if path.suffix in {".py", ".md", ".yml", ".sh"}]
    texts = [
        path.read_text(encoding="utf-8")
        for path in [*files, *map(ROOT.joinpath, ("README.md", "CONTRIBUTING.md", "Makefile"))]
    ]
    named = {name for text in texts for match in TYPED.findall(text) for name in match.split(",")}
    assert named == {*EXTRAS}
    assert len(EXTRAS) == 7


def test_what_a_language_needs_is_in_the_extra_of_all() -> None:
    typed = {word for line in contract.INSTALL.values() for word in re.findall("'([^']*)'", line)}
    assert typed == {requirement.partition(";")[0] for requirement in EXTRAS["python-kernels"]}


@pytest.mark.parametrize(
    ("library", "arguments", "extra"),
    [
        ("mcp", ("serve", "mcp"), "servers"),
        ("pygls", ("serve", "lsp"), "servers"),
        ("distributed", ("sweep", "transpose", "--problem", "n=256", "--workers", "2"), "fleet"),
    ],
)
def test_a_command_that_lacks_a_library_says_what_to_type(
    library: str,
    arguments: tuple[str, ...],
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """PyCUDA: tests/commands/test_cli.py, nvcc: tests/kernels/test_toolchain.py, languages: tests/frontends."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == library or name.startswith("ncu_swizzle.servers."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(sys, "argv", ["ncu-swizzle", *arguments])
    monkeypatch.chdir(tmp_path)
    assert cli.main() == 3
    printed = capsys.readouterr()
    assert f"pip install 'ncu-swizzle[{extra}]'" in printed.err
    assert printed.out == ""


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


@pytest.mark.long
def test_it_shows_before_and_after_and_loads_nothing_else(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    assert browser.texts(COUNTS.format(4)) == ["512", "64"]
    assert browser.texts(COUNTS.format(6)) == ["8.00", "1.00"]
    assert browser.errors() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.fetched())


@pytest.mark.long
def test_the_phases_are_stepped_through_with_arrow_keys(browser: Browser, explorer_file: Path) -> None:
    browser.open(explorer_file)
    browser.script("document.getElementById('step').focus()")
    assert browser.texts("#where")[0].startswith("Request 0 of 16, phase 0: lanes 0 to 7")
    browser.press(browser.RIGHT)
    assert browser.texts("#where") == ["Request 0 of 16, phase 1: lanes 8 to 15. Words of the busiest bank: 8 → 1."]
    assert browser.script("document.querySelectorAll('.bankmap .own').length") == 16
    browser.script("document.getElementById('previous').click()")
    assert "phase 0" in browser.texts("#where")[0]


@pytest.mark.long
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


@pytest.mark.long
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


RESULTS = ".md-search-result__article h1"
FOUND = f"""(async () => {{
    document.querySelector("#__search").click();
    const field = document.querySelector(".md-search__input");
    field.value = arguments[0];
    field.dispatchEvent(new Event("keyup"));
    for (let tries = 0; tries < 300 && !document.querySelector("{RESULTS}"); ++tries)
        await new Promise(done => setTimeout(done, 100));
}})()"""


def shown_by_search(browser: Browser, page: Path, words: str) -> list[str]:
    """Return the pages that the site's search finds."""
    browser.open(page)
    browser.driver.set_script_timeout(60)
    browser.script(FOUND, words)
    return browser.texts(RESULTS)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "learn/jonah.html"])
def test_the_search_works_from_disk(page: str, site: Path, browser: Browser) -> None:
    assert "Why XOR" in shown_by_search(browser, site / page, "rotation bijection")
    assert browser.errors() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.fetched())


@pytest.mark.slow
def test_no_page_fetches_anything_or_reports_an_error(site: Path, browser: Browser) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]  # whose links are a server's
    assert len(pages) > 40
    for page in pages:
        browser.open(page)
        assert browser.errors() == [], page
        assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.fetched()), page
