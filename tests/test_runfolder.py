"""A run is whole or not there, and no earlier one is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle import runfolder
from ncu_swizzle.errors import BadFile, DamagedFile, NotWritable
from ncu_swizzle.profile import Profile

Recorded = Callable[[str], Profile]


def make(folder: Path, recorded: Recorded) -> None:
    for name in ("kernel1", "kernel2"):
        recorded(name).save(folder / f"{name}.json")
    runfolder.finish(folder, "kernel2", ["kernel1.json", "kernel2.json"])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_loads_back(recorded: Recorded) -> None:
    with runfolder.staging(Path("out")) as staged:
        make(staged, recorded)
        place = runfolder.publish(staged, "kernel2", Path("out"), overwrite=False)
    run = runfolder.load(place)
    assert run.profiles == (recorded("kernel1"), recorded("kernel2"))
    assert run.subjects == (recorded("kernel2"),)


def test_runs_are_numbered_and_none_is_lost(recorded: Recorded) -> None:
    places = []
    for _ in range(3):
        with runfolder.staging(runfolder.DEFAULT / "kernel2") as staged:
            make(staged, recorded)
            places.append(runfolder.publish(staged, "kernel2", None, overwrite=False))
    assert [place.name for place in places] == ["kernel2", "kernel2-2", "kernel2-3"]
    assert sorted(place.name for place in runfolder.DEFAULT.iterdir()) == ["kernel2", "kernel2-2", "kernel2-3"]
    assert all(runfolder.load(place).kernel == "kernel2" for place in places)


def test_an_interrupted_run_leaves_nothing(recorded: Recorded) -> None:
    def interrupted() -> None:
        with runfolder.staging(Path("deep/down/out")) as staged:
            make(staged, recorded)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(Path().iterdir()) == []


def test_a_named_folder_is_overwritten_only_on_demand(recorded: Recorded) -> None:
    def write(overwrite: bool) -> None:
        with runfolder.staging(Path("out")) as staged:
            make(staged, recorded)
            runfolder.publish(staged, "kernel2", Path("out"), overwrite)

    write(False)
    Path("out/notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NotWritable, match=r"out already holds kernel1\.json"):
        write(False)
    write(True)
    assert Path("out/notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_place_that_cannot_be_written_is_named() -> None:
    Path("file").write_text("", encoding="utf-8")
    with pytest.raises(NotWritable, match="cannot write to file"), runfolder.staging(Path("file/out")):
        pass


def test_what_is_no_run_is_named() -> None:
    Path("empty").mkdir()
    with pytest.raises(BadFile, match="is not the folder of a run"):
        runfolder.load(Path("empty"))
    Path("empty/run.json").write_text('{"kernel": 3', encoding="utf-8")
    with pytest.raises(DamagedFile, match="is not whole"):
        runfolder.load(Path("empty"))
    runfolder.finish(Path("empty"), "kernel2", ["kernel2.json"])
    with pytest.raises(BadFile, match=r"kernel2\.json does not exist"):
        runfolder.load(Path("empty"))
