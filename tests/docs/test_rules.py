"""The pages of codes: complete, and each minimal kernel has its finding, which is gone with the fix applied."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ncu_swizzle import cli
from ncu_swizzle.base import codes
from ncu_swizzle.base.codes import CATALOGUE
from ncu_swizzle.base.errors import UsageError
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT

RULES = ROOT / "docs" / "rules"
COMMAND = re.compile(r"^    ncu-swizzle lint (?P<file>[\w.]+\.cu) (?P<options>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """The kernel of a page and how it is launched, as it is and once it is fixed."""

    code: str
    source: str
    fixed: str
    options: tuple[str, ...]
    fixed_options: tuple[str, ...]

    @classmethod
    def of(cls, code: str) -> Example | None:
        page = codes.page(code)
        if not (block := re.search(r"```cuda\n(.*?)```", page, re.DOTALL)):
            return None
        commands = [tuple(shlex.split(command["options"])) for command in COMMAND.finditer(page)]
        fixed = block[1]
        for changes in re.findall(r"```diff\n(.*?)```", page, re.DOTALL):
            removed, added = ([line[1:] for line in changes.splitlines() if line[0] == sign] for sign in "-+")
            for old, new in zip(removed, added, strict=True):
                assert fixed.count(f"{old}\n") == 1, old
                fixed = fixed.replace(f"{old}\n", f"{new}\n")
        assert (fixed, commands[-1]) != (block[1], commands[0]), "a page with an example says how to fix it"
        return cls(code, block[1], fixed, commands[0], commands[-1])


EXAMPLES = {code: example for code in CATALOGUE if (example := Example.of(code))}


def found(source: str, options: tuple[str, ...]) -> list[str]:
    """Return the codes that lint prints for a source in the current folder."""
    Path("example.cu").write_text(source, encoding="utf-8")
    printed = CliRunner().invoke(cli.app, ["lint", "example.cu", *options]).stdout
    findings = re.findall(r"^(?:error|fail|inconclusive|warning|suppressed) +([A-Z]+\d+) ", printed, re.MULTILINE)
    assert "The gate: " in printed, printed
    return [*findings, *(["pass"] if "The gate: pass" in printed else [])]


@NEEDS_ALL
@pytest.mark.parametrize("code", EXAMPLES)
def test_the_example_has_the_finding_and_the_fix_has_none(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = EXAMPLES[code]
    findings = set(found(example.source, example.options)) - {"pass"}
    assert findings == {code}
    assert found(example.fixed, example.fixed_options) == ["pass"]


def test_every_code_has_its_page_and_its_row() -> None:
    index = codes.page("codes")
    for code in CATALOGUE.values():
        title, meaning, facts, *_ = codes.page(code.id).split("\n\n")
        assert (title, meaning) == (f"# {code.id}: {code.name}", code.meaning)
        assert facts.startswith(f"Severity {code.severity}, about a {code.about}; from `{code.commands[0]}`")
        assert f"| [{code.id}]({code.id}.md) | {code.name} | {code.meaning} | {code.severity} | " in index
        assert bool(code.remedy) == code.unknown
    assert sorted(path.stem for path in RULES.glob("*.md")) == sorted([*CATALOGUE, "index"])
    schemas = (ROOT / "docs" / "reference" / "schemas.md").read_text(encoding="utf-8")
    for code in CATALOGUE.values():
        row = f"| [{code.id}](../rules/{code.id}.md) | {code.meaning} | {code.remedy} |\n"
        assert (row in schemas) == code.unknown


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("sw001", "SW001", ""),
        ("UN001", "UN001", ""),
        ("SW01", "", "there is no code 'SW01', did you mean 'SW001'?"),
        ("SW0013", "", "there is no code 'SW0013', did you mean 'SW013'?"),
        ("MEM001", "", "there is no code 'MEM001'"),
    ],
)
def test_explain_prints_the_page_or_names_the_nearest_code(typed: str, code: str, said: str) -> None:
    assert codes.is_code(typed)
    done = CliRunner().invoke(cli.app, ["explain", typed])
    if code:
        assert done.stdout == codes.page(code)
        return
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_kernels_may_be_called_like_codes_in_small_letters() -> None:
    assert [codes.is_code(word) for word in ("sw128", "un1", "turn", "kernel1", "codes")] == [False] * 4 + [True]
