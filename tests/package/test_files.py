"""Files: what is written to and replaced, which one an error names; from which commit sources are."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, NotWritable
from ncu_swizzle.base.files import exists, is_file, is_folder, not_readable, read_bytes, write_atomically
from ncu_swizzle.kernels.git import commit_of
from tests.support.repositories import git

LONG = "x" * 100_000


@pytest.mark.long
def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(NotWritable, match="fifo"):  # nobody reads it: no hang
        write_atomically(fifo, b"text")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(fifo, b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    with subprocess.Popen(["sh", "-c", f"sleep 0.2; cat {fifo}"], stdout=subprocess.PIPE) as late:
        try:
            write_atomically(fifo, b"waits")
            assert late.communicate(timeout=20)[0] == b"waits"
        finally:
            late.kill()
    assert fifo.is_fifo()


def test_a_full_device_is_an_error_and_stays_one(tmp_path: Path) -> None:
    full = tmp_path / "full"
    try:
        os.mknod(full, 0o20600, os.makedev(1, 7))
        full.write_bytes(b"")
    except PermissionError:
        pytest.skip("cannot make devices here")
    with pytest.raises(NotWritable, match="No space left"):
        write_atomically(full, b"text")
    assert full.is_char_device()


def test_the_standard_streams_are_not_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "out"
    handle = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.write(handle, b"first ")
    write_atomically(Path(f"/dev/fd/{handle}"), b"second")
    os.close(handle)
    assert file.read_bytes() == b"first second"


def test_names_that_no_file_can_have() -> None:
    for name in (".", "/", "", "a\0b", LONG):
        with pytest.raises(NotWritable, match="cannot write"):
            write_atomically(Path(name), b"text")
        with pytest.raises(BadFile):
            read_bytes(Path(name))


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    for file, said, hint in (
        (tmp_path / "loop", "Too many levels of symbolic links", "readlink"),
        (tmp_path / "fifo", "not a regular file", ".ncu-rep"),
        (tmp_path, "Is a directory", ".ncu-rep"),
        (Path(LONG), "File name too long", "shorter path"),
        (Path("/dev/zero"), "not a regular file", ".ncu-rep"),
    ):
        with pytest.raises(BadFile, match=said) as error:
            read_bytes(file)
        assert hint in error.value.hint
    denied = not_readable("x.json", PermissionError(errno.EACCES, "Permission denied"))
    assert "permissions" in denied.hint


def test_what_a_path_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    kinds = {
        name: (exists(tmp_path / name), is_file(tmp_path / name), is_folder(tmp_path / name))
        for name in (".", "file", "none", "file/none", "link")
    }
    no, file, folder = (False, False, False), (True, True, False), (True, False, True)
    assert kinds == {".": folder, "file": file, "none": no, "file/none": no, "link": no}
    for ask in (exists, is_file, is_folder):
        for impossible in (Path(LONG), Path("a\0b")):
            with pytest.raises(BadFile, match="cannot be read"):
                ask(impossible)


def test_a_checkout_has_one_and_the_files_in_question_make_it_dirty(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    a, b, other = kernels / "a.cu", kernels / "b\n\u00e4.cu", tmp_path / "other.txt"
    kernels.mkdir()
    for file in (a, b, other):
        file.write_text("one\ntwo\n", encoding="utf-8")
    (kernels / "link").symlink_to("a.cu")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    git(tmp_path, "tag", "-am", "A release", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    assert commit_of(tmp_path) == head, "a commit, not a tag"
    other.write_text("two", encoding="utf-8")
    (kernels / "new.cu").write_text("untracked", encoding="utf-8")
    a.write_bytes(b"one\r\ntwo\r\n")  # as git checks it out elsewhere
    assert commit_of(kernels) == head
    assert commit_of(kernels, [other]) == f"{head}-dirty"
    b.write_text("two", encoding="utf-8")
    assert commit_of(kernels, [a]) == head
    assert commit_of(kernels) == f"{head}-dirty"
    b.unlink()
    assert commit_of(tmp_path) == f"{head}-dirty"


def test_elsewhere_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) == ""
