"""A worker: its examination, missing files, one task at a time; and Dask, which starts workers, or joins a cluster."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from ncu_swizzle.base import child, errors, paths
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadFile, EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import brief, read_bytes
from ncu_swizzle.base.files import replace_file as write
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import Done, FleetOptions, Progress
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


# The workers that are fit for a job: examined when they appear, dropped when they are gone.

FIRST_S = 60.0  # how long to wait for the first worker
PAUSE_S = 0.1
FORGOTTEN_S = 10.0  # after which another worker may reuse the address of one that is gone


@dataclass(kw_only=True)
class Station:
    """One worker as seen from here: its address, its tasks, and the unit that it works on."""

    address: str
    member: CrewMember
    sent: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    unit: Any = None


class Roster:
    """The stations, and notes on the workers that are not among them."""

    def __init__(self, client: Any, token: str, job: FleetJob, options: FleetOptions, wanted: dict[str, str]) -> None:
        self._client, self._token, self._job, self._options = client, token, job, options
        self._wanted = wanted
        self._refused: dict[str, str] = {}
        self._gone: dict[str, float] = {}
        self.stations: list[Station] = []

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys(f"{why}." for why in self._refused.values()))

    def wait_for_some(self) -> None:
        """Examine all existing workers; raise EnvironmentLacking if none is fit."""
        deadline = time.monotonic() + FIRST_S
        expected = self._options.count or 1
        while time.monotonic() < deadline:
            self.look()
            if len(self.stations) + len(self._refused) >= expected:
                break
            time.sleep(PAUSE_S)
        if self.stations:
            return
        if self._refused:
            raise EnvironmentLacking(
                f"no worker of the cluster is fit: {'; '.join(dict.fromkeys(self._refused.values()))}",
                "give the workers this very ncu-swizzle; docs/fleet.md says how",
            )
        raise EnvironmentLacking("the cluster has no workers", "start some; docs/fleet.md says how")

    def look(self) -> list[Station]:
        """Examine new workers; return the stations whose worker is gone."""
        present = self._client.nthreads()
        gone = [station for station in self.stations if station.address not in present]
        now = time.monotonic()
        self._gone = {address: since for address, since in self._gone.items() if now - since < FORGOTTEN_S}
        addresses = {station.address for station in self.stations} | self._refused.keys() | self._gone.keys()
        if fresh := [address for address in present if address not in addresses]:
            self._examine(fresh)
        for address in self._refused.keys() - present.keys():
            del self._refused[address]
        return gone

    def drop(self, station: Station) -> None:
        """Forget a worker; for a while the scheduler may still list it."""
        self._gone[station.address] = time.monotonic()
        if station in self.stations:
            self.stations.remove(station)

    def retire(self, station: Station, why: str) -> None:
        """Stop using a worker that is still there."""
        self._refused[station.address] = f"the worker {station.member.where.worker} is not used: {why}"

    def _examine(self, fresh: list[str]) -> None:
        # A worker that lacks this version may fail in any way.
        answers = self._client.run(examine, self._token, self._job, self._wanted, workers=fresh, on_error="return")
        listed = self._client.scheduler_info(n_workers=-1).get("workers", {})
        for address, answer in sorted(answers.items()):
            name = str(listed.get(address, {}).get("name", address))
            if why := self._unfit(name, answer):
                self._refused[address] = why
                continue
            if answer.lacks:  # all files are sent, as they include each other by relative paths
                contents = {path: read_bytes(Path(path)) for path in self._wanted}
                self._client.run(receive, self._token, contents, workers=[address])
            uuid, model = answer.gpus[0] if answer.gpus else ("", "")
            where = Whereabouts(worker=name, host=answer.host, gpu=model, uuid=uuid)
            self.stations.append(Station(address=address, member=CrewMember(answer.facts, where)))

    def _unfit(self, name: str, answer: Examined | BaseException) -> str:
        """Return why a worker cannot do the job; empty if it can."""
        refused, why = f"the worker {name} is refused", ""
        if isinstance(answer, NcuSwizzleError):
            why = f"{refused}: {answer}"
        elif isinstance(answer, BaseException):
            why = f"{refused}: it has no ncu-swizzle, or another one ({brief(answer)})"
        elif answer.identity != identity():
            why = f"{refused}: it has ncu-swizzle {answer.identity}, here is {identity()}"
        elif answer.lacks and self._job.moved is None:
            why = f"{refused}: it lacks {next(iter(answer.lacks))}"
        elif self._job.measures:
            why = self._unfit_gpu(name, answer)
        return why

    def _unfit_gpu(self, name: str, answer: Examined) -> str:
        """Return why a worker's GPU cannot be used; empty if it can."""
        if not answer.gpus:
            return f"the worker {name} is refused: {answer.host} has no usable GPU"
        uuid, model = answer.gpus[0]
        if self._options.gpu.casefold() not in model.casefold():
            return f"the worker {name} is not used: its GPU is {model}, not {self._options.gpu}"
        taken = next(
            (station.member.where.worker for station in self.stations if station.member.where.uuid == uuid), ""
        )
        return f"the worker {name} is not used: it shares a GPU with {taken}" if taken else ""


INSTALL = "pip install 'ncu-swizzle[fleet]'"
JOIN_S = 20.0
CLOSE_S = 30.0  # a worker that is being restarted has to be waited for
LOCAL = "127.0.0.1"
START = "start one: dask scheduler --scheduler-file FILE; docs/fleet.md says how"
QUIET = {"logging": dict.fromkeys(("distributed", "distributed.client", "bokeh", "tornado"), "critical")}


