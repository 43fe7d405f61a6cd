"""Independent items of work, spread over processes: each result as soon as it is there, whatever becomes of the others.

A process of its own, the nursery, loads what the work needs once and forks a worker whenever it is asked to; it has no
threads, so that this is safe. If the command ends, however it does, the nursery ends its workers and itself. A worker
that is killed, by the system for want of memory perhaps, costs the item that it had: another one takes its place.

    python -m ncu_swizzle.base.pool SOCKET        the nursery; `outcomes` starts it
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from ncu_swizzle.base import errors, paths
from ncu_swizzle.base.bounds import lacking
from ncu_swizzle.base.errors import EnvironmentLacking, Hint, NcuSwizzleError, ProgramFailed, Typed

Hear = Callable[[str, Any], None]  # what is being done, and how far it is
Work = Callable[[Any, Any, Hear], Any]  # a module's function: what all items share, an item, progress

VARIABLE = "NCU_SWIZZLE_JOBS"  # of the environment: the default of --jobs
MOST_JOBS = 256
JOB_BYTES = 600 << 20  # of memory that is free, for each process: what launches take at most, nearly all of them
GROUPS = Path("/sys/fs/cgroup")
SAID_EVERY_S = 0.1
WORK = b"work"  # to the nursery, before it is sent
GRACE_S = 3.0  # between asking workers to end and ending them
PR_SET_PDEATHSIG = 1
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
GARBAGE = 100_000  # objects between garbage collections, as in the command itself


@dataclass(frozen=True)
class ItemOutcome:
    """What came of an item: a value, or the error that it ended with."""

    value: Any = None
    error: NcuSwizzleError | None = None

    def result(self) -> Any:
        """Return the value; raise the error."""
        if self.error:
            raise self.error
        return self.value


# How many processes.


def jobs_for(asked: int | None) -> int:
    """Return how many processes to use: as asked, else as NCU_SWIZZLE_JOBS says, else what cores and memory allow."""
    if asked:
        return min(asked, MOST_JOBS)
    if (text := os.environ.get(VARIABLE, "")).isdecimal() and 0 < int(text) <= MOST_JOBS:
        return int(text)
    return max(1, min(cores(), free_bytes() // JOB_BYTES, MOST_JOBS))


def cores() -> int:
    """Return how many cores this process may use, a container's quota included."""
    usable = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = (GROUPS / "cpu.max").read_text(encoding="ascii").split()
        usable = min(usable, max(1, round(int(quota) / int(period))))  # "max": a ValueError, no quota
    return usable


