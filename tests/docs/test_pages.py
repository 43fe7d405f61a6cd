"""The pages of the documentation: in the site's navigation, with pictures and links that exist."""

import html
import importlib
import re
from collections.abc import Iterator
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
    picture = importlib.import_module("picture")
    for name in picture.MAPS:
        assert (DOCS / "learn" / f"{name}.svg").read_bytes() == picture.bank_map(name), f"{name}: make picture"
    moving = (DOCS / "session.svg").read_text(encoding="utf-8")
    assert "<script" not in moving
    assert "href" not in moving
    shown = "".join(html.unescape("".join(re.findall(r">([^<]*)</tspan>", moving))).split())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```console\n\$ (ncu-swizzle (?:lint|fix).*?)```", readme, re.DOTALL):
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
