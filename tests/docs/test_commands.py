"""Every command line in the documentation has options and arguments that exist; test_examples.py runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from ncu_swizzle.cli import ClickException, app
from tests.support.places import ROOT
from tests.support.typed_lines import PAGES, TypedLine, lines


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
            parsed([word for word in line.words if "…" not in word], "…" in line.text)
        except (ClickException, KeyError) as error:
            pytest.fail(f"{line.text}: {error}")


def test_lines_are_found_and_mistakes_noticed() -> None:
    assert sum(len(list(lines(page))) for page in PAGES) > 60
    assert TypedLine("ncu-swizzle check my.ncu-rep --max-degree '*=1'     # each kind").words == [
        "check", "my.ncu-rep", "--max-degree", "*=1",
    ]  # fmt: skip
    with pytest.raises(ClickException):
        parsed(["lint", "my.cu", "--sarift", "x"], False)


def test_every_console_block_is_run(script: Callable[[str], ModuleType]) -> None:
    """A block of kind console has to be on a page that docs/examples.py runs."""
    examples = script("examples")
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        text = page.read_text(encoding="utf-8")
        assert text.count("```console") == len(examples.BLOCK.findall(text)), f"{name}: a block without a command"
        assert "```console" not in text or name in examples.PAGES, f"{name}: add it to docs/examples.py"
