"""Fixtures of the tests of explain."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ncu_swizzle import cli
from tests.support import tiles
from tests.support.process import Command, Done


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return a function that runs a command line in an empty folder, on 80 columns, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ncu-swizzle", *arguments])
        status = cli.main()
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def own_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which holds kernels unlike the catalogue's."""
    tiles.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
