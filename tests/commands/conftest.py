"""Fixtures of the tests of commands."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ncu_swizzle.reports.model import Profile
from tests.support import captures, fake_ncu
from tests.support.hostile import NAME, VALID, poisoned
from tests.support.own_kernel import EXAMPLE, LAUNCHABLE
from tests.support.process import Typed
from tests.support.recordings import Recorded
from tests.support.reports import LAUNCHED, join

if TYPE_CHECKING:
    from tests.support.writers import Made


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
    from tests.support import writers

    return writers.pair_of(recorded)


@pytest.fixture(scope="module")
def inputs(recorded: Recorded) -> dict[str, tuple[Any, Made]]:
    """Return every kind of value that is shown, with what makes its writers."""
    from tests.support import writers

    return writers.inputs(recorded)


@pytest.fixture
def hostile_profile(recorded: Recorded, tmp_path: Path) -> Path:
    """Return a saved profile with hostile text in every field but the engine, in a file with a hostile name."""
    from tests.support import writers

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
    """Return the environment in which `ncu` on PATH leaves a report of several launches; FAKE_NCU is the scenario."""
    program = fake_ncu.install(tmp_path / "bin" / "ncu")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "FAKE_NCU_REPORT": str(several), "FAKE_NCU": "program"}


@pytest.fixture
def reports(work: Path, recorded_file: Callable[[str], Path]) -> None:
    """Put a report of three launches into the folder, and one of as many as are profiled."""
    from ncu_swizzle.commands import run_program

    fewer = ("transpose-xor", "transpose-plain", "gemm-plain")
    for name, launched in {"fewer": fewer, "many": ["tma-32"] * run_program.MOST_LAUNCHES}.items():
        (work / f"{name}.ncu-rep").write_bytes(join([recorded_file(kernel) for kernel in launched]))


@pytest.fixture
def bare_launches(tmp_path: Path) -> None:
    """Put launches without memory into the folder."""
    captures.changed(captures.recorded("counting"), tmp_path / "bare.launches", captures.forget)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a disk of 64 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
