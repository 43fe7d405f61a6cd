"""What runs in a worker: the examination, receiving missing files, and one task at a time."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ncu_swizzle.base import child, errors, paths
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.base.files import replace_file as write
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import Done, Progress
from ncu_swizzle.kernels import device, limits
from ncu_swizzle.kernels.family import Family
from ncu_swizzle.kernels.limits import FOLDER_OPTIONS

# Which ncu-swizzle this is: its version, and a digest of everything that a profile depends on.

SKIPPED = ("__pycache__", "_data")


@cache
def identity() -> str:
    """Return the version and the digest of the package, the shipped kernels and the rules: ``0.1.0 (1a2b3c4d5e6f)``."""
    try:
        version = metadata.version("ncu-swizzle")
    except metadata.PackageNotFoundError:  # run from a folder
        version = "unreleased"
    parts = []
    for folder in (paths.package(), paths.kernels(), paths.rules()):
        for file in sorted(folder.rglob("*")):
            inner = file.relative_to(folder)
            hidden = any(part in SKIPPED or part.startswith(".") for part in inner.parts)
            if not hidden and file.is_file():
                parts += [f"{folder.name}/{inner.as_posix()}", sha256(file.read_bytes())]
    return f"{version} ({sha256_of_texts(*parts)[:12]})"


# Tasks and their results; the same for this process and for workers.


@dataclass(frozen=True)
class FleetTask:
    """One point. Tasks of the same `unit` run on the same worker, in order; empty: its own unit.

    `prefers` are GPUs' UUIDs: only a worker with one of them takes it; empty: any does. `weight` estimates the work:
    the heaviest units start first.
    """

    name: str
    given: Any
    unit: str = ""
    weight: float = 0.0
    prefers: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """Where something ran and how long it took. Empty: in this process, by itself."""

    worker: str = ""
    host: str = ""
    gpu: str = ""
    uuid: str = ""
    seconds: float = 0.0


HERE = Whereabouts()


@dataclass(frozen=True)
class FleetResult:
    """What a task returned, or the error that it ended with."""

    value: Any = None
    error: NcuSwizzleError | None = None
    where: Whereabouts = HERE


@dataclass(frozen=True, kw_only=True)
class FleetJob:
    """What all tasks of a command share.

    `work` is called with `common`, a task's argument, an empty folder and a progress callback; files that it leaves in
    the folder are returned with its result. `examine` is called with `common` once per worker, and returns what is
    special about that machine. `files` are the user's files that work reads, by path; `moved` returns `common` with
    those below another root, for a worker without these files. All of it is pickled, so functions must be at module
    level.
    """

    work: Callable[[Any, Any, Path, Progress], Any]
    common: Any
    examine: Callable[[Any], Any]
    measures: bool = False  # with ncu, on a GPU
    files: Sequence[Path] = ()
    moved: Callable[[Any, str], Any] | None = None


@dataclass(frozen=True)
class CrewMember:
    """One worker: what `FleetJob.examine` returned for it, and where it is."""

    facts: Any
    where: Whereabouts = HERE


Place = Callable[[FleetTask], AbstractContextManager[Path]]
# Called with the number of a task, its result, and the folder with its files. A unit that had to move to another
# worker is redone as a whole, so this can be called twice for a task: the later result counts.
OnResult = Callable[[int, FleetResult, Path], None]


# The user's files that work reads, for workers that do not have them: by digest, and no others.


def files_of(family: Family) -> tuple[Path, ...]:
    """Return the files that building, launching and checking a family's kernels reads; none for a shipped family."""
    return () if family.shipped else tuple(dict.fromkeys(_files_of(family)))


def _files_of(family: Family) -> Iterator[Path]:
    yield from map(Path, family.included())
    named = [family.source(kernel) for kernel in family.kernels if not kernel.library]
    named += [Path(kernel.cubin) for kernel in family.kernels if kernel.cubin]
    named += [Path(argument.file) for argument in family.arguments if argument.file]
    yield from (path.absolute() for path in named if path.is_file())
    module, _, _ = family.reference.rpartition(":")
    reference = family.folder / (module or family.reference)
    if reference.suffix == ".py":
        yield from (path for path, _ in limits.texts([reference], []))


