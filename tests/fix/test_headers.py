"""Arrays and device functions in a kernel's own headers are rewritten with its source, or it is said why not."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from ncu_swizzle.base.errors import NotWritable, UsageError
from ncu_swizzle.base.files import replacing
from ncu_swizzle.fix import edits, shown, sources
from ncu_swizzle.fix.sources import ChangedFile, FixQuery, fix_all
from ncu_swizzle.kernels import naming
from tests.support.fixes import Projects
from tests.support.marks import NEEDS_ALL


@pytest.fixture
def headers(project: Projects) -> Path:
    """Return a project whose kernels hand tiles to functions, or take types, of headers in another folder."""
    return project("headers")


@NEEDS_ALL
def test_a_header_is_rewritten_with_its_source(headers: Path) -> None:
    header, source = headers / "include" / "turned.cuh", headers / "src" / "floats.cu"
    fix = fix_all("src/floats.cu")
    assert fix.outcome == "proved"
    assert fix.read >= {header, source}
    patch = shown.patch_of(fix)
    files = [line for line in patch.splitlines() if line.startswith("+++")]
    assert files == ["+++ b/src/floats.cu", "+++ b/include/turned.cuh"]
    assert "ncu_swizzle_begin" not in patch
    (note,) = fix.kernels[0].notes
    assert note.startswith(f"Not looked at: what includes turned.cuh from outside of {headers}, and what reads it")
    assert "Before and after: include/turned.cuh" in shown.render(fix)

    written = shown.write(fix, headers, applied=True)
    assert "tile[threadIdx.x][threadIdx.y ^ threadIdx.x]" in header.read_text()
    assert "tile[threadIdx.y][threadIdx.x ^ threadIdx.y]" in source.read_text()
    assert json.loads(shown.to_json(fix, written.patch))["files"] == written.applied.split(", ")
    assert fix_all("src/floats.cu").outcome == "clean"


@NEEDS_ALL
def test_a_header_that_another_source_includes_stays(headers: Path) -> None:
    others = headers / "src" / "others.cu"
    others.write_text('#include "turned.cuh"\n__global__ void others(float *out, const float *in) {}\n')
    fix = fix_all("src/floats.cu")
    (tile,) = fix.kernels[0].tiles
    assert "turned.cuh, which others.cu includes, too" in tile.reason
    assert (tile.proved, tile.unknown, fix.changed) == (False, True, False)


@pytest.mark.long
@NEEDS_ALL
def test_an_array_in_a_header_is_rewritten(headers: Path) -> None:
    body = (headers / "include" / "body.cuh").read_text().replace("NAME", "body")
    (headers / "include" / "turned.cuh").write_text(f"#pragma once\n{body}")
    kernel = "__global__ void floats(float *out, const float *in) { body(out, in); }\n"
    (headers / "src" / "floats.cu").write_text(f'#include "turned.cuh"\n{kernel}')
    fix = fix_all("src/floats.cu")
    (floats,) = fix.kernels
    assert floats.proved
    assert (floats.tiles[0].file, floats.tiles[0].line) == ("../include/turned.cuh", 3)
    assert [file.path.name for file in fix.files] == ["turned.cuh"]


@pytest.mark.long
@NEEDS_ALL
def test_a_header_that_is_included_twice_or_out_of_the_project_stays(headers: Path) -> None:
    fix = fix_all("src/twice.cu")
    assert fix.outcome == "refused"
    (tile,) = fix.kernels[0].tiles
    assert (tile.name, tile.excess_before) == ("tile", 992)
    assert "nor in a header that is rewritten with it; the access is at body.cuh" in tile.reason
    assert "Not looked into: body.cuh" in "".join(shown.sentences(fix.kernels[0]))

    inside = headers / "src"
    fix = fix_all("src/floats.cu", FixQuery(within=lambda folder: folder == inside))
    assert not fix.changed
    assert "turned, which this file does not define" in fix.kernels[0].tiles[0].reason


@NEEDS_ALL
@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (".build/all.cu", '#include "../src/floats.cu"\n', "which ../.build/all.cu includes, too"),
        ("gen.c", "#include HEADER\n", "gen.c has '#include HEADER', and what that names is not followed"),
    ],
    ids=["a unity build", "a macro"],
)
def test_other_units_that_reach_what_changes_leave_it_unknown(file: str, text: str, said: str, headers: Path) -> None:
    (headers / file).parent.mkdir(exist_ok=True)
    (headers / file).write_text(text)
    fix = fix_all("src/floats.cu")
    assert (fix.outcome, fix.changed) == ("unknown", False)
    assert said in fix.kernels[0].tiles[0].reason


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
