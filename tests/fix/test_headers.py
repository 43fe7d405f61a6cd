"""Which headers are a kernel's own, and how files are written; tests/data/sessions/fix tells how they are rewritten."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from ncu_swizzle.base.errors import NotWritable, UsageError
from ncu_swizzle.base.files import replacing
from ncu_swizzle.fix import edits, sources
from ncu_swizzle.fix.sources import ChangedFile, FixQuery, fix_all
from ncu_swizzle.kernels import naming
from tests.support.fixes import Projects
from tests.support.marks import NEEDS_ALL


@pytest.fixture
def headers(project: Projects) -> Path:
    """Return a project whose kernels hand tiles to functions, or take types, of headers in another folder."""
    return project("headers")


def test_libraries_headers_and_links_to_elsewhere_are_not_ones_own(
    headers: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = naming.everything().target("floats")
    include = headers / "include"
    assert b"void turned" in edits.source_of(edits.with_headers(target, headers))
    (include / "cute").mkdir()
    (include / "cute" / "tile.hpp").write_text("int of_cute;\n")
    other = tmp_path_factory.mktemp("other") / "turned.cuh"
    (include / "turned.cuh").rename(other)
    (include / "linked.cuh").symlink_to(other)
    target.source.write_text('#include "cute/tile.hpp"\n#include "linked.cuh"\n')
    assert edits.source_of(edits.with_headers(target, headers)) == target.source.read_bytes()


@pytest.mark.long
@NEEDS_ALL
def test_a_header_out_of_what_may_be_written_stays(headers: Path) -> None:
    fix = fix_all("src/floats.cu", FixQuery(within=lambda folder: folder == headers / "src"))
    assert not fix.changed
    assert "turned, which this file does not define" in fix.kernels[0].tiles[0].reason


def test_files_are_written_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in ("a.cu", "b.cuh", "c.cuh")]
    for path in paths:
        path.write_bytes(b"old")
    changes = [ChangedFile(path, b"old", b"new") for path in paths]

    @contextlib.contextmanager
    def failing(path: Path) -> Iterator[BinaryIO]:
        with replacing(path) as file:
            yield file
            if path.name == "b.cuh":
                raise NotWritable("no space", "")

    with monkeypatch.context() as patched:
        patched.setattr(sources, "replacing", failing)
        with pytest.raises(NotWritable, match="no space"):
            sources.written_together(changes, "again")
    assert [path.read_bytes() for path in paths] == [b"old"] * 3
    paths[2].write_bytes(b"edited")
    with pytest.raises(UsageError, match=r"c\.cuh has changed since it was read"):
        sources.written_together(changes, "again")
    assert paths[0].read_bytes() == b"old"
    paths[2].write_bytes(b"old")
    sources.written_together(changes, "again")
    assert [path.read_bytes() for path in paths] == [b"new"] * 3
