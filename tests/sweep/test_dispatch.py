"""Which worker is sent what, with a stand-in for Dask's client."""

from asyncio import CancelledError
from collections.abc import Sequence
from typing import Any

import pytest

from ncu_swizzle.base.errors import InternalError
from ncu_swizzle.engines.settings import silent
from ncu_swizzle.sweep.cluster import Station
from ncu_swizzle.sweep.crew import ManyWorkers
from ncu_swizzle.sweep.worker import CrewMember, FleetTask, Returned, Whereabouts
from tests.support.fleets import Collected, needs_fleet

pytestmark = needs_fleet
distributed = pytest.importorskip("distributed")


class FakeFuture:
    """A task that is done once somebody says so; a fetch fails with one of `failures` each."""

    def __init__(self, number: int, failures: list[BaseException]) -> None:
        self.number, self.status = number, "pending"
        self.failures = failures
        self.done: Any = None

    def add_done_callback(self, call: Any) -> None:
        self.done = call

    def result(self) -> Returned:
        if self.failures:
            raise self.failures.pop(0)
        return Returned(value=self.number, files={})

    def release(self) -> None:
        self.status = "released"

    def cancel(self) -> None:
        self.status = "cancelled"


class FakeClient:
    """Notes what is sent where, and ends tasks in the order in which a worker got them."""

    def __init__(self, *failures: BaseException) -> None:
        self.sent: list[tuple[str, int]] = []
        self.failures = list(failures)
        self.waiting: list[FakeFuture] = []
        self.most = 0

    def submit(self, _work: Any, _token: str, number: int, *_rest: Any, workers: list[str], **_how: Any) -> FakeFuture:
        self.sent.append((workers[0], number))
        self.waiting.append(FakeFuture(number, self.failures if number == 0 else []))
        self.most = max(self.most, len(self.waiting))
        return self.waiting[-1]

    def end_one(self) -> None:
        if self.waiting:
            future = self.waiting.pop(0)
            future.status = "finished"
            future.done(future)

    def nthreads(self) -> dict[str, int]:
        return {"a": 2, "b": 2}

    cluster = None

    def scheduler_info(self, **_how: Any) -> dict[str, Any]:
        return {}

    def subscribe_topic(self, *_rest: Any) -> None: ...

    def unsubscribe_topic(self, *_rest: Any) -> None: ...


def station(address: str) -> Station:
    return Station(address=address, member=CrewMember(None, Whereabouts(worker=address)))


class FakeRoster:
    notes: tuple[str, ...] = ()

    def __init__(self, client: FakeClient, *addresses: str) -> None:
        self.stations = [*map(station, addresses)]
        self.client = client

    def look(self) -> list[Station]:
        return []

    def drop(self, _station: Station) -> None:
        """Take a worker's successor for it, as if it had been started again at once."""
        self.stations = [station("again")]


def done(client: FakeClient, tasks: Sequence[FleetTask], collected: Collected, *addresses: str) -> list[int]:
    """Run tasks on workers; return the numbers in the order in which they were sent."""
    roster = FakeRoster(client, *addresses)
    workers = ManyWorkers(client, "token", roster, silent)  # type: ignore[arg-type]
    feed = workers._feed

    def fed(station: Station) -> None:
        feed(station)
        if station is roster.stations[-1]:
            client.end_one()

    workers._feed = fed  # type: ignore[method-assign]

    workers.run(tasks, collected.place, collected.take)
    return [number for _, number in client.sent]


@pytest.mark.parametrize("failure", [CancelledError, distributed.KilledWorker, distributed.CancelledError])
def test_a_result_that_is_lost_with_its_worker_is_computed_again(
    failure: type[BaseException], collected: Collected
) -> None:
    error = failure("one", None, 3) if failure is distributed.KilledWorker else failure()
    client = FakeClient(error)
    done(client, [FleetTask("one", 1), FleetTask("two", 2)], collected, "a")
    assert {number: result.value for number, result in collected.results.items()} == {0: 0, 1: 1}
    assert set(collected.times.values()) == {1}


def test_an_error_of_the_task_itself_is_ours(collected: Collected) -> None:
    with pytest.raises(InternalError, match="one: UnboundLocalError"):
        done(FakeClient(UnboundLocalError()), [FleetTask("one", 1)], collected, "a")


def test_the_next_pair_is_sent_before_a_worker_is_idle_unless_few_are_left(collected: Collected) -> None:
    tasks = [FleetTask(f"{unit}{n}", n, unit, weight=-number)
             for number, unit in enumerate("abcd") for n in range(2)]  # fmt: skip
    client = FakeClient()
    assert done(client, tasks, collected, "a") == list(range(8))
    assert client.most == 2, "a worker always knows of its next point"
    assert set(collected.times.values()) == {1}


def test_the_last_pairs_go_to_whoever_is_idle(collected: Collected) -> None:
    tasks = [FleetTask(f"{unit}{n}", n, unit) for unit in "abc" for n in range(2)]
    client = FakeClient()
    done(client, tasks, collected, "a", "b")
    where = {number: address for address, number in client.sent}
    assert all(where[first] == where[first + 1] for first in (0, 2, 4)), "a pair stays on one worker"
    assert len(client.sent) == 6
