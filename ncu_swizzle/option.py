"""A dataclass field that commands take as an option, with its help, flags and choices.

`commands.groups` turns such fields into command-line options, so that an option shared by several commands is described
once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

KEY = "option"


@dataclasses.dataclass(frozen=True)
class Option:
    """A field as a command-line option; the default flag is ``--`` and its name."""

    help: str
    metavar: str = ""
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None


def option(
    default: Any,
    help: str,  # noqa: A002 - as every library of command lines calls it
    metavar: str = "",
    flags: Sequence[str] = (),
    choices: Sequence[str] = (),
    minimum: float | None = None,
) -> Any:
    """Return a dataclass field with this default that is also an option."""
    described = Option(help, metavar, tuple(flags), tuple(choices), minimum)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata={KEY: described})
    return dataclasses.field(default=default, metadata={KEY: described})


def options_of(kind: type) -> dict[str, Option]:
    """Return the options of a dataclass by field name."""
    return {field.name: field.metadata[KEY] for field in dataclasses.fields(kind) if KEY in field.metadata}
