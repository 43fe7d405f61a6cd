"""Every command line in the documentation: examples are run (docs/examples.py), all others are read by the commands.

Lines that need a GPU, or files of the reader's, cannot be run here; but their options and arguments have to exist.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from ncu_swizzle.cli import ClickException, app
from tests.support.places import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
TYPED = re.compile(r"^(?: {4,}|\$ | {4,}\$ )(?P<line>(?:NCU_\w+=\S+ )?ncu-swizzle (?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
PROSE = re.compile(r"\s{2,}(?:[a-z→#]).*$")  # what stands beside a command


def lines(page: Path) -> Iterator[str]:
    """Yield the command lines of a page, each on one line."""
    for found in TYPED.finditer(page.read_text(encoding="utf-8")):
        yield re.sub(r"\\\n\s*", " ", found["line"])


def words(line: str) -> list[str]:
    """Return a command's words: without its comment, what it is piped to, and places for the reader's own."""
    bare = PROSE.sub("", line.partition("  #")[0])
    typed = shlex.split(bare.partition(" | ")[0].partition(" > ")[0].partition(" && ")[0], comments=False)
    start = typed.index("ncu-swizzle") + 1
    return [word for word in typed[start:] if "…" not in word]


def parsed(typed: list[str], incomplete: bool) -> None:
    """Have the command that is meant read its arguments; raise click's error if it cannot."""
    command: Any = typer.main.get_command(app)
    name = "ncu-swizzle"
    while hasattr(command, "commands") and typed:
        name, *typed = typed
        if name.startswith("-"):
            return  # an option of ncu-swizzle itself
        command = command.commands[name]
    command.make_context(name, typed, resilient_parsing=incomplete)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_line_is_one_that_can_be_typed(page: Path) -> None:
    for line in lines(page):
        try:
            parsed(words(line), "…" in line)
        except (ClickException, KeyError) as error:
            pytest.fail(f"{line}: {error}")


def test_lines_are_found_and_mistakes_noticed() -> None:
    assert sum(len(list(lines(page))) for page in PAGES) > 60
    assert words("ncu-swizzle check my.ncu-rep --max-degree '*=1'     # each kind") == [
        "check", "my.ncu-rep", "--max-degree", "*=1",
    ]  # fmt: skip
    with pytest.raises(ClickException):
        parsed(["lint", "my.cu", "--sarift", "x"], False)


def test_every_console_block_is_run_or_marked(script: Callable[[str], ModuleType]) -> None:
    """A block of kind console has to be on a page that docs/examples.py runs, or says that it cannot."""
    examples = script("examples")
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if "```console\n" in page.read_text(encoding="utf-8"):
            assert name in {*examples.PAGES, *examples.RECORDED}, f"{name}: add it to docs/examples.py"
