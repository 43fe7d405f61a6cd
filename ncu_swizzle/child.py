"""Run a program with a time limit, and terminate everything that it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import EnvironmentLacking, TimeLimit

GRACE_S = 5.0  # between SIGTERM and SIGKILL to a process group
SHOWN_LINES = 5
LINGER_S = 0.5  # how long to wait for output from processes that outlive the program
KEPT_BYTES = 1 << 20  # of a program's output, at the start and at the end each


@dataclass(frozen=True)
class Exit:
    """How a program ended: its exit status (negative: the signal) and its output, without the middle if it is long."""

    status: int
    log: str


def run(
    argv: Sequence[str],
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_output: Callable[[str], None] = lambda text: None,
    pass_fds: Sequence[int] = (),
) -> Exit:
    """Run the program without standard input; `on_output` gets stdout and stderr, combined, as they come.

    Raises TimeLimit, and EnvironmentLacking if the program cannot be started. However this ends, even by an
    interrupt, no process of the program's process group is left running.
    """
    with _Held() as held:  # a signal between Popen and the try below would leave the program running
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise EnvironmentLacking(
                f"cannot run {argv[0]}: {error.strerror}", "name another one with --ncu"
            ) from error
        try:
            held.release()
            return _follow(process, argv[0], timeout_s, on_output)
        finally:
            with _Held():
                _end(process)


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


def last_lines(log: str) -> str:
    """Return the last lines of a program's output, enough to see why it failed."""
    return "\n".join(log.strip().splitlines()[-SHOWN_LINES:])


class _Log:
    """The start and the end of a program's output."""

    def __init__(self) -> None:
        self._start = bytearray()
        self._end = bytearray()
        self._skipped = 0

    def add(self, chunk: bytes) -> None:
        room = KEPT_BYTES - len(self._start)
        self._start += chunk[:room]
        self._end += chunk[room:] if room > 0 else chunk
        if len(self._end) > 2 * KEPT_BYTES:
            self._skipped += len(self._end) - KEPT_BYTES
            del self._end[:-KEPT_BYTES]

    def text(self) -> str:
        gap = f"\n[{self._skipped} bytes left out]\n".encode() if self._skipped else b""
        return (self._start + gap + self._end).decode("utf-8", "replace")


def _follow(process: subprocess.Popen[bytes], name: str, timeout_s: float, on_output: Callable[[str], None]) -> Exit:
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    log = _Log()
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = selector.select(min(LINGER_S, max(0.0, deadline - time.monotonic())))
            if not ready and process.poll() is not None:
                break  # some other process holds its output open
            if time.monotonic() >= deadline:
                raise TimeLimit(
                    f"{Path(name).name} was still running after {timeout_s:g} s",
                    "raise the limit with --timeout SECONDS, or profile a smaller --problem",
                )
            if not ready:
                continue
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            log.add(chunk)
            on_output(chunk.decode("utf-8", "replace"))
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()) + GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise TimeLimit(f"{Path(name).name} closed its output but did not exit", "profile again") from error
    return Exit(status, log.text())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the whole process group: SIGTERM, then SIGKILL."""
    for kill in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kill)
        except ProcessLookupError:
            break
        except PermissionError:  # it runs as another user (sudo)
            break
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    with contextlib.suppress(subprocess.TimeoutExpired):  # a process stuck in the driver cannot be killed
        process.wait(GRACE_S)
    if process.stdout:
        process.stdout.close()
