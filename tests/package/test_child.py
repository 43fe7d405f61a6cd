"""Programs are run within their time, and nothing of them is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ncu_swizzle.base import child
from ncu_swizzle.base.errors import EnvironmentLacking, TimeLimit
from tests.support.processes import alive


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_and_status_come_back() -> None:
    seen: list[str] = []
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(5)"
    outcome = child.run(python(code), 30, on_output=seen.append)
    assert outcome.status == 5
    assert outcome.log == "out\nerr\n" == "".join(seen)


def test_a_signal_is_a_negative_status() -> None:
    assert child.run(python("import os; os.abort()"), 30).status == -signal.SIGABRT


def test_standard_input_is_empty() -> None:
    assert child.run(python("import sys; print(repr(sys.stdin.read()))"), 30).log == "''\n"


def test_a_missing_program_is_named() -> None:
    with pytest.raises(EnvironmentLacking, match="cannot run /nowhere/ncu: No such file"):
        child.run(["/nowhere/ncu"], 30)


def test_at_the_time_limit_the_whole_group_ends(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, time, pathlib; p = subprocess.Popen(['sleep', '60']);"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(p.pid)); time.sleep(60)"
    )
    start = time.monotonic()
    with pytest.raises(TimeLimit, match="was still running after 2 s"):
        child.run(python(code), 2)
    assert time.monotonic() - start < 20
    assert not alive(int(pid_file.read_text(encoding="utf-8")))


def test_a_child_that_ignores_the_request_to_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_S", 0.2)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    pids: list[int] = []
    original = subprocess.Popen

    def spy(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        process = original(*arguments, **options)  # type: ignore[call-overload]
        pids.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", spy)
    with pytest.raises(TimeLimit):
        child.run(python(code), 1)
    assert not alive(pids[0])


def test_an_interrupt_ends_the_child(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "from ncu_swizzle.base import child; child.run(['sh', '-c', 'echo $$ > "
        + str(pid_file)
        + "; exec sleep 60'], 60)"
    )
    process = subprocess.Popen(python(code), stderr=subprocess.DEVNULL)
    while not pid_file.is_file() or not pid_file.read_text(encoding="utf-8"):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert not alive(int(pid_file.read_text(encoding="utf-8")))


def test_what_a_program_leaves_behind_does_not_hold_us_up() -> None:
    """A program that ends while another still holds its output open has ended; the other one is ended too."""
    start = time.monotonic()
    outcome = child.run(["sh", "-c", "sleep 60 & echo $!; exit 3"], 30)
    assert outcome.status == 3
    assert time.monotonic() - start < 20
    assert not alive(int(outcome.log))


def test_of_much_output_the_start_and_the_end_are_kept() -> None:
    code = "import sys; sys.stdout.write('first' + 'x' * 8_000_000 + 'last')"
    outcome = child.run(python(code), 60)
    assert outcome.log.startswith("first")
    assert outcome.log.endswith("last")
    assert "bytes left out" in outcome.log
    assert len(outcome.log) < 4 * child.KEPT_BYTES


def test_a_signal_while_the_program_starts_does_not_leave_it_running(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    original = subprocess.Popen

    def start_and_interrupt(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        process = original(*arguments, **options)  # type: ignore[call-overload]
        pids.append(process.pid)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        child.run(["sleep", "60"], 60)
    assert not alive(pids[0])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
