"""Dask: start workers on this machine, or join a running cluster. The one module that starts Dask."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import brief, read_bytes
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import FleetOptions
from ncu_swizzle.kernels import device
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.worker import CrewMember, Examined, FleetJob, Whereabouts, identity

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
        answers = self._client.run(
            worker.examine, self._token, self._job, self._wanted, workers=fresh, on_error="return"
        )
        listed = self._client.scheduler_info(n_workers=-1).get("workers", {})
        for address, answer in sorted(answers.items()):
            name = str(listed.get(address, {}).get("name", address))
            if why := self._unfit(name, answer):
                self._refused[address] = why
                continue
            if answer.lacks:  # all files are sent, as they include each other by relative paths
                contents = {path: read_bytes(Path(path)) for path in self._wanted}
                self._client.run(worker.receive, self._token, contents, workers=[address])
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
