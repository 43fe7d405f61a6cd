"""The command line: one file per command in `commands`, errors and exit codes here."""

from __future__ import annotations

import logging
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ncu_swizzle.base.errors import Hint, Typed, UsageError, interruption
from ncu_swizzle.base.texts import prepare_streams
from ncu_swizzle.commands import capture, explain, fix, gate, judge, output, profile, prove, tools
from ncu_swizzle.commands.helping import WIDTH, Command, MainGroup, WithProgram
from ncu_swizzle.servers import commands as serving

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

app = typer.Typer(
    name=PROGRAM,
    cls=MainGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    epilog=EXIT_CODES,
    context_settings={"max_content_width": WIDTH},
)

WITHOUT, MEASURE, KEEP, AROUND = "Without a GPU", "Measure", "Report and gate", "Around it"

app.command("lint", cls=Command, rich_help_panel=WITHOUT)(gate.lint)
app.command("fix", cls=Command, rich_help_panel=WITHOUT)(fix.fix)
app.command("prove", cls=Command, rich_help_panel=WITHOUT)(prove.prove)
app.command("judge", cls=Command, rich_help_panel=WITHOUT)(judge.judge)
app.command("explain", cls=Command, rich_help_panel=WITHOUT)(explain.explain)
app.command("init", cls=Command, rich_help_panel=WITHOUT)(fix.init)
app.command("profile", cls=WithProgram, rich_help_panel=MEASURE)(profile.profile)
app.command("capture", cls=WithProgram, rich_help_panel=MEASURE)(capture.capture)
app.command("sweep", cls=Command, rich_help_panel=MEASURE)(profile.sweep)
app.command("report", cls=Command, rich_help_panel=KEEP)(explain.report)
app.command("check", cls=Command, rich_help_panel=KEEP)(gate.check)
app.command("list", cls=Command, rich_help_panel=AROUND)(tools.list_)
app.command("doctor", cls=Command, rich_help_panel=AROUND)(tools.doctor)
app.add_typer(tools.app, name="rules", rich_help_panel=AROUND)
app.add_typer(serving.app, name="serve", rich_help_panel=AROUND)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{app.info.name} {output.version()}\n")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
]


@app.callback()
def overview(version: VersionOption = False) -> None:
    """Find shared-memory bank conflicts, fix them, and measure what that changed.

    ncu-swizzle COMMAND --help shows a command, --help-all every option of it.
    """


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
    command = typer.main.get_command(app)
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
