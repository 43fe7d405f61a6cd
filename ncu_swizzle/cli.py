"""The command line: one file per command in `commands`, errors and exit codes here."""

from __future__ import annotations

import os
import sys

import typer

from ncu_swizzle.commands import banks, baseline, check, compare, lint, list_, predict, profile, report, run, suggest
from ncu_swizzle.errors import NcuSwizzleError

INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended

app = typer.Typer(
    name="ncu-swizzle",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"max_content_width": 80, "terminal_width": 80},
)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": False}

app.command("profile", context_settings=PASS_ON)(profile.profile)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("check")(check.check)
app.add_typer(baseline.app, name="baseline")
app.command("lint")(lint.lint)
app.command("run")(run.run)
app.command("list")(list_.list_)
app.command("banks")(banks.banks)
app.command("predict")(predict.predict)
app.command("suggest")(suggest.suggest)


@app.callback()
def overview() -> None:
    """Measure shared-memory bank conflicts before and after a swizzle.

    \b
    ncu-swizzle profile kernel2      what the swizzle did to the attention kernel
    ncu-swizzle compare A B          any two kernels, reports or saved profiles
    ncu-swizzle report RUN           a saved run, shown again
    ncu-swizzle check A              the gate for CI: exit code 0, 1 or 5
    ncu-swizzle lint my.cu           lines that conflict, without a GPU
    ncu-swizzle list                 what can be profiled

    \b
    ncu-swizzle banks "(8,8):(1,8)" --swizzle 3,2,3    the banks of a layout
    ncu-swizzle predict kernel1      its wavefronts, computed without a GPU
    ncu-swizzle suggest "(64,64):(64,1)" --elem 2 --write rows:16 --read ldmatrix

    \b
    Exit codes:
      0  fine
      1  a gate failed
      2  the command line or a file that it names is wrong
      3  the environment lacks something: a GPU, ncu, a permission
      4  the profiled program or ncu failed
      5  not comparable, or inconclusive
    """


def main() -> int:
    """Run the command line and return the exit code; every error is one message and what to try."""
    try:
        app(prog_name="ncu-swizzle")
    except SystemExit as end:  # typer's way to end, after Ctrl-C too
        if end.code == INTERRUPTED:
            print("interrupted: nothing was written", file=sys.stderr)
        return end.code if isinstance(end.code, int) else 0
    except NcuSwizzleError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"  try: {error.hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
