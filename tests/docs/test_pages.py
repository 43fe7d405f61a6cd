"""The pages of the documentation: in the navigation, with pictures, links and extras that exist."""

import html
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import picture
from ncu_swizzle import cli
from ncu_swizzle.frontends import contract
from tests.support.places import RECORDINGS, ROOT

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


# ---------------------------------------------------------------------------------------------------- installing


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
TYPED = re.compile(r"(?:ncu-swizzle|-e '\.|install '\.|--editable '\.)\[([\w,-]+)\]")
RECORDED = str(RECORDINGS / "transpose" / "transpose-xor.ncu-rep")


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
