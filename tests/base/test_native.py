"""C programs are built with the compiler that is there, once; what is missing is said."""

from pathlib import Path

import pytest

from ncu_swizzle.base import cache, native
from ncu_swizzle.base.errors import EnvironmentLacking
from tests.support.marks import needs_cc


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
