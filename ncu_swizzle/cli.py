"""The command line: one file per command in `commands`, errors and exit codes here."""

from __future__ import annotations

import logging
import shlex
import signal
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ncu_swizzle.base.errors import Hint, Typed, UsageError, interruption
from ncu_swizzle.base.texts import prepare_streams
from ncu_swizzle.commands import output
from ncu_swizzle.commands.helping import WIDTH, Command, MainGroup, WithProgram

# Typer raises click's errors, those of its own copy of click in newer versions.
ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

PROGRAM = "ncu-swizzle"
EXIT_CODES = """\b
Exit codes:
  0  fine                                   4  a program or ncu failed
  1  a gate failed                          5  not comparable, inconclusive
  2  the command line or a file is wrong   70  a bug; a file has the traceback
  3  a GPU, ncu, a permission is missing
"""

WITHOUT, MEASURE, KEEP, AROUND = "Without a GPU", "Measure", "Report and gate", "Around it"
COMMANDS = {  # the title that a command is listed under, and its function, or group; only what is typed is imported
    "lint": (WITHOUT, "commands.gate", "lint"),
    "fix": (WITHOUT, "commands.fix", "fix"),
    "prove": (WITHOUT, "commands.prove", "prove"),
    "judge": (WITHOUT, "commands.prove", "judge"),
    "explain": (WITHOUT, "commands.explain", "explain"),
    "init": (WITHOUT, "commands.fix", "init"),
    "profile": (MEASURE, "commands.profile", "profile"),
    "capture": (MEASURE, "commands.profile", "capture"),
    "sweep": (MEASURE, "commands.profile", "sweep"),
    "report": (KEEP, "commands.explain", "report"),
    "check": (KEEP, "commands.gate", "check"),
    "list": (AROUND, "commands.tools", "list_"),
    "doctor": (AROUND, "commands.tools", "doctor"),
    "rules": (AROUND, "commands.tools", "app"),
    "serve": (AROUND, "servers.commands", "app"),
}
RUN_PROGRAMS = ("profile", "capture")


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{PROGRAM} {output.version()}\n")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
]


def overview(version: VersionOption = False) -> None:
    """Find shared-memory bank conflicts, fix them, and measure what that changed.

    ncu-swizzle COMMAND --help shows a command, --help-all every option of it.
    """


@cache
def command_line(typed: str = "") -> typer.Typer:
    """Return the program with the command that is typed, or with all of them if that is none of ours."""
    program = typer.Typer(
        name=PROGRAM,
        cls=MainGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        epilog=EXIT_CODES,
        context_settings={"max_content_width": WIDTH},
    )
    program.callback()(overview)
    for name in [typed] if typed in COMMANDS else COMMANDS:
        title, module, function = COMMANDS[name]
        command = getattr(import_module(f"ncu_swizzle.{module}"), function)
        if isinstance(command, typer.Typer):
            program.add_typer(command, name=name, rich_help_panel=title)
        else:
            kind = WithProgram if name in RUN_PROGRAMS else Command
            program.command(name, cls=kind, rich_help_panel=title)(command)
    return program


def main() -> int:
    """Run the command line and return the exit code; print every error as a message and what to try."""
    prepare_streams()
    logging.basicConfig(format="note: %(message)s", level=logging.WARNING)
    try:
        return _run()
    except Exception as error:
        return output.explain(error)


def _run() -> int:
    try:
        _command()
        sys.stdout.flush()
    except (SystemExit, KeyboardInterrupt) as end:
        if interruption(end):
            return output.stopped(end)
        sys.stdout.flush()
        return end.code if isinstance(end, SystemExit) and isinstance(end.code, int) else 0
    except BrokenPipeError:  # the reader of our output (head, less) exited
        output.discard(sys.stdout.fileno())
    return 0


def _command() -> None:
    """Run the command without typer's own ending, which prints what was typed and exits with 1 for a closed pipe."""
    command = typer.main.get_command(command_line(*sys.argv[1:2]))
    try:
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ending) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(ending, signal.default_int_handler if ending == signal.SIGINT else _end)
        with command.make_context(PROGRAM, sys.argv[1:] or ["--help"]) as context:
            command.invoke(context)
    except typer.Exit as end:
        raise SystemExit(end.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except ClickException as error:
        raise _usage_error(error) from None


def _usage_error(error: Any) -> UsageError:
    """Return typer's error as ours; show the help of a group of commands that was named without one."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        raise SystemExit(UsageError.exit_code)
    context = getattr(error, "ctx", None)
    named = context.command_path if context else shlex.join([PROGRAM, *sys.argv[1:2]])
    said = " ".join(error.format_message().split())
    files = [word for word in sys.argv[1:] if _is_a_file(word, getattr(error, "option_name", ""))]
    if files:
        typed = shlex.join([PROGRAM, *(f"./{word}" if word in files else word for word in sys.argv[1:])])
        return UsageError(said, Hint("a file whose name starts with - is typed ./-name: ", Typed(typed)))
    return UsageError(said, f"{named} --help")


def _is_a_file(word: str, option: str) -> bool:
    """Return whether a word that was read as options names a file: -a.cu is read as -a, -., -c, -u."""
    from ncu_swizzle.kernels.family import FILES

    return bool(option) and word.startswith(option) and (Path(word).is_file() or Path(word).suffix in FILES)


def _end(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - what signal handlers are given
    """Unwind as after Ctrl-C, so that child processes are ended and half-written files removed."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)
