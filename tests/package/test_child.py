"""Programs end within their time, and with a command that is killed; the next one removes what it left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle.base import child
from ncu_swizzle.base.errors import EnvironmentLacking, TimeLimit
from ncu_swizzle.reports import container
from tests.support import process
from tests.support.marks import executable
from tests.support.places import RECORDINGS
from tests.support.processes import alive, wait_until


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


def test_what_a_program_prints_last_is_kept_however_late_we_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it may print and end between our look at its output and our look at whether it has ended."""
    exits = child._exits

    def late(process: subprocess.Popen[bytes], within_s: float) -> bool:
        return exits(process, 30 if within_s == 0 else within_s)

    monkeypatch.setattr(child, "_exits", late)
    monkeypatch.setattr(child, "LINGER_S", 0.01)
    assert child.run(["sh", "-c", "sleep 0.2; echo last"], 60).log == "last\n"


def test_an_interrupt_ends_the_child(pids: Path) -> None:
    program = f"['sh', '-c', 'echo $$ > {pids}; exec sleep 60']"
    process = subprocess.Popen(
        python(f"from ncu_swizzle.base import child; child.run({program}, 60)"), stderr=subprocess.DEVNULL, text=True
    )
    (pid,) = named(pids, 1, process)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert not alive(pid)


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


# A program that starts three more: in a session of its own, in its group, and with job control in a group of its own.
TREE = """
named='echo $$ >> "$PIDS"; exec sleep 61'
sh -c 'echo $PPID >> "$PIDS"'
setsid sh -c "$named" &
sh -c "$named" &
set -m
sh -c "$named" &
wait
"""
FORKS = """
import multiprocessing, threading, time
from ncu_swizzle.base import child
program = ["sh", "-c", "echo $$ >> $PIDS; sleep 61 & echo $! >> $PIDS; wait"]
threading.Thread(target=child.run, args=(program, 60)).start()
time.sleep(1)
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(63,))
worker.start()
print(worker.pid, flush=True)
worker.join()
"""


def environment(work: Path, **more: str) -> dict[str, str]:
    own = {"PIDS": str(work.parent / "pids"), "TMPDIR": str(work.parent / "tmp")}
    return process.environment(XDG_CACHE_HOME=str(work.parent / "cache"), **own, **more)


def named(pids: Path, number: int, command: subprocess.Popen[str]) -> list[int]:
    """Return the process IDs once so many processes below the command have noted theirs."""

    def noted() -> list[int]:
        return [int(pid) for pid in pids.read_text(encoding="utf-8").split()] if pids.is_file() else []

    assert wait_until(lambda: len(noted()) >= number or command.poll() is not None)
    assert command.poll() is None, command.communicate()
    return noted()


def killed(work: Path, arguments: tuple[str, ...], number: int, **more: str) -> list[int]:
    """Start the command, kill it once so many processes below it named themselves, and return their IDs."""
    with subprocess.Popen(
        [sys.executable, "-m", "ncu_swizzle", *arguments], cwd=work, env=environment(work, **more),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        below = named(work.parent / "pids", number, started)
        assert all(Path(f"/proc/{pid}").exists() for pid in below)
        started.kill()
    return below


def fake_tools(work: Path, compiles: str) -> Path:
    """Return an nvcc, beside which is an nvdisasm that fails."""
    version = 'case "$1" in --version) echo "release 13.0, V13.0.88"; exit;; esac'
    executable(work.parent / "bin" / "nvdisasm", version, "exit 1", shell="/bin/bash")
    return executable(work.parent / "bin" / "nvcc", version, compiles, shell="/bin/bash")


@pytest.mark.long
def test_a_compiler_and_what_it_starts_end(work: Path) -> None:
    nvcc = fake_tools(work, TREE)
    command = ("profile", "transpose-plain", "--engine", "emulated", "--nvcc", str(nvcc), "--baseline", "none")
    pids = killed(work, command, 4)
    assert not [pid for pid in pids if alive(pid)]
    assert list((work.parent / "tmp").iterdir()), "its scratch folder is still there"
    (result,) = container.inspect(RECORDINGS / "transpose" / "transpose-plain.ncu-rep").results
    (work.parent / "recorded.cubin").write_bytes(result.cubin)
    fake_tools(work, f'while [ "$1" != -o ]; do shift; done; cp {work.parent}/recorded.cubin "$2"')
    process.run(*command, folder=work, env=environment(work))
    assert list((work.parent / "tmp").iterdir()) == [], "the next command removed it"
    assert not list(work.rglob(".*")), "and the unfinished run"


@pytest.mark.long
def test_a_forked_worker_that_outlives_us_does_not_keep_them(work: Path, pids: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    with subprocess.Popen(command, env=environment(work), stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        worker = int(started.stdout.readline())
        below = named(pids, 2, started)
        started.kill()
        started.stdout.close()
    try:
        assert not [pid for pid in below if alive(pid)]
        assert Path(f"/proc/{worker}").exists(), "the worker is not ours to end"
    finally:
        os.kill(worker, signal.SIGKILL)
