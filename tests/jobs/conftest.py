"""Fixtures of the tests of the main jobs: a program, its report, and a stand-in for ncu."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle import cli
from tests.support import captures, fake_ncu, process, tiles
from tests.support.process import Command, Done
from tests.support.reports import join
from tests.support.several import LAUNCHED
from tests.support.stand_in import Shell


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory, recorded_file: Callable[[str], Path]) -> Path:
    """Return a report with four launches of three kernels."""
    file = tmp_path_factory.mktemp("reports") / "several.ncu-rep"
    file.write_bytes(join([recorded_file(name) for name in LAUNCHED]))
    return file


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with ``./app``, which says where it runs and what it was given, and fails if told to."""
    folder = tmp_path / "work"
    folder.mkdir()
    app = folder / "app"
    app.write_text('#!/bin/sh\necho "in $PWD with $*"\necho done >&2\nexit ${STATUS:-0}\n')
    app.chmod(app.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def shell(tmp_path: Path, work: Path, several: Path) -> Shell:
    """Return a function that runs ncu-swizzle in the working folder, with an ncu that does as the scenario says."""
    stand_in = fake_ncu.install(tmp_path / "bin" / "ncu")
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"

    def run(line: str, scenario: str = "program", **more: str) -> subprocess.CompletedProcess[str]:
        how = {"PATH": path, "FAKE_NCU": scenario, "FAKE_NCU_REPORT": str(several), **more}
        return process.run(*shlex.split(line), folder=work, env=process.environment(**how))

    return run


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return a function that runs a command line in a folder of own kernels, in this process."""
    tiles.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ncu-swizzle", *arguments])
        status = cli.main()
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def launches_files(command: Command, tmp_path: Path) -> None:
    """Put recorded launches into the folder of `command`."""
    assert command is not None
    for name in ("graph", "counting", "driver"):
        shutil.copy(captures.recorded(name), tmp_path)
