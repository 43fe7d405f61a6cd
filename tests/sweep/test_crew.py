"""A crew: this process, and two real workers of a cluster of its own, which are killed."""

import sys
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.engines.settings import FleetOptions
from ncu_swizzle.sweep.crew import crew
from ncu_swizzle.sweep.worker import FleetJob, FleetTask
from tests.support.fleets import Collected, examined, needs_fleet, worked

TWO = FleetOptions(workers="2")


def tasks(*numbers: int, unit: str = "") -> list[FleetTask]:
    return [FleetTask(f"task {number}", number, unit) for number in numbers]


@pytest.mark.parametrize(
    "options", [FleetOptions(), pytest.param(TWO, marks=[needs_fleet, pytest.mark.long])], ids=["alone", "two"]
)
def test_every_task_is_done_once(options: FleetOptions, notes: Path, collected: Collected) -> None:
    with crew(FleetJob(work=worked, common=notes, examine=examined), options) as workers:
        assert {member.facts["python"] for member in workers.members} == {"{}.{}".format(*sys.version_info)}
        workers.run(tasks(1, 2, 3, -1, 5, 6, 7, 8), collected.place, collected.take)
    assert [result.value[0] for n, result in sorted(collected.results.items()) if n != 3] == [1, 4, 9, 25, 36, 49, 64]
    assert set(collected.times.values()) == {1}
    failed = collected.results[3].error
    assert failed is not None
    assert (type(failed).__name__, str(failed), failed.hint) == (
        "ProgramFailed", "it is negative", "take a positive one"
    )  # fmt: skip
    assert all(files == ["square.txt"] for n, files in collected.files.items() if n != 3)
    pids = {result.value[1] for result in collected.results.values() if result.value}
    assert len(pids) == (2 if options.given else 1)
    if options.given:
        assert {result.where.worker for result in collected.results.values()} == {"worker-0", "worker-1"}


@needs_fleet
@pytest.mark.long
def test_a_killed_worker_loses_nothing(notes: Path, collected: Collected) -> None:
    with crew(FleetJob(work=worked, common=notes, examine=examined), TWO) as workers:
        workers.run(tasks(1, 2, -2, 4, 5, 6, 7, 8, 9, 10), collected.place, collected.take)
        said = workers.notes
    assert sorted(result.value[0] for result in collected.results.values()) == [1, 4, 4, 16, 25, 36, 49, 64, 81, 100]
    assert set(collected.times.values()) == {1}, "nothing is counted twice"
    assert any(note.startswith("task -2 was started again: the worker worker-") for note in said), said
    assert len((notes / "started--2").read_text().splitlines()) == 2


@needs_fleet
@pytest.mark.long
def test_a_unit_stays_together_and_moves_as_a_whole(notes: Path, collected: Collected) -> None:
    given = [*tasks(1, 2, -2, 3, unit="a"), *tasks(4, 5, 6, unit="b"), *tasks(7, 8, unit="c")]
    with crew(FleetJob(work=worked, common=notes, examine=examined), TWO) as workers:
        workers.run(given, collected.place, collected.take)
    pids = {n: result.value[1] for n, result in collected.results.items()}
    assert len(pids) == 9
    for unit in ((0, 1, 2, 3), (4, 5, 6), (7, 8)):
        assert len({pids[n] for n in unit}) == 1, pids
    assert collected.times[0] == 2, "what was done on the lost worker is done again on the other"


@needs_fleet
@pytest.mark.long
def test_a_task_that_workers_die_of_fails(notes: Path, collected: Collected) -> None:
    with crew(FleetJob(work=worked, common=notes, examine=examined), TWO) as workers:
        workers.run(tasks(1, -3, 3), collected.place, collected.take)
    assert [collected.results[n].value[0] for n in (0, 2)] == [1, 9]
    assert str(collected.results[1].error).startswith("3 workers ended while they ran it: worker-")


def test_nonsense_is_refused(notes: Path) -> None:
    job = FleetJob(work=worked, common=notes, examine=examined)
    for options, said in (
        (FleetOptions(workers="0"), "neither gpus nor 1 to 256"),
        (FleetOptions(workers="many"), "neither gpus nor 1 to 256"),
        (FleetOptions(workers="9" * 5000), "neither gpus nor 1 to 256"),
        (FleetOptions(workers="2", scheduler="tcp://x:1"), "exclude each other"),
        (FleetOptions(gpu="H200"), "there are none"),
    ):
        with pytest.raises(UsageError, match=said), crew(job, options):
            pass


@needs_fleet
@pytest.mark.long
def test_a_cluster_that_is_not_there_is_said(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ncu_swizzle.sweep import worker

    monkeypatch.setattr(worker, "JOIN_S", 1.0)
    job = FleetJob(work=worked, common=notes, examine=examined)
    for options in (FleetOptions(scheduler="tcp://127.0.0.1:9"), FleetOptions(scheduler="nonsense://x")):
        with pytest.raises((EnvironmentLacking, UsageError)), crew(job, options):
            pass
