"""A run is whole or not there, and no earlier one is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, NotWritable
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.options import Destination
from tests.support.recordings import Recorded

pytestmark = pytest.mark.usefixtures("elsewhere")


def make(folder: Path, recorded: Recorded) -> None:
    for name in ("kernel1", "kernel2"):
        recorded(name).save(folder / f"{name}.json")
    run_folder.finish(folder, "kernel2", ["kernel1.json", "kernel2.json"])


def test_a_run_loads_back(recorded: Recorded) -> None:
    with run_folder.staging(Path("out")) as staged:
        make(staged, recorded)
        place = run_folder.publish(staged, "kernel2", Destination(Path("out")))
    run = run_folder.load(place)
    assert run.profiles == (recorded("kernel1"), recorded("kernel2"))
    assert run.subjects == (recorded("kernel2"),)


def test_runs_are_numbered_and_none_is_lost(recorded: Recorded) -> None:
    places = []
    for _ in range(3):
        with run_folder.staging(run_folder.DEFAULT / "kernel2") as staged:
            make(staged, recorded)
            places.append(run_folder.publish(staged, "kernel2", Destination()))
    assert [place.name for place in places] == ["kernel2", "kernel2-2", "kernel2-3"]
    assert sorted(place.name for place in run_folder.DEFAULT.iterdir()) == ["kernel2", "kernel2-2", "kernel2-3"]
    assert all(run_folder.load(place).kernel == "kernel2" for place in places)


def test_overwriting_replaces_the_last_run_of_the_name(recorded: Recorded) -> None:
    def write(overwrite: bool, *more: str) -> str:
        with run_folder.staging(run_folder.DEFAULT / "kernel2") as staged:
            make(staged, recorded)
            for name in more:
                recorded("kernel1").save(staged / name)
            run_folder.finish(staged, "kernel2", ["kernel1.json", "kernel2.json", *more])
            return run_folder.publish(staged, "kernel2", Destination(None, overwrite)).name

    assert write(True) == "kernel2", "there is none yet"
    assert [write(False), write(False, "third.json"), write(True)] == ["kernel2-2", "kernel2-3", "kernel2-3"]
    last = run_folder.DEFAULT / "kernel2-3"
    assert len(run_folder.load(last).profiles) == 2
    assert not (last / "third.json").exists()
    assert [write(True, "third.json"), write(False)] == ["kernel2-3", "kernel2-4"]
    (run_folder.DEFAULT / "kernel2-5").mkdir()
    (run_folder.DEFAULT / "kernel2-5" / "notes.txt").write_text("mine", encoding="utf-8")
    assert write(True) == "kernel2-6", "what is not a run is left alone"


def test_an_interrupted_run_leaves_nothing(recorded: Recorded) -> None:
    def interrupted() -> None:
        with run_folder.staging(Path("deep/down/out")) as staged:
            make(staged, recorded)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(Path().iterdir()) == []


def test_a_named_folder_is_overwritten_only_on_demand(recorded: Recorded) -> None:
    def write(overwrite: bool) -> None:
        with run_folder.staging(Path("out")) as staged:
            make(staged, recorded)
            run_folder.publish(staged, "kernel2", Destination(Path("out"), overwrite))

    write(False)
    Path("out/notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NotWritable, match=r"out already holds kernel1\.json"):
        write(False)
    write(True)
    assert Path("out/notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_place_that_cannot_be_written_is_named() -> None:
    Path("file").write_text("", encoding="utf-8")
    with pytest.raises(NotWritable, match="cannot write to file"), run_folder.staging(Path("file/out")):
        pass


def test_what_is_no_run_is_named() -> None:
    Path("empty").mkdir()
    with pytest.raises(BadFile, match="is not a run's folder"):
        run_folder.load(Path("empty"))
    Path("empty/run.json").write_text('{"kernel": 3', encoding="utf-8")
    with pytest.raises(DamagedFile, match="is damaged"):
        run_folder.load(Path("empty"))
    run_folder.finish(Path("empty"), "kernel2", ["kernel2.json"])
    with pytest.raises(BadFile, match=r"kernel2\.json does not exist"):
        run_folder.load(Path("empty"))
