"""Run a program with a time limit, and terminate everything that it started, even if this process is killed.

A program leads its own session. A sentinel, a shell, waits next to it and ends the session once this process is
gone: that also reaches programs that the program starts, and needs no live thread of ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import REMEDIES, EnvironmentLacking, Hint, Interrupted, TimeLimit, Typed, reason, remedy

GRACE_S = 5.0  # between SIGTERM and SIGKILL to a process group
LINGER_S = 0.5  # how long to wait for output from processes that outlive the program
PIPE_BYTES = 1 << 20  # the most that a pipe holds
KEPT_BYTES = 1 << 20  # of a program's output, at the start and at the end each
LONGEST_PAUSE_S = 0.05  # between two checks of a program that is about to exit

LEAST_FILES = 32  # open at once, in a program that is run

LIMITED = ("/bin/sh", "-c", 'ulimit -v "$0"; exec "$@"')

# Reads the program's process ID, then waits until no process holds the pipe's other end: this process died silently.
# It ends the program's session, and descendants that left the session but still have a parent in it.
SENTINEL = r"""
trap '' HUP INT TERM
read -r session || exit
read -r _
family=" $session "
grown=yes
while [ "$grown" ]; do
    grown=
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        case $family in *" $pid "*) continue ;; esac
        read -r line <"$process/stat" || continue
        set -- ${line##*) }  # state, parent, group, session
        member=
        case $family in *" $2 "*) member=yes ;; esac
        [ "$4" = "$session" ] && member=yes
        [ "$member" ] && family="$family$pid " && grown=yes
    done
