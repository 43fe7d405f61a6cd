"""The same work for many tasks: their results in order, wherever they ran.

With workers: which task goes to which worker, what became of it, and what to do when one is lost. A worker has at most
DEPTH tasks, sent to it by name. So the tasks of a unit stay together, and lost tasks are known.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ncu_swizzle.base import pool
from ncu_swizzle.base.errors import EnvironmentLacking, InternalError, NcuSwizzleError, NotWritable, ProgramFailed
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import ALONE, Done, FleetOptions, Progress, silent
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.worker import (
    CrewMember,
    FleetJob,
    FleetResult,
    FleetTask,
    OnResult,
    Place,
    Returned,
    Roster,
    Station,
    Whereabouts,
    client_of_cluster,
    dashboard,
    identity,
)


class Crew(Protocol):
    """Workers that know the job; `notes` are about workers, such as why some are not used."""

    @property
    def members(self) -> Sequence[CrewMember]: ...

    @property
    def notes(self) -> Sequence[str]: ...

    def run(self, tasks: Sequence[FleetTask], place: Place, on_result: OnResult) -> None:
        """Do all tasks. Raises what would stop each of them, such as a full disk, and whatever `on_result` raises."""


class OneProcess:
    """This process, which does one task after the other."""

    notes = ()

    def __init__(self, job: FleetJob, progress: Progress) -> None:
        self.members = (CrewMember(job.examine(job.common)),)
        self._job, self._progress = job, progress

    def run(self, tasks: Sequence[FleetTask], place: Place, on_result: OnResult) -> None:
        for number, task in enumerate(tasks):
            started = time.monotonic()
            try:
                with place(task) as folder:
                    value = self._job.work(self._job.common, task.given, folder, self._progress)
                    where = Whereabouts(seconds=time.monotonic() - started)
                    on_result(number, FleetResult(value, where=where), folder)
            except NotWritable:
                raise
            except NcuSwizzleError as error:
                with place(task) as folder:
                    on_result(number, FleetResult(error=error), folder)


class ThisMachine(OneProcess):
    """As many processes as this machine's cores and memory allow, for what is not measured."""

    def __init__(self, job: FleetJob, progress: Progress, jobs: int) -> None:
        super().__init__(job, progress)
        self._jobs = jobs

    def run(self, tasks: Sequence[FleetTask], place: Place, on_result: OnResult) -> None:
        given = [task.given for task in tasks]
        for number, outcome in pool.outcomes(worker.performed, self._job, given, self._jobs, self._progress):
            if isinstance(outcome.error, NotWritable):
                raise outcome.error
            with place(tasks[number]) as folder:
                result = FleetResult(error=outcome.error) if outcome.error else outcome.value.left_in(folder)
                on_result(number, result, folder)


@contextmanager
def crew(
    job: FleetJob, options: FleetOptions = ALONE, progress: Progress = silent, jobs: int | None = 1
) -> Iterator[Crew]:
    """Yield the crew for the job: Dask's workers, else processes of this machine if nothing is measured.

    Raises UsageError for invalid options, EnvironmentLacking without a fit worker.
    """
    options.refuse_nonsense()
    if not options.given:
        processes = 1 if job.measures else pool.jobs_for(jobs)
        yield ThisMachine(job, progress, processes) if processes > 1 else OneProcess(job, progress)
        return
    with workers(job, options, progress) as many:
        yield many


def results_of(
    job: FleetJob, tasks: Sequence[FleetTask], options: FleetOptions = ALONE, progress: Progress = silent
) -> list[Any]:
    """Return the tasks' results, in order; raises the first error of any task."""
    values: dict[int, Any] = {}

    def take(number: int, result: FleetResult, _folder: Path) -> None:
        if result.error:
            raise result.error
        values[number] = result.value

    with crew(job, options, progress) as workers:
        workers.run(tasks, lambda _task: scratch(), take)
    return [values[number] for number in range(len(tasks))]


