"""A file of launches, profiled: whatever ends it, what is finished is there, and the same command goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import BadFile, Interrupted, NotWritable, TimeLimit
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.run_program import LaunchesJob, RunOptions
from ncu_swizzle.engines.replay import ChosenLaunches
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.comparison import JobResult
from ncu_swizzle.reports.options import Destination
from tests.support.captures import recorded
from tests.support.marks import NEEDS_ALL

FILE = recorded("shapes")  # six launches
pytestmark = NEEDS_ALL


def profiled(place: Path | None = None, **how: Any) -> JobResult:
    destination = Destination(place, how.pop("overwrite", False))
    return LaunchesJob(FILE, RunOptions(Request(jobs=1, **how), destination=destination)).profile()


@contextmanager
def emulating(patch: pytest.MonkeyPatch, *ends: BaseException | None) -> Iterator[list[int]]:
    """Let the first emulations end so, and the others as they do; yield the numbers of those that are begun."""
    begun: list[int] = []
    with patch.context() as context:
        emulate = ChosenLaunches.emulate

        def emulated(self: ChosenLaunches, number: int, *more: Any) -> Any:
            begun.append(number)
            end = ends[len(begun) - 1] if len(begun) <= len(ends) else None
            if end is not None:
                raise end
            return emulate(self, number, *more)

        context.setattr(ChosenLaunches, "emulate", emulated)
        yield begun


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.long
def test_launches_on_two_cores_are_what_they_are_on_one() -> None:
    both = [LaunchesJob(FILE, RunOptions(Request(jobs=jobs, no_cache=True))).profile() for jobs in (1, 2)]
    first, second = (run_folder.load(each.folder or Path()).subjects for each in both)
    assert [replace(each, when="") for each in first] == [replace(each, when="") for each in second]
    assert [each.verdict for each in both[0].comparisons] == [each.verdict for each in both[1].comparisons]


def test_the_same_command_goes_on_where_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulating(monkeypatch, None, None, KeyboardInterrupt()), pytest.raises(Interrupted) as caught:
        profiled()
    assert "2 of 6 launches are saved in swizzle-out/shapes" in str(caught.value)
    page = Path("swizzle-out/shapes/report.html").read_text(encoding="utf-8")
    assert "4 of 6 launches are missing: 2 strided, 3 strided" in page
    shown = run_kernel.reopen(["swizzle-out/shapes"])
    assert len(shown.comparisons) == 2
    assert shown.notes[-1].startswith("2 of 6 launches: the run was not finished")
    with emulating(monkeypatch) as begun:
        result = profiled()
    assert begun == [2, 3, 4, 5]
    assert result.folder == Path("swizzle-out/shapes")
    with emulating(monkeypatch) as begun:
        whole = profiled()
    assert whole.folder == Path("swizzle-out/shapes-2"), "what is finished is not gone on with"
    first, second = (run_folder.load(each.folder or Path()).subjects for each in (result, whole))
    assert [replace(each, when="") for each in first] == [replace(each, when="") for each in second]


def test_what_a_kill_leaves_is_shown_and_gone_on_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "run"
    with emulating(monkeypatch, None, None, None, SystemExit(9)), pytest.raises(SystemExit):
        profiled(place)  # which leaves what SIGKILL leaves: the profiles, and a manifest
    assert not (place / "report.html").exists()
    assert len(run_folder.load(place).subjects) == 3
    next(place.glob("001-*.json")).write_bytes(b"{}")  # a crash of the machine
    with pytest.raises(NotWritable, match="already holds"):
        profiled(place, exhaustive=True)
    with emulating(monkeypatch) as begun:
        assert len(profiled(place).comparisons) == 6
    assert begun == [1, 3, 4, 5]
    assert run_folder.load(place).notes == ()


def test_what_fails_is_named_and_the_others_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    late = TimeLimit("still running after 30 s on the CPU", "raise the limit with --budget SECONDS")
    with emulating(monkeypatch, late):
        result = LaunchesJob(FILE, RunOptions(Request(jobs=1))).profile(lambda name, done: said.append(done.aside))
    assert len(result.comparisons) == 5
    assert "Launch 0 exchange was not emulated: still running after 30 s on the CPU; raise" in result.notes[-1]
    assert said[1] == "0 exchange: unknown: still running after 30 s on the CPU"
    assert len([row for row in said if row]) == 6
    with emulating(monkeypatch, *[late] * 6), pytest.raises(TimeLimit):
        profiled()
    assert not Path("swizzle-out/shapes-2").exists(), "nothing is left of a run without a launch"


def test_one_command_at_a_time_fills_a_folder(tmp_path: Path) -> None:
    with run_folder.held(tmp_path / "run"), pytest.raises(NotWritable, match="another command is writing"):
        profiled(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    filled = run_folder.filled("shapes", Destination(tmp_path / "empty"), "digest", 6)
    with filled as folder, pytest.raises(BadFile, match="no launch"):
        run_folder.load(folder)
