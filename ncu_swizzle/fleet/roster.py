"""The workers that are fit for a job: examined when they appear, dropped when they are gone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.files import brief, read_bytes
from ncu_swizzle.fleet import worker_side
from ncu_swizzle.fleet.identity import identity
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.fleet.tasks import FleetJob, Member
from ncu_swizzle.fleet.worker_side import Examined

FIRST_S = 60.0  # how long to wait for the first worker
PAUSE_S = 0.1
FORGOTTEN_S = 10.0  # after which another worker may have the address of one that is gone


@dataclass
class Station:
    """One worker as seen from here: its address, what it was sent, and the unit that it works on."""

    address: str
    member: Member
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
        """Examine all workers that there are; raise EnvironmentLacking if none is fit."""
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
        known = {station.address for station in self.stations} | self._refused.keys() | self._gone.keys()
        if fresh := [address for address in present if address not in known]:
            self._examine(fresh, present)
        for address in self._refused.keys() - present.keys():
            del self._refused[address]
        return gone

    def drop(self, station: Station) -> None:
        """Forget a worker; for a while the scheduler may still list it."""
        self._gone[station.address] = time.monotonic()
        if station in self.stations:
            self.stations.remove(station)

    def retire(self, station: Station, why: str) -> None:
        """Use a worker no more, though it is still there."""
        self._refused[station.address] = f"the worker {station.member.name} is not used: {why}"

    def _examine(self, fresh: list[str], threads: dict[str, int]) -> None:
        # A worker that lacks this version may fail in any way.
        answers = self._client.run(
            worker_side.examine, self._token, self._job, self._wanted, workers=fresh, on_error="return"
        )
        names = self._names()
        for address, answer in sorted(answers.items()):
            name = names.get(address, address)
            if why := self._unfit(name, answer):
                self._refused[address] = why
                continue
            if answer.lacks:
                self._send(address, answer)
            uuid, model = answer.gpus[0] if answer.gpus else ("", "")
            member = Member(answer.facts, name, answer.host, model, uuid, threads.get(address, 1), answer.pid)
            self.stations.append(Station(address, member))

    def _names(self) -> dict[str, str]:
        known = self._client.scheduler_info(n_workers=-1).get("workers", {})
        return {address: str(worker.get("name", address)) for address, worker in known.items()}

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
        taken = next((station.member.name for station in self.stations if station.member.uuid == uuid), "")
        return f"the worker {name} is not used: it shares a GPU with {taken}" if taken else ""

    def _send(self, address: str, answer: Examined) -> None:
        """Send a worker the files of the job: all of them, as they include each other by relative paths."""
        contents = {path: read_bytes(Path(path)) for path in self._wanted}
        assert answer.lacks
        self._client.run(worker_side.receive, self._token, contents, workers=[address])