def free_bytes() -> int:
    """Return how much memory can be taken without swapping; a container's limit counts, too."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
        with contextlib.suppress(OSError, ValueError):
            most = int((GROUPS / "memory.max").read_text(encoding="ascii"))
            free = min(free, most - int((GROUPS / "memory.current").read_text(encoding="ascii")))
        return max(free, 0)
    return MOST_JOBS * JOB_BYTES


# Results as they come, and in order.

_AHEAD: list[_Nursery] = []  # the one of an `ahead` that has no work now, if any


def outcomes(
    work: Work,
    common: Any,
    items: Sequence[Any],
    jobs: int = 1,
    hear: Hear = lambda what, done: None,
    loads: Sequence[str] = (),
    meanwhile: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, ItemOutcome]]:
    """Yield the number and the outcome of each item as it ends; with one job, or one item, in this process.

    `loads` are modules that the work imports late: the nursery loads them once for all workers, or did so `ahead`.
    `meanwhile` does a part of what has to be done here in any case: it is called while workers have all the items, and
    nothing is heard of them, until it returns that there is no more, and again after each outcome. What is no
    NcuSwizzleError is a bug, and raised. Processes that still run end with the iterator: close it.
    """
    if jobs < 2 or len(items) < 2:
        for number, item in enumerate(items):
            try:
                yield number, ItemOutcome(work(common, item, hear))
            except NcuSwizzleError as error:
                yield number, ItemOutcome(error=error)
        return
    with contextlib.ExitStack() as stack:
        waited = bool(_AHEAD)
        nursery = stack.enter_context(_AHEAD.pop() if waited else _Nursery(loads))
        nursery.give(work, common)
        yield from _Spread(nursery, items, hear).outcomes(min(jobs, len(items)), meanwhile)
        if waited:  # all workers are done: it can have others
            stack.pop_all()
            _AHEAD.append(nursery)


@contextlib.contextmanager
def ahead(loads: Sequence[str], jobs: int) -> Iterator[None]:
    """Start the nursery of every `outcomes` of this block, so that it loads modules while the command reads."""
    if jobs < 2:
        yield
        return
    with _Nursery(loads) as nursery:
        _AHEAD.append(nursery)
        try:
            yield
        finally:
            _AHEAD.clear()


def in_order(found: Iterable[tuple[int, ItemOutcome]]) -> Iterator[ItemOutcome]:
    """Yield the outcomes in the order of their items, each as soon as those before it are there."""
    early: dict[int, ItemOutcome] = {}
    due = 0
    for number, outcome in found:
        early[number] = outcome
        while due in early:
            yield early.pop(due)
            due += 1


class _Spread:
    """Items on their way through workers."""

    def __init__(self, nursery: _Nursery, items: Sequence[Any], hear: Hear) -> None:
        self._nursery, self._items, self._hear = nursery, items, hear
        self._waiting = deque(range(len(items)))
        self._busy: dict[Connection, int] = {}  # with the item that its worker has

    def outcomes(self, workers: int, meanwhile: Callable[[], bool]) -> Iterator[tuple[int, ItemOutcome]]:
        for _ in range(workers):
            self._feed(self._nursery.born())
        more = True
        while self._busy:
            idle = more and not self._waiting  # else the next item goes out at once
            heard = connection.wait(list(self._busy), 0 if idle else None)
            if not heard:
                more = meanwhile()
            for ready in heard:
                assert isinstance(ready, Connection)
                if (ended := self._heard(ready)) is not None:
                    more = True
                    yield ended

    def _feed(self, worker: Connection) -> None:
        """Send a worker the next item, or let it go."""
        if not self._waiting:
            worker.close()
            return
        number = self._waiting.popleft()
        self._busy[worker] = number
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it was killed: the next look says so
            worker.send(self._items[number])

    def _heard(self, worker: Connection) -> tuple[int, ItemOutcome] | None:
        """Take what a worker says; return the number and the outcome of an item that ended."""
        number = self._busy[worker]
        try:
            kind, said = worker.recv()
        except (EOFError, ConnectionResetError):
            outcome = ItemOutcome(error=self._nursery.end_of(worker))
            del self._busy[worker]
            if self._waiting:
                self._feed(self._nursery.born())
            return number, outcome
        if kind == "said":
            self._hear(*said)
            return None
        del self._busy[worker]
        self._feed(worker)
        if kind == "bug":
            bug = RuntimeError(said[0])
            bug.add_note(said[1])
            raise bug
        return number, ItemOutcome(said) if kind == "value" else ItemOutcome(error=errors.of_json(said))


class _Nursery:
    """The process that forks workers, as seen from here."""

    def __init__(self, loads: Sequence[str]) -> None:
        self._pids: dict[Connection, int] = {}
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            environment = {**paths.child_environment(), **ONE_THREAD}
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),),
                    env=environment,
                )  # fmt: skip
            except OSError as error:
                self._control.close()
                raise errors.error_of_system(error) from error
        try:
            self._send(sys.path, loads)  # where the module of the work may be
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> _Nursery:
        return self

    def give(self, work: Work, common: Any) -> None:
        """Send what all workers from now on share. Raises EnvironmentLacking if the nursery is gone."""
        try:
            self._control.send(WORK)
            if self._control.recv(32) != WORK:
                raise ConnectionResetError
            self._send((work, common))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EnvironmentLacking("no process can be started to work in", Typed("--jobs 1")) from error

    def _send(self, *values: Any) -> None:
        with Connection(os.dup(self._control.fileno())) as given:
            for value in values:
                given.send(value)

    def __exit__(self, *_: object) -> None:
        for worker in self._pids:
            worker.close()
        self._control.close()  # which ends the nursery, and with it whatever still works
        if not self._pids:  # it may still be loading, for nothing
            self._process.kill()
        try:
            self._process.wait(2 * GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def born(self) -> Connection:
        """Return the connection to a new worker. Raises EnvironmentLacking if there can be none."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
                pid = int(self._control.recv(32))
            except (OSError, ValueError) as error:
                ours.close()
                raise EnvironmentLacking("no process can be started to work in", Typed("--jobs 1")) from error
        worker = Connection(ours.detach())
        self._pids[worker] = pid
        return worker

    def end_of(self, worker: Connection) -> NcuSwizzleError:
        """Return the error for a worker that is gone."""
        pid = self._pids.pop(worker)
        worker.close()
        try:
            self._control.send(b"%d" % pid)
            status = int(self._control.recv(32))
        except (OSError, ValueError):
            status = signal.SIGKILL
        if not os.WIFSIGNALED(status):
            return ProgramFailed("the process that worked on it ended without a result", Typed("--jobs 1"))
        name = signal.Signals(os.WTERMSIG(status)).name
        why = ", as the system does if memory runs out" if name == "SIGKILL" else ""
        return ProgramFailed(
            f"the process that worked on it was killed by {name}{why}",
            Hint("leave it all of the memory: ", Typed("--jobs 1")),
        )


