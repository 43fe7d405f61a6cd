"""A dataclass field that commands take as an option, with its help, flags and choices.

`commands.groups` turns such fields into command-line options, and the Python API takes them as keywords, so that an
option shared by several commands is described once.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import UsageError, did_you_mean

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


def taken(kind: type, keywords: dict[str, Any], names: Collection[str] = ()) -> dict[str, Any]:
    """Take a dataclass's fields, or those of these names, out of keywords, and return them as the fields' types say.

    Python passes what is easy to write: a text for a path, one value for several, a number for digits.
    """
    hints = typing.get_type_hints(kind)
    chosen = [name for name in names or names_of(kind) if name in keywords]
    return {name: _as_field(keywords.pop(name), hints[name]) for name in chosen}


def names_of(*kinds: Any) -> list[str]:
    """Return the names of the fields of dataclasses."""
    return [field.name for kind in kinds for field in dataclasses.fields(kind)]


def _as_field(value: Any, hint: Any) -> Any:
    if hint == tuple[Path, ...]:
        return tuple(map(Path, [value] if isinstance(value, str | Path) else value))
    if hint == Path | None:
        return value if value is None else Path(value)
    return str(value) if hint is str and isinstance(value, int) else value


def refuse_rest(keywords: Mapping[str, Any], available: Sequence[str]) -> None:
    """Raise UsageError if a keyword is left over, with what there is."""
    for name in keywords:
        meant = did_you_mean(name, available)
        raise UsageError(f"unknown option {name!r}{meant}", f"options here: {', '.join(available)}")
