"""Unfinished files go and others stay; C programs are built with the compiler that is there, once."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncu_swizzle.base import cache, files, native, unfinished
from ncu_swizzle.base.errors import EnvironmentLacking
from tests.support.marks import needs_cc

KEEPS_A_FILE_AND_A_FOLDER = """
import sys, time
from pathlib import Path
from ncu_swizzle.base import unfinished
from ncu_swizzle.reports import run_folder
here = Path(sys.argv[1])
unfinished.create(here, ".half.json")
with run_folder.staging(here / "out") as staged:
    (staged / "inside").mkdir()
    (staged / "inside" / "profile.json").write_text("half")
    print(staged, flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def writer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that has a file and a folder under way there."""
    command = [sys.executable, "-c", KEEPS_A_FILE_AND_A_FOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_living_process_uses_stays_and_what_a_killed_one_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with writer(tmp_path) as process:
        before = names(tmp_path)
        assert len(before) == 3, "a file, a folder and its lock"
        files.write_atomically(tmp_path / "new.json", b"{}")
        assert names(tmp_path) == sorted([*before, "new.json"])
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    unfinished._cleared.clear()
    files.write_atomically(tmp_path / "new.json", b"{}")
    assert names(tmp_path) == ["new.json"]


def test_a_lock_counts_and_not_the_process_in_the_name(tmp_path: Path) -> None:
    """In another PID namespace the owner's number is nobody's, or another process's."""
    path, handle = unfinished.create(tmp_path, ".x")
    gone = path.with_name(path.name.replace(f"-{os.getpid()}-", "-999999-"))
    path.rename(gone)
    unfinished._cleared.clear()
    unfinished.clear(tmp_path)
    assert gone.exists()
    os.close(handle)
    unfinished._cleared.clear()
    unfinished.clear(tmp_path)
    assert not gone.exists()


def abandoned(folder: Path, prefix: str = ".x", suffix: str = "") -> Path:
    path, handle = unfinished.create(folder, prefix, suffix)
    os.close(handle)
    unfinished._cleared.clear()
    return path


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    mine = [
        ".out.k3v2",
        ".out.abc.lock",
        "x.ncu-swizzle-1234",
        "ncu-swizzle-notes",
        ".a.ncu-swizzle-12345678-1-1234567",
    ]
    for name in mine:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".d.ncu-swizzle-12345678-1-12345678").mkdir()
    unfinished.clear(tmp_path)
    assert len(names(tmp_path)) == len(mine) + 1


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    work = tmp_path / "work"
    work.mkdir()
    name = abandoned(work)
    name.unlink()
    name.symlink_to(tmp_path / "precious" / "file")
    lock = abandoned(work, suffix=unfinished.FOLDER_LOCK)
    lock.with_suffix("").symlink_to(tmp_path / "precious", target_is_directory=True)
    unfinished.clear(work)
    assert (tmp_path / "precious" / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_other_users_stay(tmp_path: Path) -> None:
    path = abandoned(tmp_path)
    os.chown(path, 12345, 12345)
    unfinished.clear(tmp_path)
    assert path.exists()


def test_files_of_another_machine_stay_for_a_week(tmp_path: Path) -> None:
    here = abandoned(tmp_path)
    path = here.rename(here.with_name(".x.ncu-swizzle-00000000-7-12345678"))
    unfinished.clear(tmp_path)
    assert path.exists()
    then = time.time() - unfinished.ELSEWHERE_S - 60
    os.utime(path, (then, then))
    unfinished._cleared.clear()
    unfinished.clear(tmp_path)
    assert not path.exists()


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = abandoned(tmp_path)
    unfinished.clear(tmp_path)
    assert path.exists()
    files.write_atomically(tmp_path / "new.json", b"{}")
    assert (tmp_path / "new.json").read_bytes() == b"{}"


def test_one_taken_for_abandoned_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = fcntl.flock, []

    def late(handle: int, how: int) -> None:
        if not removed:
            (path,) = tmp_path.iterdir()
            path.unlink()
            removed.append(path)
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    path, handle = unfinished.create(tmp_path, ".x")
    os.close(handle)
    assert path.exists()
    assert path not in removed


def test_many_that_start_at_once_keep_what_each_needs(tmp_path: Path) -> None:
    """Every one looks for abandoned files while the others create theirs."""
    for _ in range(20):
        abandoned(tmp_path)
    lost: list[Path] = []

    def work() -> None:
        for number in range(20):
            unfinished._cleared.clear()
            with unfinished.folder(tmp_path, ".out") as folder:
                (folder / "file").write_text("here")
                unfinished._cleared.clear()
                unfinished.clear(tmp_path)
                if not (folder / "file").exists():
                    lost.append(folder)
            files.write_atomically(tmp_path / f"{threading.get_ident()}-{number}", b"x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert not [name for name in names(tmp_path) if name.startswith(".")]
    assert len(names(tmp_path)) == 80


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "sources" / "twice.c"
    file.parent.mkdir()
    file.write_text("int main(int count, char **given) { return 2 * count; }\n", encoding="utf-8")
    return file


@needs_cc
def test_a_program_is_built_once_and_is_the_same_from_the_cache(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = native.build(source, tmp_path / "a" / "twice", (), ()).read_bytes()
    assert first[:4] == b"\x7fELF"
    monkeypatch.setattr(native, "_compiled", lambda *_: pytest.fail("it is built again"))
    assert native.build(source, tmp_path / "b" / "twice", (), ()).read_bytes() == first
    (entry,) = (tmp_path / "cache" / native.KIND).iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    with pytest.raises(pytest.fail.Exception, match="it is built again"):
        native.build(source, tmp_path / "b" / "twice", (), ())


def test_without_a_compiler(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "")
    with pytest.raises(EnvironmentLacking, match="there is no C compiler") as error:
        native.compiler()
    assert "CC=" in error.value.hint
    chosen = tmp_path / "my-cc"
    chosen.write_text("#!/bin/sh\necho no >&2; exit 1\n", encoding="utf-8")
    chosen.chmod(0o755)
    monkeypatch.setenv("CC", str(chosen))
    assert native.compiler() == str(chosen)
    with pytest.raises(EnvironmentLacking, match=r"could not build twice\.c"):
        native.build(source, tmp_path / "twice", (), (), cached=False)
