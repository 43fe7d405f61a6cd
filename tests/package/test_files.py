"""Files and the cache: what is written, replaced, kept and dropped, which file an error names, which commit it is."""

import errno
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, NotWritable
from ncu_swizzle.base.files import exists, is_file, is_folder, not_readable, read_bytes, write_atomically
from ncu_swizzle.kernels.git import commit_of
from tests.support.repositories import git

LONG = "x" * 100_000
pytestmark = pytest.mark.usefixtures("own_cache")


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


def test_a_result_keeps_the_mode_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    for mode in (0o600, 0o640, 0o666):
        file.touch()
        file.chmod(mode)
        write_atomically(file, b"{}")
        assert file.stat().st_mode & 0o777 == mode
    (tmp_path / "link").symlink_to("out.json")
    write_atomically(tmp_path / "link", b"[]")
    assert (file.read_bytes(), (tmp_path / "link").is_symlink()) == (b"{}", False)


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


def test_what_was_not_used_for_longest_goes_first(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("oldest", "used", "newest")):
        cache.save("cubins", name, b"x" * 1000)
        os.utime(own_cache / "cubins" / name, (age, age))
    assert cache.load("cubins", "oldest"), "which is a use"
    cache.evict(3000)
    assert {file.name for file in (own_cache / "cubins").iterdir()} == {"oldest", "newest"}
    monkeypatch.setattr(cache, "LIMIT_BYTES", 5000)
    for number in range(50):
        cache.save("disassembly", str(number), b"x" * 500)
    assert sum(file.stat().st_size for file in own_cache.glob("*/*")) <= 5000, "saving keeps to the limit"
    assert cache.load("disassembly", "49") == b"x" * 500


def copied(kind: str, key: str) -> Callable[[Path], object]:
    """Return a function that puts what was kept under another key in an entry's place."""

    def copy(entry: Path) -> None:
        cache.save(kind, key, b"other code")
        entry.write_bytes((entry.parent.parent / kind / key).read_bytes())

    return copy


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
PLANTED: dict[str, Callable[[Path], object]] = {
    "a link": lambda entry: entry.symlink_to(entry.rename(entry.parent.parent / "elsewhere")),
    "a folder": lambda entry: (entry.unlink(), entry.mkdir()),
    "a pipe": lambda entry: (entry.unlink(), os.mkfifo(entry)),
    "writable by others": lambda entry: entry.chmod(0o666),
    "of another key": copied("cubins", "other"),
    "of another kind": copied("disassembly", "kernel"),
    "empty": lambda entry: entry.write_bytes(b""),
    "shorter than a digest": lambda entry: entry.write_bytes(b"short"),
    "other bytes": lambda entry: entry.write_bytes(b"x" * 40),
    "of another user": lambda entry: os.chown(entry, 12345, 12345),
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=AS_ROOT if what == "of another user" else ()) for what in PLANTED]
)
def test_a_damaged_or_doubtful_entry_is_dropped_and_made_again(what: str, own_cache: Path) -> None:
    cache.save("cubins", "kernel", b"code")
    PLANTED[what](own_cache / "cubins" / "kernel")
    assert cache.load("cubins", "kernel") is None
    assert not (own_cache / "cubins" / "kernel").exists(), "not in the way until it is made again"
    cache.save("cubins", "kernel", b"new code")
    assert cache.load("cubins", "kernel") == b"new code"


@AS_ROOT
@pytest.mark.parametrize("name", [".", "cubins"])
def test_a_folder_of_another_user_is_not_used(name: str, own_cache: Path) -> None:
    cache.save("cubins", "kernel", b"code")
    os.chown(own_cache / name, 12345, 12345)
    assert cache.load("cubins", "kernel") is None
    cache.save("cubins", "another", b"code")
    assert [file.name for file in (own_cache / "cubins").iterdir()] == ["kernel"]


def test_a_folder_that_others_can_write_to_is_closed_to_them(own_cache: Path) -> None:
    (own_cache / "cubins").mkdir(parents=True)
    for path in (own_cache, own_cache / "cubins"):
        path.chmod(0o777)
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") == b"code"
    assert [oct(path.stat().st_mode)[-3:] for path in (own_cache, own_cache / "cubins")] == ["755", "755"]
    assert oct((own_cache / "cubins" / "kernel").stat().st_mode)[-3:] == "600"


def test_a_link_in_place_of_a_kind_is_not_followed_and_one_of_the_whole_cache_is(
    own_cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    own_cache.symlink_to(tmp_path / "disk", target_is_directory=True)
    cache.save("disassembly", "x", b"x" * 100)
    assert cache.load("disassembly", "x") == b"x" * 100, "the user's own link to another disk"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "kernel").write_bytes(b"mine")
    (own_cache / "cubins").symlink_to(precious, target_is_directory=True)
    assert cache.load("cubins", "kernel") is None
    cache.save("cubins", "kernel", b"code")
    cache.evict(0)
    assert (precious / "kernel").read_bytes() == b"mine"


@pytest.mark.parametrize("place", [".", "cubins", "cubins/kernel/mine"])
def test_what_the_user_has_there_stays_and_nothing_is_kept(place: str, own_cache: Path) -> None:
    mine = own_cache / place
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") is None
    assert not cache.drop("cubins", "kernel")
    assert mine.read_text() == "mine"


def test_a_setting_counts_if_it_is_absolute_then_the_home_then_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    for setting in ("", "relative", "./here"):
        monkeypatch.setenv("XDG_CACHE_HOME", setting)
        assert cache.folder() == Path("/home/someone/.cache/ncu-swizzle")
    monkeypatch.delenv("XDG_CACHE_HOME")
    own = Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache", "ncu-swizzle")
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        assert cache.folder() == own
    monkeypatch.delenv("HOME")
    assert cache.folder() == own


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert cache.folder() is None
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") is None
    cache.evict(0)
