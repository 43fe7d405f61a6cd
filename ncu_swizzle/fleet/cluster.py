"""Dask: start workers on this machine, or join a cluster that runs already. The one module that starts Dask."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from ncu_swizzle import paths
from ncu_swizzle.errors import BadFile, EnvironmentLacking
from ncu_swizzle.files import brief
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.ncu import gpu
from ncu_swizzle.unfinished.folders import scratch

INSTALL = "pip install 'ncu-swizzle[fleet]'"
JOIN_S = 20.0
CLOSE_S = 10.0
LOCAL = "127.0.0.1"
START = "start one: dask scheduler --scheduler-file FILE; docs/fleet.md says how"
QUIET = {"logging": dict.fromkeys(("distributed", "distributed.client", "bokeh", "tornado"), "critical")}


@contextmanager
def connected(options: FleetOptions) -> Iterator[Any]:
    """Yield Dask's client of the cluster that the options ask for. Raises EnvironmentLacking and BadFile."""
    if lacking := missing():
        raise EnvironmentLacking(*lacking)
    import dask
    import distributed

    warnings.filterwarnings("ignore", "Port .* is already in use", UserWarning)  # of another sweep's dashboard
    for name in ("distributed", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    environment = dict(os.environ)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(QUIET))
        try:
            stack.callback(_restore, environment)  # Dask changes it for the workers
            if options.own:
                with _deaf():
                    cluster = stack.enter_context(_own(options))
                client = distributed.Client(cluster, set_as_default=False)
            else:
                client = _joined(options)
        except OSError as error:  # which a timeout is, too
            raise EnvironmentLacking(f"no Dask cluster answers: {brief(error)}", START) from error
        stack.callback(client.close, timeout=CLOSE_S)
        yield client


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that a terminal's Ctrl-C does not reach: this one hears it, and ends them.

    They inherit the mask, as does the thread that starts them again; a Ctrl-C meanwhile arrives at the end.
    """
    resource_tracker.ensure_running()  # which would lift the mask in the thread that starts processes
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def missing() -> tuple[str, str] | None:
    """Return what is not installed, and how to install it; None if workers can be had."""
    names = [name for name in ("distributed", "cryptography") if importlib.util.find_spec(name) is None]
    return (f"{' and '.join(names)} not installed, which workers need", INSTALL) if names else None


def dashboard(client: Any) -> str:
    """Return the address of Dask's dashboard; empty if it has none."""
    has_one = bool(client.scheduler_info(n_workers=0).get("services", {}).get("dashboard"))
    return str(client.dashboard_link) if has_one else ""


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
    """Yield a cluster of this machine that nobody else can connect to: it has a certificate of its own."""
    import distributed
    from distributed.security import Security

    gpus = [] if options.count else [uuid for uuid, _ in chosen_gpus(options)]
    with scratch() as folder:
        security = Security.temporary()
        common = {"protocol": "tls://", "host": LOCAL, "security": security}
        shown = importlib.util.find_spec("bokeh") is not None
        scheduler = {
            "cls": distributed.Scheduler,
            "options": {**common, "port": 0, "dashboard": shown, "dashboard_address": f"{LOCAL}:0" if shown else None},
        }
        each = [_worker(common, folder / f"worker-{number}", number, uuid, len(gpus))
                for number, uuid in enumerate(gpus or [""] * options.count)]  # fmt: skip
        cluster = distributed.SpecCluster(
            scheduler=scheduler,
            workers=dict(enumerate(each)),
            security=security,
            silence_logs=logging.CRITICAL,
            name="ncu-swizzle",
        )
        try:
            yield cluster
        finally:
            cluster.close(timeout=CLOSE_S)


def _worker(common: dict[str, Any], folder: Path, number: int, uuid: str, gpus: int) -> dict[str, Any]:
    """Return Dask's specification of one worker: its folder for temporary files, and its GPU if it has one."""
    import distributed

    folder.mkdir(mode=0o700)
    threads = max(1, (os.cpu_count() or 1) // gpus) if gpus else 1  # of NumPy, for the references
    environment = {"TMPDIR": str(folder), "PYTHONSAFEPATH": "1", "PYTHONPATH": paths.child_environment()["PYTHONPATH"]}
    environment |= {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment |= {"CUDA_VISIBLE_DEVICES": uuid} if uuid else {}
    options = {
        **common,
        "nthreads": 2 if uuid else 1,  # one reads a report while the other waits for the next
        "name": f"{'gpu' if uuid else 'worker'}-{number}",
        "memory_limit": 0,
        "local_directory": str(folder),
        "env": environment,
        "resources": {"gpu": 1} if uuid else None,
        "dashboard": False,
        "silence_logs": logging.CRITICAL,
    }
    return {"cls": distributed.Nanny, "options": options}


def chosen_gpus(options: FleetOptions) -> list[tuple[str, str]]:
    """Return the UUID and name of this machine's GPUs; raise EnvironmentLacking if there is none of the asked kind."""
    found = gpu.identities()
    chosen = [(uuid, name) for uuid, name in found if options.gpu.casefold() in name.casefold()]
    if not chosen:
        names = ", ".join(dict.fromkeys(name for _, name in found))
        why = f"none is called {options.gpu}: {names}" if found else gpu.absent()
        raise EnvironmentLacking(f"--workers gpus: {why}", "--workers 2 --engine emulated, or ncu-swizzle doctor")
    return chosen


def _restore(environment: dict[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
