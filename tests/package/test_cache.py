"""The cache: what was kept comes back or is dropped, and it does not outgrow its limit."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.base import cache

pytestmark = pytest.mark.usefixtures("own_cache")


def test_what_was_kept_comes_back() -> None:
    assert cache.load("cubins", "kernel") is None
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") == b"code"
    assert cache.load("disassembly", "kernel") is None


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 40])
def test_a_damaged_entry_is_dropped(damage: bytes, own_cache: Path) -> None:
    cache.save("cubins", "kernel", b"code")
    (own_cache / "cubins" / "kernel").write_bytes(damage)
    assert cache.load("cubins", "kernel") is None
    assert not (own_cache / "cubins" / "kernel").exists(), "made again next time, and not in the way until then"


def test_what_was_not_used_for_longest_goes_first(own_cache: Path) -> None:
    for age, name in enumerate(("oldest", "used", "newest")):
        cache.save("cubins", name, b"x" * 1000)
        os.utime(own_cache / "cubins" / name, (age, age))
    assert cache.load("cubins", "oldest"), "which is a use"
    cache.evict(3000)
    assert {file.name for file in (own_cache / "cubins").iterdir()} == {"oldest", "newest"}


def test_saving_keeps_to_the_limit(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT_BYTES", 5000)
    for number in range(50):
        cache.save("disassembly", str(number), b"x" * 500)
    assert sum(file.stat().st_size for file in own_cache.glob("*/*")) <= 5000
    assert cache.load("disassembly", "49") == b"x" * 500


def test_nothing_is_kept_and_nothing_fails_without_a_writable_cache(own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be", encoding="utf-8")
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") is None


# ---------------------------------------------------------------------------------------------- what is not believed


def planted_link(entry: Path) -> None:
    elsewhere = entry.parent.parent / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)


def planted_folder(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


def planted_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def written_by_others(entry: Path) -> None:
    os.chown(entry, 12345, 12345)


def writable_by_others(entry: Path) -> None:
    entry.chmod(0o666)


def taken_from_another_key(entry: Path) -> None:
    cache.save("cubins", "other", b"other code")
    entry.write_bytes((entry.parent / "other").read_bytes())


def taken_from_another_kind(entry: Path) -> None:
    cache.save("disassembly", "kernel", b"no code")
    entry.write_bytes((entry.parent.parent / "disassembly" / "kernel").read_bytes())


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.mark.parametrize(
    "plant",
    [
        *(planted_link, planted_folder, planted_pipe, writable_by_others),
        pytest.param(written_by_others, marks=AS_ROOT),
        *(taken_from_another_key, taken_from_another_kind),
    ],
)
def test_an_entry_of_doubtful_origin_is_dropped_and_made_again(plant: Callable[[Path], None], own_cache: Path) -> None:
    cache.save("cubins", "kernel", b"code")
    plant(own_cache / "cubins" / "kernel")
    assert cache.load("cubins", "kernel") is None
    cache.save("cubins", "kernel", b"new code")
    assert cache.load("cubins", "kernel") == b"new code"


def test_a_folder_with_something_in_it_in_place_of_an_entry_stays(own_cache: Path) -> None:
    file = own_cache / "cubins" / "kernel" / "mine"
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") is None
    assert not cache.drop("cubins", "kernel")
    assert file.read_text() == "mine"


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
    for folder in (own_cache, own_cache / "cubins"):
        folder.chmod(0o777)
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") == b"code"
    assert [oct(path.stat().st_mode)[-3:] for path in (own_cache, own_cache / "cubins")] == ["755", "755"]
    assert oct((own_cache / "cubins" / "kernel").stat().st_mode)[-3:] == "600"


def test_a_kind_that_is_a_link_is_not_followed(own_cache: Path, tmp_path: Path) -> None:
    cache.save("disassembly", "x", b"x" * 100)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "kernel").write_bytes(b"mine")
    (own_cache / "cubins").symlink_to(precious, target_is_directory=True)
    assert cache.load("cubins", "kernel") is None
    cache.save("cubins", "kernel", b"code")
    cache.evict(0)
    assert (precious / "kernel").read_bytes() == b"mine"


def test_a_link_of_the_users_own_to_another_disk_is_fine(own_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    own_cache.symlink_to(tmp_path / "disk", target_is_directory=True)
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") == b"code"


@pytest.mark.parametrize("name", ["cubins", "disassembly"])
def test_a_file_where_a_kinds_folder_should_be_stays(name: str, own_cache: Path) -> None:
    own_cache.mkdir()
    (own_cache / name).write_text("mine")
    cache.save(name, "kernel", b"code")
    assert cache.load(name, "kernel") is None
    assert (own_cache / name).read_text() == "mine"


def test_a_file_where_the_users_cache_should_be_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.save("cubins", "kernel", b"code")
    assert cache.load("cubins", "kernel") is None


# ---------------------------------------------------------------------------------------------- where it is


@pytest.mark.parametrize("base", ["", "relative", "./here"])
def test_a_relative_or_empty_setting_does_not_count(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.folder() == Path("/home/someone/.cache/ncu-swizzle")


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_in_the_environment_the_users_own_counts(
    home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    own = pwd.getpwuid(os.getuid()).pw_dir
    assert cache.folder() == Path(own, ".cache", "ncu-swizzle")


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
