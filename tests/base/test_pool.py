"""Work spread over processes: outcomes, workers that are killed, a command that is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import pool
from ncu_swizzle.base.errors import EnvironmentLacking, ProgramFailed, TimeLimit
from tests.base.work import work
from tests.support.places import ROOT

ITEMS = ["a", "killed", "late", "memory", "b"]
MAIN = "from tests.base.work import work; from ncu_swizzle.base import pool; {}"
LONG = "list(pool.outcomes(work, 'did', ['a', 'long', 'long'], 2, lambda *said: print(*said, flush=True)))"


def test_whatever_becomes_of_an_item_the_others_are_done() -> None:
    heard: list[Any] = []
    found = dict(pool.outcomes(work, "did", ITEMS, 2, lambda *said: heard.append(said)))
    assert [found[0].value, found[4].value] == ["did a", "did b"]
    killed, late, memory = (found[number].error for number in (1, 2, 3))
    assert isinstance(killed, ProgramFailed)
    assert "killed by SIGKILL" in str(killed)
    assert "--jobs 1" in killed.hint
    assert (type(late), str(late), late and late.hint) == (
        TimeLimit,
        "late took longer than 30 s",
        "raise it: --budget 60",
    )
    assert isinstance(memory, EnvironmentLacking)
    assert {what for what, _ in heard} == set(ITEMS)


def test_outcomes_are_the_same_for_any_number_of_processes() -> None:
    items = ["a", "late", "b"]
    several, alone = (list(pool.in_order(pool.outcomes(work, "did", items, jobs))) for jobs in (3, 1))
    assert [(each.value, str(each.error)) for each in several] == [(each.value, str(each.error)) for each in alone]


def test_a_bug_of_the_work_is_raised_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: of the work") as caught:
        list(pool.outcomes(work, "did", ["a", "bug"], 2))
    assert "in work" in caught.value.__notes__[0]


def test_one_nursery_serves_a_block_and_ends_with_it() -> None:
    asked = "[set(outcome.value for _, outcome in pool.outcomes(work, did, ['pid', 'pid'], 2)) for did in ('a', 'b')]"
    program = f"""
from tests.base.test_pool import below
from tests.base.work import work
from ncu_swizzle.base import pool
import os
with pool.ahead(("tests.base.work",), 2):
    before = below(os.getpid())
    first, second = {asked}
    assert len(before) == 1 and below(os.getpid()) & before == before, "the same nursery"
    assert {{each.split()[0] for each in first | second}} == {{"a", "b"}}, "each with its own common value"
    assert {{each.split()[1] for each in first | second}} == {{str(*before)}}, "its workers"
assert not below(os.getpid())
with pool.ahead(("tests.base.work",), 2):
    pass
assert not below(os.getpid())
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_what_is_done_meanwhile_is_done_while_the_workers_are_busy(tmp_path: Path) -> None:
    there, parts = tmp_path / "there", iter([True, True, False])
    calls: list[bool] = []

    def meanwhile() -> bool:
        calls.append(more := next(parts, False))
        if not more:
            there.touch()
        return more

    found = list(pool.outcomes(work, "did", [str(there), "b"], 2, meanwhile=meanwhile))
    assert {outcome.value for _, outcome in found} == {f"did {there}", "did b"}
    assert 3 <= len(calls) <= 5, "what has no more to do is asked again after an outcome only"
    assert len(list(pool.outcomes(work, "did", ["a"], 2, meanwhile=meanwhile))) == 1
    assert len(calls) <= 5, "in this process there is nothing to wait for"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_the_command(end: signal.Signals) -> None:
    command = [sys.executable, "-c", MAIN.format(LONG)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdout is not None
        while "long" not in started.stdout.readline():
            pass
        group = below(started.pid)
        assert len(group) >= 2, "the nursery, and a worker"
        os.kill(started.pid, end)
        started.wait()
    while any(map(runs, group)):
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Return whether a process runs: one that ended may have to wait for somebody to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def below(pid: int) -> set[int]:
    """Return the processes that a process has started, and those below them."""
    own = {
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    }
    return own.union(*map(below, own))


def test_the_default_follows_cores_memory_and_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(pool.VARIABLE)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    monkeypatch.setattr(pool, "GROUPS", tmp_path)
    monkeypatch.setattr(pool, "free_bytes", lambda: 1 << 40)
    assert pool.jobs_for(None) == 16
    assert pool.jobs_for(3) == 3
    (tmp_path / "cpu.max").write_text("400000 100000\n", encoding="ascii")
    assert pool.jobs_for(None) == 4, "a container's quota"
    monkeypatch.setattr(pool, "free_bytes", lambda: 3 * pool.JOB_BYTES)
    assert pool.jobs_for(None) == 3
    monkeypatch.setattr(pool, "free_bytes", lambda: 0)
    assert pool.jobs_for(None) == 1
    monkeypatch.setenv(pool.VARIABLE, "2")
    assert pool.jobs_for(None) == 2
