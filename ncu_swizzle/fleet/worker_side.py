"""What runs in a worker: the examination, the files that it lacks, and one task at a time."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle import child, paths
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.fleet import shipment
from ncu_swizzle.fleet.identity import identity
from ncu_swizzle.fleet.tasks import FleetJob
from ncu_swizzle.ncu import gpu
from ncu_swizzle.unfinished.folders import scratch

SAID_EVERY_S = 0.25  # progress to the client
GPU_ANSWERS_S = 20.0

_jobs: dict[str, FleetJob] = {}
_roots: dict[str, Path] = {}  # the folders of files that came along
_stopped: set[str] = set()
_one_at_a_time = threading.Lock()  # a worker may have several threads, and the emulator gains nothing from them


class Stopped(BaseException):
    """The command that wanted a task is gone: it ends without a result."""


@dataclass(frozen=True)
class Examined:
    """What a worker says of itself."""

    identity: str
    host: str
    pid: int
    gpus: tuple[tuple[str, str], ...]  # UUID and name, the one that is used first
    lacks: Mapping[str, str]
    facts: Any


@dataclass(frozen=True)
class Returned:
    """What a task left: its value and its files, or how it failed. `unfit`: this worker is of no more use."""

    value: Any = None
    files: Mapping[str, bytes] | None = None
    error: tuple[str, str, str] | None = None  # class, message, hint
    seconds: float = 0.0
    unfit: str = ""


def examine(token: str, job: FleetJob, wanted: Mapping[str, str]) -> Examined:
    """Remember the job, and say what this worker is and lacks."""
    _jobs[token] = job
    gpus = tuple(gpu.identities()) if job.measures else ()
    return Examined(
        identity(), socket.gethostname(), os.getpid(), gpus, shipment.lacking(wanted), job.examine(job.common)
    )


def receive(token: str, contents: Mapping[str, bytes]) -> None:
    """Keep files that this worker lacks, and read them from where they are now."""
    root = Path(tempfile.mkdtemp(prefix="ncu-swizzle-files-"))
    _roots[token] = root
    shipment.unpack(contents, root)
    job = _jobs[token]
    assert job.moved is not None
    _jobs[token] = FleetJob(job.work, job.moved(job.common, str(root)), job.examine, job.measures)


def forget(token: str) -> None:
    """Drop a job; end what it still runs here."""
    _stopped.add(token)
    _jobs.pop(token, None)
    if (root := _roots.pop(token, None)) is not None:
        shutil.rmtree(root, ignore_errors=True)
    child.end_all()


def perform(token: str, number: int, name: str, given: Any) -> Returned:
    """Do one task in a folder of its own; the client hears how far it is."""
    if token in _stopped or token not in _jobs:
        raise Stopped
    job = _jobs[token]
    with nullcontext() if job.measures else _one_at_a_time:  # ncu has a lock of its own
        started = time.monotonic()
        say = _speaker(token, number, name)
        say(name, 0.0)
        with scratch() as folder:
            try:
                value = job.work(job.common, given, folder, say)
            except NcuSwizzleError as error:
                if token in _stopped:
                    raise Stopped from error
                told = (type(error).__name__, str(error), error.hint)
                unfit = _unfit() if job.measures else ""
                return Returned(error=told, seconds=time.monotonic() - started, unfit=unfit)
            files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in _files(folder)}
        return Returned(value, files, seconds=time.monotonic() - started)


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()]


def _speaker(token: str, number: int, name: str) -> Callable[[str, float], None]:
    """Return a progress callback that tells the client, not too often, and ends a task that nobody wants any more."""
    from distributed import get_worker

    worker = get_worker()
    last = [-SAID_EVERY_S]

    def say(_: str, percent: float) -> None:
        if token in _stopped:
            raise Stopped
        now = time.monotonic()
        if now - last[0] >= SAID_EVERY_S:
            last[0] = now
            worker.log_event(token, {"worker": worker.address, "task": number, "name": name, "percent": float(percent)})

    return say


def _unfit() -> str:
    """Return why this worker's GPU can no longer be used; empty if it answers."""
    uuid = next((uuid for uuid, _ in gpu.identities()), "")
    try:
        ended = child.run(["nvidia-smi", "--id", uuid, "--query-gpu=name", "--format=csv,noheader"], GPU_ANSWERS_S,
                          environment=paths.tool_environment())  # fmt: skip
    except (NcuSwizzleError, subprocess.SubprocessError):
        return ""  # without nvidia-smi nobody can tell
    return f"its GPU does not answer: {ended.log.strip()[:200]}" if ended.status else ""
