"""The reference of the command line, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from ncu_swizzle.cli import command_line

INTRODUCTION = """# The command line

Made from the commands; `ncu-swizzle COMMAND --help-all` prints the same. [Exit codes](../index.md#exit-codes) are
common to all.
"""


def markdown() -> str:
    """Return the page."""
    group = typer.main.get_command(command_line())
    return "\n".join([INTRODUCTION, *(part for name, command in leaves(group) for part in section(name, command))])


def leaves(command: Any, name: str = "ncu-swizzle") -> Iterator[tuple[str, Any]]:
    """Yield the full name of each command that does something."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for word, part in below.items():
        yield from leaves(part, f"{name} {word}")


def section(name: str, command: Any) -> Iterator[str]:
    """Yield the lines of one command's section."""
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"## {name}\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{name} {pieces}\n```\n"
    yield help_text((command.help or "").replace("\f", "")) + "\n"
    rows = [row for parameter in command.params if not getattr(parameter, "hidden", False)
            for row in described(parameter, context)]  # fmt: skip
    if rows:
        yield "| argument or option | default | what it does |\n|---|---|---|"
        yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def help_text(text: str) -> str:
    """Return a command's help; paragraphs that are laid out by hand stay as they are."""
    paragraphs = [part.strip("\n") for part in text.split("\n\n")]
    return "\n\n".join(
        "```text\n" + part.removeprefix("\b").strip("\n") + "\n```" if part.startswith("\b") else escaped(part)
        for part in paragraphs
    )


def described(parameter: Any, context: Any) -> Iterator[tuple[str, str, str]]:
    """Yield an option's or argument's names, default and help."""
    record = parameter.get_help_record(context)
    if record is None:
        return
    names, text = record
    default = parameter.get_default(context, call=False)
    shown = "" if default in (None, False, (), [], "") or callable(default) else f"`{default}`"
    yield f"`{names.replace('|', chr(92) + '|')}`", shown, escaped(" ".join(text.split()))


def escaped(text: str) -> str:
    """Return the text so that Markdown shows it as it is."""
    for character in "\\`*_<>[]|":
        text = text.replace(character, "\\" + character)
    return text
