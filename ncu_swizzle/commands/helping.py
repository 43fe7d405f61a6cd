"""Help on one screen, what follows ``--``, and which options were typed.

``--help`` shows what most people need, ``--help-all`` everything. ``--`` starts a program.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ncu_swizzle.base.errors import Hint, Typed, UsageError

WIDTH = 100  # columns at most
PROGRAM, ALL = "ncu_swizzle.after_dashes", "ncu_swizzle.help_all"
COMMON = ("Arguments", "Options")
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help has two lengths: options in groups, and text after a form feed, are for ``--help-all``."""

    runs_program = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before ``--``; `after_dashes` returns the rest. Raises UsageError if nothing may follow."""
        dashes = args.index("--") if "--" in args else len(args)
        ctx.meta[PROGRAM] = tuple(args[dashes + 1 :])
        if dashes < len(args) and not self.runs_program:
            raise UsageError(
                f"-- starts a program, and {ctx.info_name} runs none",
                Hint(Typed(f"{ctx.command_path} --help"), "; a file whose name starts with - is typed ./-name"),
            )
        return super().parse_args(ctx, args[:dashes])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line's arguments, in brackets if they are optional."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        names = [_shown_name(one) if one.required else f"[{_shown_name(one)}]" for one in arguments]
        return ["[OPTIONS]", *names, *(["[-- PROGRAM …]"] if self.runs_program else [])]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the text: of ``--help`` what comes before the form feed."""
        text = inspect.cleandoc(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.replace("\f\n", "\n") if ctx.meta.get(ALL) else text.partition("\f")[0].rstrip())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by group; for ``--help`` those that are common."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in COMMON}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                argument = parameter.param_type_name == "argument"
                title = COMMON[0] if argument else getattr(parameter, "rich_help_panel", None) or COMMON[1]
                sections.setdefault(title, []).append((_shown_name(parameter), record[1]) if argument else record)
        for title, rows in sections.items():
            if rows and (title in COMMON or ctx.meta.get(ALL)):
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=22)


def _shown_name(argument: Any) -> str:
    """Return an argument's name without its type in Python, which typer adds."""
    return str(argument.metavar or argument.name.upper())


class WithProgram(Command):
    """A command that takes a program after ``--``, in addition to its own arguments."""

    runs_program = True


class MainGroup(TyperGroup):
    """The commands, by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's
        """Write a line for each command, under the title of its group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", None)
            sections.setdefault(title if isinstance(title, str) else "Commands", []).append(
                (name, command.get_short_help_str(WIDTH))
            )
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class CommandGroup(typer.Typer):
    """A group of commands, each with a help of two lengths."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(rich_markup_mode=None, no_args_is_help=True, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[[CommandFunction], CommandFunction]:
        """Register a command."""
        return super().command(name, cls=cls or Command, **settings)


def after_dashes(context: typer.Context) -> tuple[str, ...]:
    """Return what followed ``--``."""
    words: tuple[str, ...] = context.meta.get(PROGRAM, ())
    return words


def typed_options(context: typer.Context) -> dict[str, str]:
    """Return the options and arguments that were typed: by name, as they are spelled."""
    return {
        parameter.name: parameter.opts[0] if parameter.param_type_name == "option" else parameter.name
        for parameter in context.command.params
        if parameter.name and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    }


def refuse_typed(context: typer.Context, names: Sequence[str], beside: str, *records: type) -> None:
    """Raise UsageError for a typed option that has no effect `beside` another one.

    Options with these names, and the fields of these records, do have one.
    """
    useful = {*names, *(field.name for record in records for field in dataclasses.fields(record))}
    if others := [flag for name, flag in typed_options(context).items() if name not in useful]:
        raise UsageError(f"{others[0]} has no use beside {beside}", f"leave out {others[0]}, or {beside}")


def _show_all(context: typer.Context, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[ALL] = True
        typer.echo(context.get_help(), color=context.color)
        raise typer.Exit


HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show every option, and exit.")
    ],
)