# The progress of all workers in one display: a line for everything, and one per worker with its current task.

TOGETHER = "all points"
MOST_LINES = 16  # of workers
LOST = "lost"


class CrewProgress:
    """Passes workers' progress on to a callback; `link`, to Dask's dashboard, comes first."""

    def __init__(self, progress: Progress, total: int, link: str = "") -> None:
        self._progress, self._total = progress, total
        self._lines: dict[str, str] = {}
        self.running: dict[str, int] = {}  # the task that each worker reported to have begun last
        self._failed = 0
        self._say_total(total, f"Dask's dashboard: {link}" if link else "")

    def joined(self, address: str, where: Whereabouts) -> None:
        """Give a worker its line: one that was started again, or took another's place, has the line of its name."""
        if address not in self._lines and len({*self._lines.values(), label(where)}) <= MOST_LINES:
            self._lines[address] = label(where)

    def hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Handle a worker's message."""
        _, said = event
        address = str(said["worker"])
        self.running[address] = int(said["task"])
        self._say(address, said["fraction"], str(said["name"]))

    def finished(self, address: str, still_open: int, failed: bool) -> None:
        """Count a finished task."""
        self._failed += failed
        if address in self.running:
            self._say(address, 1, "")
        self._say_total(still_open)

    def lost(self, address: str) -> None:
        """Report that a worker is gone."""
        self._say(address, 0, LOST)
        self._lines.pop(address, None)

    def _say(self, address: str, fraction: float, words: str) -> None:
        if line := self._lines.get(address):
            self._progress(line, Done(fraction, words))

    def _say_total(self, still_open: int, aside: str = "") -> None:
        finished = self._total - still_open
        wrong = f", {self._failed:,} failed" if self._failed else ""
        words = f"{finished:,} of {self._total:,}{wrong}"
        self._progress(TOGETHER, Done(finished / max(self._total, 1), words, aside))


def label(where: Whereabouts) -> str:
    """Return a worker's name and what it runs on: gpu-0, NVIDIA H200 on host1."""
    return f"{', '.join(filter(None, (where.worker, where.gpu)))}{f' on {where.host}' if where.host else ''}"


GONE = ("cancelled", "lost")  # of a future
DEPTH = 2  # tasks queued at a worker, so that it need not wait for this process between two short ones
LOOK_EVERY_S = 0.5  # for workers that went or came
MOST_TRIES = 3  # a task that killed this many workers is not tried again
NO_WORKERS = "run it without --workers, to see why"
NOBODY_S = 60.0  # how long to wait for a worker when none is left


@contextmanager
def workers(job: FleetJob, options: FleetOptions, progress: Progress) -> Iterator[ManyWorkers]:
    """Yield the workers that are fit for the job. Raises EnvironmentLacking and BadFile."""
    threading.Thread(target=identity, daemon=True).start()  # reads the whole package, while the workers start
    token = f"ncu-swizzle-{secrets.token_hex(8)}"
    with client_of_cluster(options) as client:
        roster = Roster(client, token, job, options, worker.digests(job.files))
        try:
            roster.wait_for_some()
            yield ManyWorkers(client, token, roster, progress)
        finally:
            with suppress(Exception):  # in any case, the workers end or forget by themselves
                client.run(worker.forget, token, on_error="ignore")


class Unit:
    """Tasks that run on one worker, in order: those still waiting, and those that were sent or are done."""

    def __init__(self, numbers: Sequence[int], prefers: frozenset[str]) -> None:
        self.all, self.prefers = tuple(numbers), prefers
        self.waiting = deque(numbers)


