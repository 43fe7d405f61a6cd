"""Installing: one version everywhere, extras that exist, and commands that say what to type if one is missing."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from ncu_swizzle import cli
from ncu_swizzle.frontends import contract
from tests.support.places import RECORDINGS, ROOT

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
        ("pyarrow", ("history", "add", RECORDED), "fleet"),
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
