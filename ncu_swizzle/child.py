"""Run a program with a time limit, and end everything that it started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.errors import EnvironmentLacking, TimeLimit

GRACE_S = 5.0  # between asking a process group to end and ending it


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit status (negative: the signal) and all that it printed."""

    status: int
    log: str


def run(
    argv: Sequence[str],
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_output: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run the program without standard input, stdout and stderr together; `on_output` sees them as they come.

    Raises TimeLimit, and EnvironmentLacking where the program cannot be started. However this ends, an interrupt
    too, no process that the program started in its group is left.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentLacking(f"cannot run {argv[0]}: {error.strerror}", "name another one with --ncu") from error
    try:
        return _follow(process, argv[0], timeout_s, on_output)
    finally:
        _end(process)


def last_lines(log: str) -> str:
    """Return the end of what a program printed, enough to see why it failed."""
    return "\n".join(log.strip().splitlines()[-5:])


def _follow(process: subprocess.Popen[bytes], name: str, timeout_s: float, on_output: Callable[[str], None]) -> Outcome:
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    chunks: list[bytes] = []
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeLimit(
                    f"{Path(name).name} was still running after {timeout_s:g} s",
                    "give it more with --timeout SECONDS, or profile a smaller --problem",
                )
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            chunks.append(chunk)
            on_output(chunk.decode("utf-8", "replace"))
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()) + GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise TimeLimit(f"{Path(name).name} closed its output and did not end", "profile again") from error
    return Outcome(status, b"".join(chunks).decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    for kill in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kill)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