def digests(files: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by its path."""
    return {str(file): sha256(read_bytes(file)) for file in files}


def lacking(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the files that are missing here, or differ."""

    def is_here(file: Path, digest: str) -> bool:
        try:
            return sha256(file.read_bytes()) == digest
        except OSError:
            return False

    return {path: digest for path, digest in wanted.items() if not is_here(Path(path), digest)}


def unpack(contents: Mapping[str, bytes], root: Path) -> None:
    """Write files below a folder, each under its whole path."""
    for path, content in contents.items():
        write(below(path, str(root)), content, 0o600)


def below(path: str, root: str) -> Path:
    """Return where `unpack` puts a file or what a folder becomes."""
    return Path(root) / Path(path).absolute().relative_to("/")


def moved_family(family: Family, root: str) -> Family:
    """Return the family with every path of the user's below the root."""

    def moved(path: str) -> str:
        return str(below(path, root))

    def moved_option(option: str) -> str:
        """Return an option for the compiler, moved if it names an include folder."""
        form = next((form for form in FOLDER_OPTIONS if option.startswith(form)), None)
        return option if form is None else f"{form}{moved(option.removeprefix(form))}"

    module, colon, function = family.reference.rpartition(":")
    file = module or family.reference
    reference = f"{moved(file)}{colon}{function if colon else ''}" if Path(file).is_absolute() else family.reference
    return replace(
        family,
        folder=below(str(family.folder), root),
        reference=reference,
        arguments=tuple(
            replace(argument, fill=moved(argument.file)) if argument.file else argument for argument in family.arguments
        ),
        options=tuple(map(moved_option, family.options)),
        kernels=tuple(
            replace(
                kernel,
                cubin=moved(kernel.cubin) if kernel.cubin else "",
                options=tuple(map(moved_option, kernel.options)),
            )
            for kernel in family.kernels
        ),
    )


SAID_EVERY_S = 0.25  # progress to the client
GPU_ANSWERS_S = 20.0

_jobs: dict[str, FleetJob] = {}
_roots: dict[str, Path] = {}  # the folders of received files
_stopped: set[str] = set()
_one_at_a_time = threading.Lock()  # a worker may have several threads, and the emulator gains nothing from them


# Not an Exception, so that nothing between `say` and `perform` treats it as a failure of the work.
class Stopped(BaseException):
    """The command that wanted a task is gone: it ends without a result."""


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A worker's description of itself."""

    identity: str
    host: str
    gpus: tuple[tuple[str, str], ...]  # UUID and name, the one that is used first
    lacks: Mapping[str, str]
    facts: Any


@dataclass(frozen=True, kw_only=True)
class Returned:
    """A task's value and files, or how it failed. `unfit`: why this worker can no longer be used."""

    value: Any = None
    files: Mapping[str, bytes] | None = None
    error: Mapping[str, Any] | None = None  # as plain data
    seconds: float = 0.0
    unfit: str = ""

    def left_in(self, folder: Path, where: Whereabouts = HERE) -> FleetResult:
        """Write the files to a folder; return the result."""
        for name, content in (self.files or {}).items():
            write(folder / name, content)
        where = replace(where, seconds=round(self.seconds, 3))
        error = errors.of_json(dict(self.error)) if self.error else None
        return FleetResult(self.value, error, where)


def examine(token: str, job: FleetJob, wanted: Mapping[str, str]) -> Examined:
    """Remember the job, and return what this worker is and lacks."""
    _jobs[token] = job
    gpus = tuple(device.identities()) if job.measures else ()
    return Examined(
        identity=identity(), host=socket.gethostname(), gpus=gpus, lacks=lacking(wanted),
        facts=job.examine(job.common),
    )  # fmt: skip


def receive(token: str, contents: Mapping[str, bytes]) -> None:
    """Keep files that this worker lacks, and read them from their new place."""
    root = Path(tempfile.mkdtemp(prefix="ncu-swizzle-files-"))
    _roots[token] = root
    unpack(contents, root)
    job = _jobs[token]
    assert job.moved is not None
    _jobs[token] = FleetJob(
        work=job.work, common=job.moved(job.common, str(root)), examine=job.examine, measures=job.measures
    )


def forget(token: str) -> None:
    """Drop a job; end its running tasks here."""
    _stopped.add(token)
    _jobs.pop(token, None)
    if (root := _roots.pop(token, None)) is not None:
        shutil.rmtree(root, ignore_errors=True)
    child.end_all()


def perform(token: str, number: int, name: str, given: Any) -> Returned:
    """Run one task in its own folder, with progress reported to the client."""
    if token in _stopped or token not in _jobs:
        raise Stopped
    job = _jobs[token]
    with nullcontext() if job.measures else _one_at_a_time:  # ncu has its own lock
        started = time.monotonic()
        say = _speaker(token, number, name)
        say(name, Done(0))
        try:
            return performed(job, given, say)
        except NcuSwizzleError as error:
            if token in _stopped:
                raise Stopped from error
            unfit = _unfit() if job.measures else ""
            return Returned(error=errors.as_json(error), seconds=time.monotonic() - started, unfit=unfit)


def performed(job: FleetJob, given: Any, say: Progress) -> Returned:
    """Do one task in a separate folder, and return what it left there."""
    started = time.monotonic()
    with scratch() as folder:
        value = job.work(job.common, given, folder, say)
        left = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()]
        files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in left}
    return Returned(value=value, files=files, seconds=time.monotonic() - started)


def _speaker(token: str, number: int, name: str) -> Progress:
    """Return a progress callback that reports to the client, not too often, and ends an unwanted task."""
    from distributed import get_worker

    worker = get_worker()
    last = [-SAID_EVERY_S]

    def say(_: str, done: Done) -> None:
        if token in _stopped:
            raise Stopped
        now = time.monotonic()
        if now - last[0] >= SAID_EVERY_S:
            last[0] = now
            said = {"worker": worker.address, "task": number, "name": name, "fraction": done.fraction}
            worker.log_event(token, said)

    return say


def _unfit() -> str:
    """Return why this worker's GPU can no longer be used; empty if it answers."""
    uuid = next((uuid for uuid, _ in device.identities()), "")
    try:
        ended = child.run(["nvidia-smi", "--id", uuid, "--query-gpu=name", "--format=csv,noheader"], GPU_ANSWERS_S,
                          environment=paths.tool_environment())  # fmt: skip
    except (NcuSwizzleError, subprocess.SubprocessError):
        return ""  # without nvidia-smi it cannot be told
    return f"its GPU does not answer: {ended.log.strip()[:200]}" if ended.status else ""
