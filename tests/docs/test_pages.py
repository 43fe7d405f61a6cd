"""The pages of the documentation: in the site's navigation, with pictures and links that exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.support.places import ROOT

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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    made = {"reference/cli.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "recordings.md", "test-data.md"}
    for link in LINK.finditer((DOCS / page).read_text(encoding="utf-8")):
        target = (DOCS / page).parent / link["target"]
        uri = target.resolve()
        built = uri.is_relative_to(DOCS) and uri.relative_to(DOCS).as_posix()
        assert uri.exists() or built in made or str(built).startswith(("schemas/", "gallery/")), link[0]


@pytest.mark.parametrize("name", ["kernel2", "cute", "jonah", "gemm"])
def test_the_bank_maps_are_up_to_date(name: str, script: Callable[[str], ModuleType]) -> None:
    picture = (DOCS / "learn" / f"{name}.svg").read_bytes()
    assert picture == script("picture").bank_map(name), "make picture"


def test_the_python_of_the_case_studies_says_what_it_gives() -> None:
    page = (DOCS / "cases" / "index.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    said = [int(number) for number in re.findall(r"^copied\(.*\)  # (\d+)", snippet, re.MULTILINE)]
    names: dict[str, Any] = {"found": []}
    exec(re.sub(r"^copied\((.*)\)  #.*$", r"found.append(copied(\1))", snippet, flags=re.MULTILINE), names)
    assert [int(count) for count in names["found"]] == said == [32, 16, 4]
