"""The check at the end of a test run: it fails for what a test leaves behind, and for nothing else."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import leftovers


def ended(watch: leftovers.Leftovers) -> int:
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    watch.pytest_sessionfinish(session)  # type: ignore[arg-type]
    return session.exitstatus


def test_what_is_left_behind_fails_the_run_and_is_named_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(leftovers.MARK, "")  # the run's own comes back afterwards
    monkeypatch.setattr(leftovers, "LOOKS", 2)
    (tmp_path / "tracked").touch()
    watch = leftovers.Leftovers(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.pyc").touch()
    assert ended(watch) == pytest.ExitCode.OK
    watch.pytest_unconfigure()
    assert capsys.readouterr().out == ""
    (tmp_path / "left-by-a-test").touch()
    with subprocess.Popen(["sleep", "60"], env=dict(os.environ)) as process:
        assert ended(watch) == pytest.ExitCode.TESTS_FAILED
        process.kill()
    watch.pytest_unconfigure()
    running, file, verdict = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"still running: \d+ sleep 60", running)
    assert file == "left in the checkout: left-by-a-test"
    assert verdict == "The run fails: it left 2 processes or files behind."
