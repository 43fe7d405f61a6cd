"""Run a program with a time limit, and end everything that it started."""

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

GRACE_S = 5.0  # between asking a process group to end and ending it
SHOWN_LINES = 5
LINGER_S = 0.5  # how long output is waited for from what an ended program left running
KEPT_BYTES = 1 << 20  # of what a program prints, at the start and at the end each


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit status (negative: the signal) and what it printed, the middle of much left out."""

    status: int
    log: str


def run(
    argv: Sequence[str],
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_output: Callable[[str], None] = lambda text: None,
    pass_fds: Sequence[int] = (),
) -> Outcome:
    """Run the program without standard input, stdout and stderr together; `on_output` sees them as they come.

    Raises TimeLimit, and EnvironmentLacking where the program cannot be started. However this ends, an interrupt
    too, no process that the program started in its group is left.
    """
    with _Held() as held:  # a signal between the program's start and the try below would leave it running
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
    """While it is entered, signals that end us wait; then, or at `release`, they do what they do."""

    def __enter__(self) -> _Held:
        self._came: list[int] = []
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self._before[number] = signal.signal(number, lambda came, frame: self._came.append(came))
        return self

    def release(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
        while self._came:
            signal.raise_signal(self._came.pop())

    def __exit__(self, *_: object) -> None:
        self.release()


def last_lines(log: str) -> str:
    """Return the end of what a program printed, enough to see why it failed."""
    return "\n".join(log.strip().splitlines()[-SHOWN_LINES:])


class _Log:
    """The start and the end of what a program prints."""

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


def _follow(process: subprocess.Popen[bytes], name: str, timeout_s: float, on_output: Callable[[str], None]) -> Outcome:
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    log = _Log()
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = selector.select(min(LINGER_S, max(0.0, deadline - time.monotonic())))
            if not ready and process.poll() is not None:
                break  # whoever holds its output open is not the program
            if time.monotonic() >= deadline:
                raise TimeLimit(
                    f"{Path(name).name} was still running after {timeout_s:g} s",
                    "give it more with --timeout SECONDS, or profile a smaller --problem",
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
        raise TimeLimit(f"{Path(name).name} closed its output and did not end", "profile again") from error
    return Outcome(status, log.text())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group, gently and then not."""
    for kill in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kill)
        except ProcessLookupError:
            break
        except PermissionError:  # it became another user (sudo)
            break
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    with contextlib.suppress(subprocess.TimeoutExpired):  # what hangs in a driver cannot be ended, and is left
        process.wait(GRACE_S)
    if process.stdout:
        process.stdout.close()
