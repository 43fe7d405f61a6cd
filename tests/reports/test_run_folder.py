"""A run is whole or not there, and no earlier one is lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, NotWritable
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.options import Destination
from tests.support.recordings import Recorded

pytestmark = pytest.mark.usefixtures("elsewhere")
Write = Callable[..., Path]
NAMES = ("transpose-plain", "transpose-xor")


@pytest.fixture
def write(recorded: Recorded) -> Write:
    """Return a function that writes a run of two profiles, and more, to a destination; it returns the folder."""

    def write_run(overwrite: bool = False, folder: Path | None = None, more: tuple[str, ...] = ()) -> Path:
        with run_folder.staging(folder or run_folder.DEFAULT / NAMES[1]) as staged:
            for name in NAMES:
                recorded(name).save(staged / f"{name}.json")
            for file in more:
                recorded(NAMES[0]).save(staged / file)
            run_folder.finish(staged, NAMES[1], [*(f"{name}.json" for name in NAMES), *more])
            return run_folder.publish(staged, NAMES[1], Destination(folder, overwrite))

    return write_run


def test_a_run_loads_back(write: Write, recorded: Recorded) -> None:
    run = run_folder.load(write(folder=Path("out")))
    assert run.profiles == tuple(recorded(name) for name in NAMES)
    assert run.subjects == (recorded(NAMES[1]),)


def test_a_profile_is_read_once_however_often_a_manifest_lists_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(folder=Path("out"))
    content = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps({**content, "profiles": content["profiles"] * 300}), encoding="utf-8")
    read: list[Path] = []
    load = run_folder.load_profile
    monkeypatch.setattr(run_folder, "load_profile", lambda file: read.append(file) or load(file))
    run_folder.load(folder)
    assert [file.stem for file in read] == [*NAMES]


def test_runs_are_numbered_and_the_last_of_a_name_is_overwritten_on_demand(write: Write) -> None:
    folders = run_folder.DEFAULT
    assert write(True).name == "transpose-xor", "there is none yet"
    assert [write().name, write(more=("third.json",)).name, write(True).name] == [
        "transpose-xor-2", "transpose-xor-3", "transpose-xor-3",
    ]  # fmt: skip
    last = folders / "transpose-xor-3"
    assert len(run_folder.load(last).profiles) == 2
    assert not (last / "third.json").exists()
    assert write().name == "transpose-xor-4"
    assert all(run_folder.load(folder).kernel == "transpose-xor" for folder in folders.iterdir()), "none is lost"
    (folders / "transpose-xor-5").mkdir()
    (folders / "transpose-xor-5" / "notes.txt").write_text("mine", encoding="utf-8")
    assert write(True).name == "transpose-xor-6", "what is not a run is left alone"


def test_a_named_folder_is_overwritten_only_on_demand(write: Write) -> None:
    write(folder=Path("out"))
    Path("out/notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NotWritable, match=r"out already holds .*transpose-plain\.json"):
        write(folder=Path("out"))
    write(True, Path("out"))
    assert Path("out/notes.txt").read_text(encoding="utf-8") == "mine"


def test_an_interrupted_run_leaves_nothing(recorded: Recorded) -> None:
    def interrupted() -> None:
        with run_folder.staging(Path("deep/down/out")) as staged:
            recorded(NAMES[0]).save(staged / "k.json")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named() -> None:
    Path("file").write_text("", encoding="utf-8")
    with pytest.raises(NotWritable, match="cannot write to file"), run_folder.staging(Path("file/out")):
        pass


def test_a_folder_that_is_not_a_run_and_a_manifest_that_makes_no_sense_are_refused(recorded: Recorded) -> None:
    folder, manifest = Path("run"), Path("run/run.json")
    folder.mkdir()
    with pytest.raises(BadFile, match="is not a run's folder"):
        run_folder.load(folder)
    run_folder.finish(folder, "kernel2", ["kernel2.json"])
    with pytest.raises(BadFile, match=r"kernel2\.json does not exist"):
        run_folder.load(folder)
    recorded("tma-128").save(folder / "k.json")
    for content, words in (
        ('{"kernel": 3', "is damaged"),
        ({"kernel": "kernel2", "profiles": []}, "lists no profiles"),
        ({"kernel": "kernel2", "profiles": ["../k.json"]}, "lists no profiles"),
        ({"kernel": "kernel2", "profiles": "k.json"}, "lists no profiles"),
        ({"kernel": ["kernel2"], "profiles": ["k.json"]}, "names no kernel"),
        ({"kernel": "kernel9", "profiles": ["k.json"]}, "none of its profiles is of 'kernel9'"),
        ([], "names no kernel"),
    ):
        manifest.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        with pytest.raises(DamagedFile, match=words):
            run_folder.load(folder)
