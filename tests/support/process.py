"""ncu-swizzle as a process of its own, started quickly.

Most of what a command takes is loading pandas, Jinja and the like. So a server process loads them once per test run,
and each command is a fork of it, with a folder, an environment and files for its output as any other process has.
`test_cli` holds it beside ``python -m ncu_swizzle``. What is about signals and pipes starts that itself.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import typer

from tests.support.places import ROOT

if TYPE_CHECKING:
    import pytest

LIMIT_S = 600  # of what hangs
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.preloaded"])


def run(*arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Run the command line in a folder with an environment; return what a shell would see.

    Without a folder it runs in the current one, but never in the checkout, where its output would stay.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out, err = (Path(scratch, name) for name in ("out", "err"))
        if folder is None:
            folder = Path.cwd() if Path.cwd() != ROOT else Path(scratch)
        where = (str(folder), dict(os.environ if env is None else env), str(out), str(err))
        process = _FORKS.Process(target=_command, args=(arguments, *where))
        process.start()
        process.join(LIMIT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{arguments} still ran after {LIMIT_S} s; it said {err.read_text(encoding='utf-8')}")
        said, complained = (file.read_text(encoding="utf-8") if file.exists() else "" for file in (out, err))
        return CompletedProcess(arguments, process.exitcode, said, complained)


def started(*arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Run the command line as a shell would start it: ``python -m ncu_swizzle``."""
    command = [sys.executable, "-m", "ncu_swizzle", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)


def succeeded(*arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command as a shell would start it, which has to succeed; return what it prints."""
    done = started(*arguments, folder=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def opened(*arguments: str, folder: Path, env: Mapping[str, str], **how: Any) -> subprocess.Popen[str]:
    """Start the command line as from a terminal, to be signalled or killed while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "ncu_swizzle", *arguments],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
    )  # fmt: skip


def _command(arguments: tuple[str, ...], folder: str, env: dict[str, str], out: str, err: str) -> None:
    """Become the command, in the forked process."""
    for number, name, mode in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        opened = os.open(name, mode | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False, errors="backslashreplace")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["ncu-swizzle", *arguments]
    from ncu_swizzle.__main__ import main

    sys.exit(main())


@dataclass(frozen=True)
class Done:
    """What a command returned and printed."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]
_built = cache(typer.main.get_command)  # a process builds its commands once: it takes as long as many of them


class Typed:
    """A function that runs a command line in a folder, in this process, on 80 columns; `env` is set while it runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys

    def __call__(self, line: str, *words: str, **env: str) -> Done:
        """Run a line as a shell would split it, with further words."""
        with self._monkeypatch.context() as patch:
            patch.chdir(self.folder)
            for name, value in {"COLUMNS": "80", **env}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["ncu-swizzle", *shlex.split(line), *words])
            patch.setattr(typer.main, "get_command", _built)
            handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
            from ncu_swizzle import cli

            try:
                status = cli.main()
            except SystemExit as end:
                status = int(end.code or 0)
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                logging.getLogger().handlers.clear()  # they hold this test's stderr
            return Done(status, *self._capsys.readouterr())


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with 80 columns, and what else is to be set."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **more}


def command(*arguments: str, folder: Path, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Run the command line in a folder, on 80 columns unless the environment says otherwise."""
    return run(*arguments, folder=folder, env=env or environment())
