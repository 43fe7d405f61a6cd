"""The check at the end of a test run: it fails for what a test leaves behind, and for nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import signal

import pytest

from tests.support.places import ROOT

TESTS = """
import subprocess, sys
from pathlib import Path

def test_process():
    subprocess.Popen([sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"],
                     stdout=subprocess.PIPE).stdout.readline()

def test_file():
    Path("left-by-a-test").touch()

def test_neither(tmp_path):
    subprocess.run([sys.executable, "-c", ""], check=True)
"""
CONFTEST = """
from pathlib import Path
from tests.support.leftovers import Leftovers

def pytest_configure(config):
    config.pluginmanager.register(Leftovers(Path.cwd()))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "said"), [("process", "still running: .*signal.pause"), ("file", "left in the checkout: left-by-a-test")]
)
def test_what_is_left_behind_fails_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_leaving=TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", name, f"--basetemp={pytester.path}/../base")
    assert re.search(said, result.stdout.str())
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    for pid in re.findall(r"still running: (\d+) ", result.stdout.str()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.long
def test_a_run_that_leaves_nothing_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_leaving=TESTS)
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-k", "neither", f"--basetemp={pytester.path}/../base"
    )
    assert result.ret == 0