class ManyWorkers:
    """Workers of a Dask cluster."""

    def __init__(self, client: Any, token: str, roster: Roster, progress: Progress) -> None:
        self._client, self._token, self._roster, self._progress = client, token, roster, progress
        self._ended: queue.SimpleQueue[tuple[Any, Station, int, Returned | BaseException]] = queue.SimpleQueue()
        self._losses: list[str] = []

    @property
    def members(self) -> Sequence[CrewMember]:
        return [station.member for station in self._roster.stations]

    @property
    def notes(self) -> Sequence[str]:
        link = dashboard(self._client)
        return (*self._roster.notes, *([f"Dask's dashboard: {link}"] if link else []), *self._losses)

    def run(self, tasks: Sequence[FleetTask], place: Place, on_result: OnResult) -> None:
        self._tasks, self._place, self._on_result = tasks, place, on_result
        self._units = _units(tasks)
        self._tries: dict[int, list[str]] = {}
        self._hopeless: set[int] = set()
        self._open = set(range(len(tasks)))
        self._shown = CrewProgress(self._progress, len(tasks), dashboard(self._client))
        self._client.subscribe_topic(self._token, self._shown.hear)
        try:
            self._loop()
        finally:
            with suppress(Exception):
                self._client.unsubscribe_topic(self._token)

    def _loop(self) -> None:
        looked = alone_since = time.monotonic()
        while self._open:
            for station in self._roster.stations:
                self._shown.joined(station.address, station.member.where)
                self._feed(station)
            with suppress(queue.Empty):
                self._take(*self._ended.get(timeout=LOOK_EVERY_S))
            now = time.monotonic()
            if now - looked >= LOOK_EVERY_S:
                looked = now
                for station in self._roster.look():
                    self._lose(station, f"the worker {station.member.where.worker} was lost")
                present = {station.member.where.uuid for station in self._roster.stations}
                for unit in self._units:
                    # Any worker takes a unit whose preferred GPU is gone: the caller redoes all of such a unit.
                    if unit.prefers and present and not unit.prefers & present:
                        unit.prefers = frozenset()
            alone_since = now if self._roster.stations else alone_since
            if now - alone_since > NOBODY_S:
                raise EnvironmentLacking(
                    f"no worker is left: {'; '.join((*self._losses, *self._roster.notes))}",
                    "start workers again, then add --resume to the same command",
                )

    def _feed(self, station: Station) -> None:
        """Send tasks of the station's unit, or of the next one that it may take."""
        while len(station.sent) < DEPTH:
            if station.unit is None or not station.unit.waiting:
                # Too few units are left for any to queue behind another.
                scarce = len(self._units) <= len(self._roster.stations)
                if station.sent and station.unit and len(station.unit.all) > 1 and scarce:
                    return  # a soon idle worker takes it
                uuid = station.member.where.uuid
                fitting = (unit for unit in self._units if not unit.prefers or uuid in unit.prefers)
                station.unit = next(fitting, None)
                if station.unit is None:
                    return
                self._units.remove(station.unit)
            number = station.unit.waiting[0]
            if station.sent and (number in self._tries or self._tries.keys() & station.sent.keys()):
                return  # a task whose worker was lost runs alone: if that worker is lost too, the task is to blame
            station.unit.waiting.popleft()
            task = self._tasks[number]
            # Not pure: else Dask merges two tasks with equal arguments, and gives both the same result. No
            # retries: `_lose` decides where a lost task runs again, and keeps its unit on one GPU.
            future = self._client.submit(
                worker.perform,
                self._token,
                number,
                task.name,
                task.given,
                workers=[station.address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
            station.sent[number] = (future, station.unit)
            fetch = partial(self._fetch, future, station, number)
            future.add_done_callback(lambda _, fetch=fetch: threading.Thread(target=fetch, daemon=True).start())

    def _fetch(self, future: Any, station: Station, number: int) -> None:
        """Pass on a worker's finished result, or the error of fetching it.

        This waits in its own thread, and without a limit: Dask cancels a fetch that runs into one, and with it
        those that have joined it. If the worker goes away meanwhile, `_lose` cancels the task, which ends the wait.
        """
        try:
            outcome = future.result()
        except BaseException as error:  # whatever the task ended with; CancelledError is no Exception
            outcome = error
        self._ended.put((future, station, number, outcome))

    def _take(self, future: Any, station: Station, number: int, outcome: Returned | BaseException) -> None:
        """Hand a result over; a task whose worker went away meanwhile was already taken back."""
        sent = station.sent.get(number)
        if sent is None or sent[0] is not future or future.status in GONE:
            return
        if isinstance(outcome, BaseException):
            import distributed

            died = isinstance(outcome, (distributed.KilledWorker, distributed.CancelledError, CancelledError))
            if not died and station.address in self._client.nthreads():  # it ended by itself
                raise InternalError(f"{self._tasks[number].name}: {outcome!r}", "") from outcome
            self._lose(station, f"the worker {station.member.where.worker} was lost")
            return
        future.release()
        if outcome.unfit:
            self._roster.retire(station, outcome.unfit)
            self._lose(station, f"the worker {station.member.where.worker} is not used any more: {outcome.unfit}")
            return
        del station.sent[number]
        self._hand_over(number, station, outcome)

    def _hand_over(self, number: int, station: Station, returned: Returned) -> None:
        with self._place(self._tasks[number]) as folder:
            result = returned.left_in(folder, station.member.where)
            self._on_result(number, result, folder)
        self._open.discard(number)
        self._shown.finished(station.address, len(self._open), failed=result.error is not None)

    def _lose(self, station: Station, why: str) -> None:
        """Requeue a worker's tasks: for a unit of several tasks all of them, so that they stay on one GPU."""
        self._roster.drop(station)
        self._shown.lost(station.address)
        candidates = list(station.sent)
        units = {id(unit): unit for _, unit in station.sent.values()}
        if station.unit is not None and station.unit.waiting:
            units[id(station.unit)] = station.unit
        for future, _ in station.sent.values():
            with suppress(Exception):
                future.cancel()
        station.sent.clear()
        station.unit = None
        self._blame(candidates, station, why)
        for unit in units.values():
            again = [number for number in unit.all if number not in self._hopeless]
            if len(unit.all) == 1:
                again = [number for number in again if number in self._open]
            self._open.update(again)
            if again:
                self._units.appendleft(Unit(again, unit.prefers))

    def _blame(self, candidates: Sequence[int], station: Station, why: str) -> None:
        """Note which tasks restart. A worker's only task may have killed it: after MOST_TRIES it is given up."""
        running = self._shown.running.get(station.address)
        named = [running] if running in candidates else candidates
        self._losses += [
            f"{self._tasks[number].name} was started again: {why}." for number in named if number is not None
        ]
        for number in candidates:
            self._tries.setdefault(number, []).append(station.member.where.worker)
        if len(candidates) == 1 and len(self._tries[candidates[0]]) >= MOST_TRIES:
            self._give_up(candidates[0])

    def _give_up(self, number: int) -> None:
        """Report a task that kills workers as failed."""
        tried = self._tries[number]
        self._hopeless.add(number)
        self._open.discard(number)
        error = ProgramFailed(f"{len(tried)} workers ended while they ran it: {', '.join(tried)}", NO_WORKERS)
        with self._place(self._tasks[number]) as folder:
            self._on_result(number, FleetResult(error=error), folder)


def _units(tasks: Sequence[FleetTask]) -> deque[Unit]:
    """Return the units, the heaviest first."""
    members: dict[str, list[int]] = {}
    for number, task in enumerate(tasks):
        members.setdefault(task.unit or f"\0{number}", []).append(number)
    # The heaviest first: only light ones remain at the end, so that no worker waits long for the last one.
    weights = {name: sum(tasks[number].weight for number in numbers) for name, numbers in members.items()}
    ordered = sorted(members.items(), key=lambda item: -weights[item[0]])
    return deque(Unit(numbers, tasks[numbers[0]].prefers) for _, numbers in ordered)
