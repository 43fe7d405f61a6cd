"""Options that several commands share: fields of records become options, and each command says which records."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ncu_swizzle.base.errors import LaunchLacking, Untrusted, UsageError
from ncu_swizzle.base.texts import KEY, Option, option
from ncu_swizzle.base.validate import whole
from ncu_swizzle.commands.helping import HELP_ALL
from ncu_swizzle.commands.keywords import RecordParameter, default_of
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.nvcc_options import TRUST

if TYPE_CHECKING:
    from ncu_swizzle.engines.settings import Options
    from ncu_swizzle.reports.pairing import Choice, Forced


def with_options(request: Request, options: Options, **more: Any) -> Request:
    """Return the request with these ncu options; `more` overrides fields of theirs."""
    return replace(request, options=replace(options, **more))


# Select launches in reports with many kernels, and pair them.


@dataclass(frozen=True)
class Pairs:
    """Launches to pair whatever their names."""

    group: ClassVar[str] = "Comparing"

    pair: tuple[str, ...] = option((), "Pair these kernels: names, regex:EXPR or launch numbers.", "A=B", ("--pair",))

    def forced(self) -> Sequence[Forced]:
        """Return the pairs; raise UsageError."""
        from ncu_swizzle.reports import pairing

        return [pairing.forced_pair(text) for text in self.pair]


@dataclass(frozen=True)
class Selection(Pairs):
    """The launches with these names and numbers."""

    kernel_name: str = option(
        "", "Of many kernels, only those with this name.", "NAME|regex:EXPR", ("--kernel-name", "-k")
    )
    launch: tuple[int, ...] = option((), "Of many launches, only this number; repeatable.", "N", minimum=0)

    def choice(self) -> Choice:
        """Return the selection for `pairing`; raise UsageError."""
        from ncu_swizzle.reports import pairing

        return pairing.Choice(self.kernel_name, self.launch, tuple(self.forced()))


# Commands that take dataclasses: each field that is an `option` becomes a command-line option.
#
# @grouped
# def run(kernels: Kernels, request: Annotated[Request, Only("problem")], own: PairOptions) -> None: …


Command = Callable[..., None]
MORE = "More options"  # the group of what is not common, unless its record has one


def grouped(command: Command) -> Command:
    """Return the command for typer, with its dataclass parameters expanded into options."""
    hints = typing.get_type_hints(command, include_extras=True)
    records: dict[str, RecordParameter] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if record := RecordParameter.of(hints[parameter.name]):
            options = tuple(field for field in record.fields if KEY in field.metadata)
            records[parameter.name] = replace(record, fields=options)
            kinds = typing.get_type_hints(record.kind)
            panel = getattr(record.kind, "group", "") or MORE
            parameters += (_parameter(field, _value_type(kinds[field.name], field), panel) for field in options)
        else:
            hint = hints[parameter.name]
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    parameters.append(HELP_ALL)

    def call(**given: Any) -> None:
        del given[HELP_ALL.name]
        for name, record in records.items():
            typed = {field.name: _parsed(field, given.pop(field.name)) for field in record.fields}
            given[name] = record.kind(**typed)
        try:
            command(**given)
        except Untrusted as error:
            raise Untrusted(str(error), _typed_with_trust() if error.hint == TRUST else error.hint) from error
        except LaunchLacking as error:
            from ncu_swizzle.commands import console

            raise UsageError(str(error), console.hint(error, sys.argv[1:])) from error

    call.__doc__, call.__name__ = command.__doc__, command.__name__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(call)["__signature__"] = inspect.Signature(parameters)
    return call


def _typed_with_trust() -> str:
    """Return the command that was typed, with --trust before any ``--``."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    return shlex.join(["ncu-swizzle", *words[:end], "--trust", *words[end:]])


def sizes(texts: Sequence[str]) -> dict[str, int]:
    """Return texts such as ``n=2048,m=64`` as one dictionary."""
    values = {}
    for part in (part for text in texts for part in text.split(",") if part):
        name, equals, value = part.partition("=")
        if not equals or not value.strip().isdecimal():
            raise typer.BadParameter(f"{part!r} is not NAME=SIZE, such as seq=1024")
        try:
            values[name.strip()] = whole(value)
        except ValueError as error:
            raise typer.BadParameter(f"{part!r}: {error}") from error
    return values


def _value_type(hint: Any, field: dataclasses.Field[Any]) -> type:
    """Return the type of a single value of a field; str unless it is one of these."""
    if choices := field.metadata[KEY].choices:
        return StrEnum("Choice", [(choice, choice) for choice in choices])  # type: ignore[return-value]
    plain = {
        bool: bool,
        bool | None: bool,
        int: int,
        int | None: int,
        float: float,
        Path: Path,
        Path | None: Path,
        tuple[Path, ...]: Path,
        tuple[int, ...]: int,
    }
    return plain.get(hint, str)


def _parameter(field: dataclasses.Field[Any], kind: type, panel: str) -> inspect.Parameter:
    described: Option = field.metadata[KEY]
    default = default_of(field)
    hint: Any = kind
    if isinstance(default, tuple | dict):
        default, hint = [], list[kind]  # type: ignore[valid-type]
    elif described.choices:
        default = kind(default) if default else None
    if default is None:
        hint = kind | None
    flags = described.flags or (f"--{field.name.replace('_', '-')}",)
    presented = typer.Option(
        *flags,
        metavar=described.metavar or None,
        help=described.help,
        min=described.minimum,
        max=described.maximum,
        rich_help_panel=None if described.common else panel,
    )
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, presented]
    )


def _parsed(field: dataclasses.Field[Any], value: Any) -> Any:
    """Return a command-line value as the field's type: a tuple, a dictionary, or the default for no choice."""
    default = default_of(field)
    if isinstance(default, dict):
        return sizes(value)
    if isinstance(default, tuple):
        return tuple(value)
    if value is None:
        return default
    return value.value if isinstance(value, Enum) else value