# The nursery and its workers.


def _serve(control: socket.socket) -> None:
    """Take work, fork a worker for each socket that comes, and wait for those that are named.

    It ends when the command is gone.
    """
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all: the command decides
        signal.signal(number, signal.SIG_IGN)
    with Connection(os.dup(control.fileno())) as given:
        sys.path[:] = given.recv()
        for module in given.recv():
            importlib.import_module(module)
    work: Any = None
    common: Any = None
    workers: set[int] = set()
    try:
        while True:
            word, handles, _, _ = socket.recv_fds(control, 32, 1)
            if not word:
                return
            if word == WORK:
                control.send(WORK)
                with Connection(os.dup(control.fileno())) as given:
                    work, common = given.recv()
                gc.freeze()  # what is loaded is there for good: a look at it would copy its pages to each worker
            elif handles:
                pid = os.fork()
                if pid == 0:
                    control.close()
                    _live(Connection(handles[0]), work, common)
                os.close(handles[0])
                workers.add(pid)
                control.send(b"%d" % pid)
            else:
                status = os.waitpid(int(word), 0)[1]
                workers.discard(int(word))
                control.send(b"%d" % status)
    except (ConnectionResetError, BrokenPipeError):  # so ends a command that is killed
        pass
    finally:
        _end(workers)


def _end(workers: set[int]) -> None:
    """End workers: they may tidy up, for a moment."""
    deadline = time.monotonic() + GRACE_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while workers and (number == signal.SIGKILL or time.monotonic() < deadline):
            for pid in tuple(workers):
                if os.waitpid(pid, 0 if number == signal.SIGKILL else os.WNOHANG)[0]:
                    workers.discard(pid)
            time.sleep(0.002)


def _live(command: Connection, work: Work, common: Any) -> NoReturn:
    """Work on one item after the other, in a fork."""
    nursery = os.getppid()
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the nursery is killed, nothing else would
        if os.getppid() == nursery:
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
            while True:
                command.send(_done(command, work, common, command.recv()))
    except (EOFError, OSError, SystemExit):  # the other end has gone
        pass
    finally:
        os._exit(0)


def _done(command: Connection, work: Work, common: Any, item: Any) -> tuple[str, Any]:
    """Return what came of an item: a value, an error as plain data, or a bug and its traceback."""
    last = [-SAID_EVERY_S]

    def say(what: str, done: Any) -> None:
        if (now := time.monotonic()) - last[0] >= SAID_EVERY_S:
            last[0] = now
            command.send(("said", (what, done)))

    try:
        return "value", work(common, item, say)
    except NcuSwizzleError as error:
        return "error", errors.as_json(error)
    except Exception as error:
        if ours := lacking(error):
            return "error", errors.as_json(ours)
        return "bug", (f"{type(error).__name__}: {error}", traceback.format_exc())


if __name__ == "__main__":
    gc.set_threshold(GARBAGE)
    logging.basicConfig(format="note: %(message)s", level=logging.WARNING)
    _serve(socket.socket(fileno=int(sys.argv[1])))
