"""Programs are run within their time, and nothing of them is left."""

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


def test_output_and_status_come_back_and_standard_input_is_empty() -> None:
    chunks: list[str] = []
    code = "import sys; print('out', flush=True); print(repr(sys.stdin.read()), file=sys.stderr); sys.exit(5)"
    outcome = child.run(python(code), 30, on_output=chunks.append)
    assert outcome.status == 5
    assert outcome.log == "out\n''\n" == "".join(chunks)
    assert child.run(["sh", "-c", "kill -ABRT $$"], 30).status == -signal.SIGABRT, "a signal is a negative status"
    with pytest.raises(EnvironmentLacking, match="cannot run /nowhere/ncu: No such file"):
        child.run(["/nowhere/ncu"], 30)


def test_of_much_output_the_start_and_the_end_are_kept() -> None:
    outcome = child.run(python("import sys; sys.stdout.write('first' + 'x' * 8_000_000 + 'last')"), 60)
    assert outcome.log.startswith("first")
    assert outcome.log.endswith("last")
    assert "bytes left out" in outcome.log
    assert len(outcome.log) < 4 * child.KEPT_BYTES


def test_at_the_time_limit_the_whole_group_ends_even_if_it_ignores_the_request(
    pids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "GRACE_S", 0.2)
    program = f"trap '' TERM; echo $$ >> {pids}; sleep 60 & echo $! >> {pids}; wait; sleep 60"
    with pytest.raises(TimeLimit, match="was still running after 1 s"):
        child.run(["sh", "-c", program], 1)
    assert [alive(int(pid)) for pid in pids.read_text().split()] == [False, False]


def test_what_a_program_leaves_behind_ends_with_it() -> None:
    """A program that ends while another still holds its output open has ended; the other one is ended too."""
    outcome = child.run(["sh", "-c", "sleep 60 & echo $!; exit 3"], 30)
    assert outcome.status == 3
    assert not alive(int(outcome.log))


def test_an_interrupt_ends_the_child(pids: Path) -> None:
    program = f"['sh', '-c', 'echo $$ > {pids}; exec sleep 60']"
    process = subprocess.Popen(
        python(f"from ncu_swizzle.base import child; child.run({program}, 60)"), stderr=subprocess.DEVNULL
    )
    while not pids.is_file() or not pids.read_text(encoding="utf-8"):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert not alive(int(pids.read_text(encoding="utf-8")))


def test_a_signal_while_the_program_starts_does_not_leave_it_running(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    original = subprocess.Popen

    def start_and_interrupt(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        process = original(*arguments, **options)  # type: ignore[call-overload]
        started.append(process.pid)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        child.run(["sleep", "60"], 60)
    assert not alive(started[0])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
