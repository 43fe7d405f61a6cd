"""The cache: what was kept comes back or is dropped, and it does not outgrow its limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncu_swizzle import cache

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
