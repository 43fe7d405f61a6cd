"""Which of a user's files travel to workers, and what becomes of their paths."""

from __future__ import annotations

import shutil
from pathlib import Path

from ncu_swizzle.kernels import catalog, naming
from ncu_swizzle.sweep import worker
from tests.support.places import ROOT


def test_only_what_kernels_read_travels(tmp_path: Path) -> None:
    project = tmp_path / "own"
    shutil.copytree(ROOT / "examples" / "own-kernel", project)
    (project / "secret.txt").write_text("private")
    (project / "tile.cuh").write_text("// included\n")
    source = project / "my.cu"
    source.write_text('#include "tile.cuh"\n' + source.read_text(encoding="utf-8"), encoding="utf-8")
    family, _ = naming.everything(start=project).named("tile-swizzled")
    files = worker.files_of(family)
    assert sorted(file.name for file in files) == ["my.cu", "reference.py", "tile.cuh"]
    wanted = worker.digests(files)
    assert worker.lacking(wanted) == {}
    contents = {str(file): file.read_bytes() for file in files}
    shutil.rmtree(project)
    assert worker.lacking(wanted) == wanted
    worker.unpack(contents, tmp_path / "there")
    moved = worker.moved_family(family, str(tmp_path / "there"))
    assert [file.name for file in worker.files_of(moved)] == [file.name for file in files]
    assert all((tmp_path / "there") in file.parents for file in worker.files_of(moved))
    assert moved.source_texts().keys() == {"my.cu", "tile.cuh"}


def test_shipped_kernels_do_not_travel() -> None:
    assert worker.files_of(catalog.shipped().named("kernel1")[0]) == ()


def test_a_file_that_differs_is_lacking(tmp_path: Path) -> None:
    file = tmp_path / "x.cu"
    file.write_text("one")
    wanted = worker.digests([file])
    file.write_text("two")
    assert worker.lacking(wanted) == wanted