done
kill -s KILL -- "-$session" $family
"""


@dataclass(frozen=True)
class Exit:
    """How a program ended: its exit status (negative: the signal) and its output, without the middle if it is long."""

    status: int
    log: str
    left_out: int = 0  # bytes of output


def run(
    argv: Sequence[str],
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_output: Callable[[str], None] = lambda text: None,
    pass_fds: Sequence[int] = (),
    with_stderr: bool = True,
    kept_bytes: int = KEPT_BYTES,
    memory_bytes: int = 0,
    stop: threading.Event | None = None,
    started_by: Sequence[str] = (),
) -> Exit:
    """Run the program without standard input; `on_output` gets its output, stdout and stderr combined, as it comes.

    If the output is longer than twice `kept_bytes`, at least that much of its start and of its end is kept.
    `memory_bytes` limits its address space, and that of its children; 0 means no limit. Another thread ends the
    program by setting `stop`. `started_by` is a program that starts it and ends with its status.
    Raises TimeLimit, EnvironmentLacking if the program cannot be started, and Interrupted if it was stopped.
    However this ends, even by an interrupt, no process of the program's process group is left running; nor of its
    session if this process is killed.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files < LEAST_FILES:  # /bin/sh alone takes the tenth
        raise EnvironmentLacking(f"no program can be run with {files} open files", REMEDIES[errno.EMFILE])
    with _Held() as held, contextlib.ExitStack() as unless_started:  # a signal must not come between start and `try`
        try:
            sentinel = _Sentinel()
            unless_started.callback(sentinel.dismiss)
            process = subprocess.Popen(
                [*((*LIMITED, str(memory_bytes >> 10)) if memory_bytes else ()), *started_by, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if with_stderr else subprocess.DEVNULL,
                cwd=folder,
                env=environment,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise EnvironmentLacking(
                f"cannot run {argv[0]}: {reason(error)}", remedy(error, "name another one with --ncu")
            ) from error
        unless_started.pop_all()
        sentinel.guard(process.pid)
        _running.add(process.pid)
        try:
            held.release()
            log = _Log(kept_bytes)
            _follow(process, argv[0], timeout_s=timeout_s, log=log, on_output=on_output, stop=stop or threading.Event())
        finally:
            with _Held():
                _running.discard(process.pid)
                _end(process, sentinel)
        return Exit(process.returncode, log.text(), log.skipped)


_running: set[int] = set()  # process groups that `run` waits for, in any thread


def end_all() -> None:
    """End every program that a thread of this process runs; each `run` returns as if its program had been killed."""
    for group in tuple(_running):
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGTERM)


class _Held:
    """Defers signals that would end this process until exit or `release`."""

    def __enter__(self) -> _Held:
        self._pending: list[int] = []
        self._handlers: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self._handlers[number] = signal.signal(
                        number, lambda received, frame: self._pending.append(received)
                    )
        return self

    def release(self) -> None:
        while self._handlers:
            signal.signal(*self._handlers.popitem())
        while self._pending:
            signal.raise_signal(self._pending.pop())

    def __exit__(self, *_: object) -> None:
        self.release()


class _Sentinel:
    """The process that ends a program's session when this process ends first; without a shell there is none."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        reading, self._writing = os.pipe()  # closed in all children; a fork closes it below
        _pipes.add(self._writing)
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", SENTINEL, "ncu-swizzle-sentinel"],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C does not reach it
            )
        except OSError:
            pass
        finally:
            os.close(reading)

    def guard(self, session: int) -> None:
        """Name the session to end, by the process ID of its leader."""
        with contextlib.suppress(OSError):  # the sentinel was killed
            os.write(self._writing, f"{session}\n".encode())

    def dismiss(self) -> None:
        """End the sentinel. Until then the leader must not be reaped: its ID could become that of another process."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
        _pipes.discard(self._writing)
        os.close(self._writing)


_pipes: set[int] = set()  # the ends that sentinels watch


def _close_pipes() -> None:
    """Close them in a fork, which may outlive this process."""
    while _pipes:
        os.close(_pipes.pop())


os.register_at_fork(after_in_child=_close_pipes)


class _Log:
    """The start and the end of a program's output."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._start = bytearray()
        self._end = bytearray()
        self.skipped = 0

    def add(self, chunk: bytes) -> None:
        room = max(0, self._kept_bytes - len(self._start))
        self._start += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) > 2 * self._kept_bytes:
            self.skipped += len(self._end) - self._kept_bytes
            del self._end[: -self._kept_bytes]

    def text(self) -> str:
        gap = f"\n[{self.skipped} bytes left out]\n".encode() if self.skipped else b""
        return (self._start + gap + self._end).decode("utf-8", "replace")


def _follow(
    process: subprocess.Popen[bytes],
    name: str,
    timeout_s: float,
    log: _Log,
    on_output: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Add the program's output to the log until it has exited; raise TimeLimit or Interrupted. It is not reaped yet."""
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = selector.select(min(LINGER_S, max(0.0, deadline - time.monotonic())))
            if stop.is_set():
                raise Interrupted(f"{Path(name).name} was stopped")
            ended = not ready and _exits(process, 0)  # while another process holds its output open
            if ended:
                ready = selector.select(0)  # output since our last check
            elif time.monotonic() >= deadline:
                raise TimeLimit(
                    f"{Path(name).name} was still running after {timeout_s:g} s",
                    Hint("raise the limit with ", Typed("--timeout SECONDS"), ", or profile a smaller --problem"),
                )
            if ready:
                chunk = os.read(process.stdout.fileno(), PIPE_BYTES)
                if not chunk:
                    break
                log.add(chunk)
                on_output(chunk.decode("utf-8", "replace"))
            if ended:
                break
    if not _exits(process, max(0.0, deadline - time.monotonic()) + GRACE_S):
        raise TimeLimit(f"{Path(name).name} closed its output but did not exit", "profile again")


def _exits(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Wait for the process to exit, without reaping it; return whether it did."""
    deadline, pause_s = time.monotonic() + within_s, 0.0005
    while True:
        try:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        except ChildProcessError:  # reaped by others: the caller ignores SIGCHLD
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(min(pause_s, LONGEST_PAUSE_S, max(0.0, deadline - time.monotonic())))
        pause_s *= 2


def _end(process: subprocess.Popen[bytes], sentinel: _Sentinel) -> None:
    """Terminate the whole process group: SIGTERM, then SIGKILL. Only then dismiss the sentinel and reap."""
    for kill in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kill)
        except ProcessLookupError:
            break
        except PermissionError:  # it runs as another user (sudo)
            break
        _exits(process, GRACE_S)
    sentinel.dismiss()
    with contextlib.suppress(subprocess.TimeoutExpired):  # a process stuck in the driver cannot be killed
        process.wait(GRACE_S)
    if process.stdout:
        process.stdout.close()
