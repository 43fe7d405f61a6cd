"""The command line: one file per command in `commands`, errors and exit codes here."""

from __future__ import annotations

import logging
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

from ncu_swizzle.base.errors import UsageError, interruption
from ncu_swizzle.base.texts import prepare_streams
from ncu_swizzle.commands import check, compare, endings, explain, fix, lint, profile, sweep, tools
from ncu_swizzle.commands.endings import WithProgram
from ncu_swizzle.servers import commands

# Typer raises click's errors, those of its own copy of click in newer versions.
ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="ncu-swizzle",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"max_content_width": 80, "terminal_width": 80},
)

app.command("profile", cls=WithProgram)(profile.profile)
app.command("capture", cls=WithProgram)(profile.capture)
app.command("compare")(compare.compare)
app.command("report")(compare.report)
app.command("check")(check.check)
app.add_typer(check.baseline_app, name="baseline")
app.add_typer(tools.app, name="rules")
app.command("sweep")(sweep.sweep)
app.command("lint")(lint.lint)
app.command("fix")(fix.fix)
app.add_typer(check.app, name="history")
app.command("init")(fix.init)
app.command("run")(tools.run)
app.command("list")(tools.list_)
app.command("doctor")(tools.doctor)
app.command("banks")(explain.banks)
app.command("predict")(explain.predict)
app.command("suggest")(explain.suggest)
app.command("mcp")(commands.mcp)
app.command("lsp")(commands.lsp)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{app.info.name} {endings.version()}\n")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
]


@app.callback()
def overview(version: VersionOption = False) -> None:
    """Measure shared-memory bank conflicts before and after a swizzle.

    \b
    ncu-swizzle profile kernel2      what the swizzle did to the attention kernel
    ncu-swizzle profile -- ./app     the kernels of any program
    ncu-swizzle capture -- ./app     its launches, to be checked without a GPU
    ncu-swizzle compare A B          any two kernels, reports or saved profiles
    ncu-swizzle report RUN           show a saved run again
    ncu-swizzle check A              the gate for CI: exit code 0, 1 or 5
    ncu-swizzle rules path           the rule pack, for ncu and ncu-ui
    ncu-swizzle sweep gemm --problem n=1024,2048    variants over sizes
    ncu-swizzle lint my.cu           lines that conflict, without a GPU
    ncu-swizzle fix my.cu            rewrite what conflicts, with a proof
    ncu-swizzle history add RUN      counts and times over commits
    ncu-swizzle init my.cu           describe how to launch your own kernels
    ncu-swizzle list                 what can be profiled
    ncu-swizzle doctor               can this machine measure, and if not, why not
    ncu-swizzle mcp                  the same as tools, for coding agents
    ncu-swizzle lsp                  the same beside the source, in an editor

    \b
    ncu-swizzle banks "(8,8):(1,8)" --swizzle 3,2,3    the banks of a layout
    ncu-swizzle predict kernel1      its wavefronts, computed without a GPU
    ncu-swizzle suggest "(64,64):(64,1)" --elem 2 --write rows:16 --read ldmatrix

    \b
    Exit codes:
      0  fine
      1  a gate failed
      2  the command line, or a file it names, is wrong
      3  something is missing: a GPU, ncu, a permission
      4  the profiled program or ncu failed
      5  not comparable, or inconclusive
     70  a bug in ncu-swizzle: a file has the traceback
    """


def main() -> int:
    """Run the command line and return the exit code; print every error as a message and what to try."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _end)
    prepare_streams()
    logging.basicConfig(format="note: %(message)s", level=logging.WARNING)
    try:
        return _run()
    except Exception as error:
        return endings.explain(error)


def _run() -> int:
    try:
        _command()
        sys.stdout.flush()
    except SystemExit as end:  # also after Ctrl-C
        if stopped := interruption(end):
            print(f"{stopped.word}: {endings.kept()}", file=sys.stderr)
        else:
            sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 0
    except BrokenPipeError:  # the reader of our output (head, less) exited
        endings.discard(sys.stdout.fileno())
    return 0


def _command() -> None:
    """Run the command without typer's own ending, which prints what was typed and exits with 1 for a closed pipe."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("ncu-swizzle", sys.argv[1:] or ["--help"]) as context:
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
    named = context.command_path if context else app.info.name
    return UsageError(" ".join(error.format_message().split()), f"{named} --help")


def _end(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - what signal handlers are given
    """Unwind as after Ctrl-C, so that child processes are ended and half-written files removed."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)
