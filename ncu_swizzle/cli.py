"""The command line: one file per command in `commands`, errors and exit codes here."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NoReturn

import typer

from ncu_swizzle.commands import (
    banks,
    baseline,
    check,
    compare,
    doctor,
    lint,
    list_,
    predict,
    profile,
    report,
    rules,
    run,
    suggest,
    sweep,
)
from ncu_swizzle.commands.after_dashes import WithProgram
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.files import FULL, not_writable

# The exit codes of a program ended by a signal.
ENDED: dict[object, str] = {
    128 + signal.SIGHUP: "hung up",
    128 + signal.SIGINT: "interrupted",
    128 + signal.SIGTERM: "terminated",
}

app = typer.Typer(
    name="ncu-swizzle",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"max_content_width": 80, "terminal_width": 80},
)

app.command("profile", cls=WithProgram)(profile.profile)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("check")(check.check)
app.add_typer(baseline.app, name="baseline")
app.add_typer(rules.app, name="rules")
app.command("sweep")(sweep.sweep)
app.command("lint")(lint.lint)
app.command("run")(run.run)
app.command("list")(list_.list_)
app.command("doctor")(doctor.doctor)
app.command("banks")(banks.banks)
app.command("predict")(predict.predict)
app.command("suggest")(suggest.suggest)


@app.callback()
def overview() -> None:
    """Measure shared-memory bank conflicts before and after a swizzle.

    \b
    ncu-swizzle profile kernel2      what the swizzle did to the attention kernel
    ncu-swizzle profile -- ./app     the kernels of any program
    ncu-swizzle compare A B          any two kernels, reports or saved profiles
    ncu-swizzle report RUN           show a saved run again
    ncu-swizzle check A              the gate for CI: exit code 0, 1 or 5
    ncu-swizzle rules path           the rule pack, for ncu and ncu-ui
    ncu-swizzle sweep gemm --problem n=1024,2048    variants over sizes
    ncu-swizzle lint my.cu           lines that conflict, without a GPU
    ncu-swizzle list                 what can be profiled
    ncu-swizzle doctor               can this machine measure, and if not, why not

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
    """


def main() -> int:
    """Run the command line and return the exit code; print every error as a message and what to try."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _end)
    logging.basicConfig(format="note: %(message)s", level=logging.WARNING)
    try:
        return _run()
    except NcuSwizzleError as error:
        return _explain(error)
    except OSError as error:
        return _explain(_as_ours(error))
    except MemoryError:
        return _explain(EnvironmentLacking("out of memory", "pass fewer or smaller files"))


def _run() -> int:
    try:
        app(prog_name="ncu-swizzle")
        sys.stdout.flush()
    except SystemExit as end:  # how typer exits, also after Ctrl-C
        if end.code in ENDED:
            print(f"{ENDED[end.code]}: nothing was written", file=sys.stderr)
        else:
            sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 0
    except BrokenPipeError:  # the reader of our output (head, less) exited
        _discard_output()
    return 0


def _end(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - what signal handlers are given
    """Unwind as after Ctrl-C, so that child processes are ended and half-written files removed."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _explain(error: NcuSwizzleError) -> int:
    print(f"error: {error}", file=sys.stderr)
    if error.hint:
        print(f"  try: {error.hint}", file=sys.stderr)
    return error.exit_code


def _as_ours(error: OSError) -> NcuSwizzleError:
    """Return the error for a file or stdout that no caller handled."""
    if error.filename is None:  # stdout: flushing its buffer at exit would fail again
        _discard_output()
    if error.filename is None or error.errno in FULL:
        return not_writable(str(error.filename or "the output"), error)
    return UsageError(f"{error.filename} cannot be used: {error.strerror}", "check its permissions")


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
