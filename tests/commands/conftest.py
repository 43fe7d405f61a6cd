"""Fixtures of the tests of commands."""

import dataclasses
import os
import shutil
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.commands import run_program
from ncu_swizzle.reports.model import Profile
from tests.support import captures, fake_ncu, own_kernel, writers
from tests.support.hostile import NAME, VALID, poisoned
from tests.support.own_kernel import EXAMPLE, LAUNCHABLE, own
from tests.support.places import DATA
from tests.support.process import Command, Typed
from tests.support.recordings import Recorded
from tests.support.reports import LAUNCHED, join


@pytest.fixture
def files(tmp_path: Path, recorded_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with old.ncu-rep and new.ncu-rep, of several kernels each, and go there."""
    monkeypatch.chdir(tmp_path)
    old = ("transpose-plain", "transpose-xor")
    names = {"old": old, "new": (*reversed(old), "vectors-16-stride")}
    for name, parts in names.items():
        (tmp_path / f"{name}.ncu-rep").write_bytes(join([recorded_file(part) for part in parts]))
    return tmp_path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def pair(recorded: Recorded) -> tuple[Profile, ...]:
    """Return two small profiles."""
    return writers.pair_of(recorded)


@pytest.fixture(scope="module")
def inputs(recorded: Recorded) -> dict[str, tuple[Any, writers.Made]]:
    """Return every kind of value that is shown, with what makes its writers."""
    return writers.inputs(recorded)


@pytest.fixture
def hostile_profile(recorded: Recorded, tmp_path: Path) -> Path:
    """Return a saved profile with hostile text in every field but the engine, in a file with a hostile name."""
    good = writers.small(recorded("transpose-plain"))
    made = poisoned(good, lambda text: f"{text}{VALID}")
    profile = dataclasses.replace(made, engine=good.engine, metrics={**made.metrics, **good.metrics})
    file = tmp_path / f"{NAME}.json"
    profile.save(file)
    return file


@pytest.fixture
def odd(tmp_path: Path, recorded_file: Callable[[str], Path]) -> Path:
    """Return a folder with such a name, with a report, its facts and a source."""
    folder = tmp_path / os.fsdecode(b"d\xff\xe9")
    folder.mkdir()
    report = recorded_file("kernel2")
    for file in (report, report.with_suffix(".facts.json")):
        shutil.copy(file, folder / file.name.replace("kernel2", os.fsdecode(b"k\xff")))
    shutil.copy(EXAMPLE / "my.cu", folder / os.fsdecode(b"m\xff.cu"))
    return folder


@pytest.fixture
def launchable(work: Path) -> Path:
    """Return a folder with sources whose launch nothing describes."""
    for name, text in LAUNCHABLE.items():
        (work / name).write_text(text)
    return work


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory, recorded_file: Callable[[str], Path]) -> Path:
    """Return a report with four launches of three kernels."""
    file = tmp_path_factory.mktemp("reports") / "several.ncu-rep"
    file.write_bytes(join([recorded_file(name) for name in LAUNCHED]))
    return file


@pytest.fixture
def app(work: Path) -> Path:
    """Put ``./app`` into the folder: it says where it runs and what it was given, and fails if told to."""
    program = work / "app"
    program.write_text('#!/bin/sh\necho "in $PWD with $*"\necho done >&2\nexit ${STATUS:-0}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return work


@pytest.fixture
def typed(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Return a function that runs a command line in an empty folder, in this process."""
    return Typed(work, monkeypatch, capsys)


@pytest.fixture
def fake(tmp_path: Path, several: Path) -> dict[str, str]:
    """Return the environment in which `ncu` on PATH is a stand-in; the scenario is that of FAKE_NCU."""
    program = fake_ncu.install(tmp_path / "bin" / "ncu")
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "FAKE_NCU_REPORT": str(several)}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command line in a folder of own kernels, in this process."""
    own_kernel.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    there = Typed(tmp_path, monkeypatch, capsys)
    return lambda *words: there("", *words, COLUMNS="200")


@pytest.fixture
def launches_files(command: Command, tmp_path: Path) -> None:
    """Put recorded launches into the folder of `command`."""
    assert command is not None
    for name in ("graph", "counting", "driver"):
        shutil.copy(captures.recorded(name), tmp_path)
    content = captures.recorded("graph").read_bytes()
    (tmp_path / "cut.launches").write_bytes(content[: len(content) // 2])


@pytest.fixture
def bare_launches(tmp_path: Path) -> None:
    """Put launches without memory into the folder."""
    captures.changed(captures.recorded("counting"), tmp_path / "bare.launches", captures.forget)


@pytest.fixture
def fake_program(fake: dict[str, str]) -> dict[str, str]:
    """Return the environment in which ncu leaves a report of several launches, whatever the program."""
    return {**fake, "FAKE_NCU": "program"}


@pytest.fixture
def fewer_launches(work: Path, recorded_file: Callable[[str], Path]) -> None:
    """Put a report of three launches into the folder."""
    names = ("transpose-xor", "transpose-plain", "gemm-plain")
    (work / "fewer.ncu-rep").write_bytes(join([recorded_file(name) for name in names]))


@pytest.fixture
def many_launches(work: Path, recorded_file: Callable[[str], Path]) -> None:
    """Put a report of as many launches as are profiled into the folder."""
    (work / "many.ncu-rep").write_bytes(join([recorded_file("tma-32")] * run_program.MOST_LAUNCHES))


@pytest.fixture
def damaged_files(work: Path, report_file: Path) -> Path:
    """Return a folder with a report and a profile that were cut off, and with files that are neither."""
    (work / "cut.ncu-rep").write_bytes(report_file.read_bytes()[:-100])
    (work / "foreign.ncu-rep").write_bytes(b"PK\3\4")
    (work / "cut.json").write_text('{"schema": 1, "dig', encoding="utf-8")
    (work / "foreign.json").write_text("[]", encoding="utf-8")
    return work


@pytest.fixture
def own_source(work: Path) -> Path:
    """Return a folder with the example's source alone."""
    return own(work).parent


@pytest.fixture
def odd_folder(work: Path) -> Path:
    """Return a folder with the example's source in one whose name has a space."""
    own(work / "a dir")
    return work


@pytest.fixture
def own_project(work: Path) -> Path:
    """Return the folder of the example project, copied."""
    shutil.copytree(EXAMPLE, work, dirs_exist_ok=True)
    return work


@pytest.fixture
def strided(work: Path) -> Path:
    """Return a folder with a kernel that takes a struct, and with the bytes of two such structs."""
    shutil.copy(DATA / "sources" / "strided.cu", work)
    for name, stride in (("one", 1), ("eight", 8)):
        (work / f"{name}.bin").write_bytes(struct.pack("<iid", stride, 1, 1.0))
    return work