@contextmanager
def client_of_cluster(options: FleetOptions) -> Iterator[Any]:
    """Yield Dask's client of the cluster in the options. Raises EnvironmentLacking and BadFile."""
    if lacking := missing():
        raise EnvironmentLacking(*lacking)
    import dask
    import distributed

    for name in ("distributed", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    environment = dict(os.environ)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(QUIET))
        try:
            stack.callback(os.environ.update, environment)  # Dask changes it for the workers
            stack.callback(os.environ.clear)
            if options.own:
                with _ignoring_ctrl_c():
                    cluster = stack.enter_context(_own(options))
                client = distributed.Client(cluster, set_as_default=False)
            else:
                client = _joined(options)
        except OSError as error:  # which a timeout is, too
            raise EnvironmentLacking(f"no Dask cluster answers: {brief(error)}", START) from error
        stack.callback(_closing, client)
        yield client


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Start processes that a terminal's Ctrl-C does not reach: this process handles it, and ends them.

    They inherit the mask, as does the thread that starts them again; a Ctrl-C meanwhile arrives at the end.
    """
    resource_tracker.ensure_running()  # which would lift the mask in the thread that starts processes
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _closing(client_or_cluster: Any) -> None:
    """Close it. If that takes too long, all results are already here: Dask's processes end with this one."""
    with suppress(TimeoutError):
        client_or_cluster.close(timeout=CLOSE_S)


def missing() -> tuple[str, str] | None:
    """Return what is not installed, and how to install it; None if workers can be started."""
    names = [name for name in ("distributed", "cryptography") if importlib.util.find_spec(name) is None]
    return (f"workers need {' and '.join(names)}, not installed", INSTALL) if names else None


def dashboard(client: Any) -> str:
    """Return the address of Dask's dashboard; empty if it has none, like our own cluster without bokeh."""
    if client.cluster is not None and not _has_bokeh():
        return ""
    has_one = bool(client.scheduler_info(n_workers=0).get("services", {}).get("dashboard"))
    return str(client.dashboard_link) if has_one else ""


def _has_bokeh() -> bool:
    return importlib.util.find_spec("bokeh") is not None


def _joined(options: FleetOptions) -> Any:
    import distributed

    if options.scheduler_file is not None and not options.scheduler_file.is_file():
        raise BadFile(f"{options.scheduler_file} does not exist", START)
    address = (
        {"scheduler_file": str(options.scheduler_file)} if options.scheduler_file else {"address": options.scheduler}
    )
    try:
        return distributed.Client(**address, timeout=JOIN_S, set_as_default=False)
    except (ValueError, TypeError, KeyError) as error:  # not an address, not its file
        raise BadFile(
            f"{options.scheduler or options.scheduler_file} names no scheduler: {brief(error)}", START
        ) from error


@contextmanager
def _own(options: FleetOptions) -> Iterator[Any]:
    """Yield a cluster of this machine that no one else can connect to: it has its own certificate."""
    import distributed
    from distributed.security import Security

    gpus = [] if options.count else [uuid for uuid, _ in chosen_gpus(options)]
    with scratch() as folder:
        security = Security.temporary()
        common = {"protocol": "tls://", "host": LOCAL, "security": security}
        # Dask serves HTTP even without a dashboard, on a fixed port by default: 0 means any free one.
        http = {"dashboard": _has_bokeh(), "dashboard_address": f"{LOCAL}:0"}
        listening = {**common, **http, "port": 0, "local_directory": str(folder)}
        scheduler = {"cls": distributed.Scheduler, "options": listening}
        specifications = [_worker(common, folder / f"worker-{number}", number, uuid, len(gpus))
                for number, uuid in enumerate(gpus or [""] * options.count)]  # fmt: skip
        cluster = distributed.SpecCluster(
            scheduler=scheduler,
            workers=dict(enumerate(specifications)),
            security=security,
            silence_logs=logging.CRITICAL,
            name="ncu-swizzle",
        )
        try:
            yield cluster
        finally:
            _closing(cluster)


def _worker(common: dict[str, Any], folder: Path, number: int, uuid: str, gpus: int) -> dict[str, Any]:
    """Return Dask's specification of one worker: its folder for temporary files, and its GPU if it has one."""
    import distributed

    folder.mkdir(mode=0o700)
    threads = max(1, (os.cpu_count() or 1) // gpus) if gpus else 1  # of NumPy, for the references
    # PYTHONSAFEPATH: a file in the current folder must not be imported in place of one of our modules.
    environment = {"TMPDIR": str(folder), "PYTHONSAFEPATH": "1", "PYTHONPATH": paths.child_environment()["PYTHONPATH"]}
    environment |= {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment |= {"CUDA_VISIBLE_DEVICES": uuid} if uuid else {}
    options = {
        **common,
        "nthreads": 2 if uuid else 1,  # one reads a report while the other waits for the next
        "name": f"{'gpu' if uuid else 'worker'}-{number}",
        # No limit: a Nanny ends a worker that comes near to it, in the middle of a measurement.
        "memory_limit": 0,
        "local_directory": str(folder),
        "env": environment,
        "resources": {"gpu": 1} if uuid else None,
        "dashboard": False,
        "silence_logs": logging.CRITICAL,
    }
    return {"cls": distributed.Nanny, "options": options}


def chosen_gpus(options: FleetOptions) -> list[tuple[str, str]]:
    """Return the UUID and name of this machine's GPUs; raise EnvironmentLacking if none is of the requested kind."""
    installed = device.identities()
    chosen = [(uuid, name) for uuid, name in installed if options.gpu.casefold() in name.casefold()]
    if not chosen:
        names = ", ".join(dict.fromkeys(name for _, name in installed))
        why = f"none is called {options.gpu}: {names}" if installed else device.absent()
        raise EnvironmentLacking(f"--workers gpus: {why}", "--workers 2 --engine emulated, or ncu-swizzle doctor")
    return chosen
