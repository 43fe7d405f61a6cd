"""The documentation site as it is read from disk: without a server and without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.chromium import Browser

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]  # building the site takes 10 s
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


@pytest.mark.parametrize("page", ["index.html", "learn/jonah.html"])
def test_the_search_works_from_disk(page: str, site: Path, browser: Browser) -> None:
    assert "Why XOR" in shown_by_search(browser, site / page, "rotation bijection")
    assert browser.errors() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.fetched())


def test_no_page_fetches_anything_or_reports_an_error(site: Path, browser: Browser) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]  # whose links are a server's
    assert len(pages) > 40
    for page in pages:
        browser.open(page)
        assert browser.errors() == [], page
        assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.fetched()), page
