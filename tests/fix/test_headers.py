"""Arrays and device functions in a kernel's own headers are rewritten with its source, or it is said why not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from ncu_swizzle.base.errors import NotWritable, UsageError
from ncu_swizzle.base.files import replacing
from ncu_swizzle.fix import copies, shown, sources
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.includers import host_names, mentioned_by_host
from ncu_swizzle.fix.sources import ChangedFile, FixQuery, SourceFix, fix_all
from ncu_swizzle.fix.spliced import splice
from ncu_swizzle.gate import reporting
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Place, Verdict
from ncu_swizzle.kernels import catalog, naming
from tests.support.marks import NEEDS_ALL
from tests.support.own_headers import BODY, DESCRIBED, KERNEL, source


@pytest.mark.long
@NEEDS_ALL
def test_a_header_is_rewritten_with_its_source(described: Path) -> None:
    header = described / "include" / "turned.cuh"
    fixed = fix_all("src/floats.cu")
    assert fixed.outcome == "proved"
    assert fixed.read >= {header, described / "src" / "floats.cu"}
    patch = shown.patch_of(fixed)
    assert [line for line in patch.splitlines() if line.startswith("+++")] == [
        "+++ b/src/floats.cu", "+++ b/include/turned.cuh",
    ]  # fmt: skip
    assert "ncu_swizzle_begin" not in patch
    (note,) = fixed.kernels[0].notes
    assert note.startswith(f"Not looked at: what includes turned.cuh from outside of {described}, and what reads it")
    document = shown.render(fixed)
    assert "Before and after: include/turned.cuh" in document

    files = shown.write(fixed, described, applied=True)
    assert "tile[threadIdx.x][threadIdx.y ^ threadIdx.x]" in header.read_text()
    assert "tile[threadIdx.y][threadIdx.x ^ threadIdx.y]" in (described / "src" / "floats.cu").read_text()
    assert json.loads(shown.to_json(fixed, files.patch))["files"] == files.applied.split(", ")
    assert fix_all("src/floats.cu").outcome == "clean"


@pytest.mark.long
@NEEDS_ALL
def test_what_else_includes_a_header_is_proved_or_named(described: Path) -> None:
    source(described, "others", "panel")
    (tile,) = fix_all("src/floats.cu").kernels[0].tiles
    assert "turned.cuh, which others.cu includes, too: no launch of its kernels is described" in tile.reason
    assert (tile.proved, tile.unknown) == (False, True)

    with (described / "ncu-swizzle.toml").open("a") as file:
        file.write(DESCRIBED.format(name="others", source="src/others.cu"))
    (described / "src" / "others.cu").write_text(KERNEL.replace("NAME", "others").partition("    ARRAY[")[0] + "}\n")
    (unharmed,) = fix_all("src/floats.cu").kernels
    assert unharmed.proved


@pytest.mark.long
@NEEDS_ALL
def test_an_array_in_a_header_is_rewritten_for_all_who_include_it(described: Path) -> None:
    (described / "include" / "turned.cuh").write_text(f"#pragma once\n{BODY.replace('NAME', 'body')}")
    kernel = '#include "turned.cuh"\n__global__ void NAME(float *out, const float *in) { body(out, in); }\n'
    for name in ("floats", "others"):
        (described / "src" / f"{name}.cu").write_text(kernel.replace("NAME", name))
    with (described / "ncu-swizzle.toml").open("a") as file:
        file.write(DESCRIBED.format(name="others", source="src/others.cu"))
    fixed = fix_all("src/floats.cu")
    (floats,) = fixed.kernels
    assert floats.proved
    assert (floats.tiles[0].file, floats.tiles[0].line) == ("../include/turned.cuh", 4)
    assert [(other.kernel, other.mapped) for other in floats.others] == [("others", True)]
    assert [file.path.name for file in fixed.files] == ["turned.cuh"]
    assert "proved for their kernels, too: others (others.cu)" in "".join(shown.sentences(floats))


@pytest.mark.long
@NEEDS_ALL
def test_a_header_that_is_included_twice_is_not_looked_into(described: Path) -> None:
    (described / "include" / "turned.cuh").write_text(BODY)
    twice = "".join(f'#define NAME {name}\n#include "turned.cuh"\n#undef NAME\n' for name in ("one", "two"))
    kernel = f"{twice}__global__ void floats(float *out, const float *in) {{ one(out, in); }}\n"
    (described / "src" / "floats.cu").write_text(kernel)
    fixed = fix_all("src/floats.cu")
    assert fixed.outcome == "refused"
    (tile,) = fixed.kernels[0].tiles
    assert (tile.name, tile.excess_before, tile.file, tile.line) == ("tile", 992, "../include/turned.cuh", 3)
    assert "turned.cuh is included more than once, and may differ each time" in tile.reason
    assert "Not looked into: turned.cuh" in "".join(shown.sentences(fixed.kernels[0]))


@pytest.mark.long
@NEEDS_ALL
def test_a_header_out_of_the_project_stays(described: Path) -> None:
    inside = described / "src"
    fixed = fix_all("src/floats.cu", FixQuery(within=lambda folder: folder == inside))
    assert not fixed.changed
    assert "turned, which this file does not define" in fixed.kernels[0].tiles[0].reason


@NEEDS_ALL
@pytest.mark.slow
def test_the_variants_of_a_kernel_keep_the_header_that_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(catalog.shipped().target("transpose-plain").family.folder)
    fixed = fix_all("transpose-plain", FixQuery(options=FixOptions()))
    (tile,) = fixed.kernels[0].tiles
    assert (tile.name, tile.file, tile.proved) == ("tile", "transpose.cuh", True)
    assert [file.path.name for file in fixed.files] == ["1_plain.cu"]


def test_libraries_headers_and_links_to_elsewhere_are_not_ones_own(
    described: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = naming.everything().target("floats")
    project = described / "include"
    assert b"void turned" in copies.source_of(copies.with_headers(target, described))
    (project / "cute").mkdir()
    (project / "cute" / "tile.hpp").write_text("int of_cute;\n")
    other = tmp_path_factory.mktemp("other") / "turned.cuh"
    (project / "turned.cuh").rename(other)
    (project / "linked.cuh").symlink_to(other)
    target.source.write_text('#include "cute/tile.hpp"\n#include "linked.cuh"\n')
    assert copies.source_of(copies.with_headers(target, described)) == target.source.read_bytes()


def test_sarif_has_a_change_for_each_file() -> None:
    files = {Path("/p/k.cu"): b'#include "t.cuh"\nint k;\n', Path("/p/t.cuh"): b"#pragma once\nint t;\n"}
    before = splice(Path("/p/k.cu"), files[Path("/p/k.cu")], lambda name, *_: Path("/p", name), files.__getitem__).text
    after = before.replace(b"int k;", b"long k;").replace(b"int t;", b"long t;")
    fixed = SourceFix(source=Path("/p/k.cu"), before=before, after=after, kernels=())
    verdict = Verdict(
        checks=(Check(outcome=Outcome.failed, kernel="k", criterion=MAX_DEGREE, message="", place=Place("k.cu", 2)),)
    )
    (correction,) = shown.corrected(verdict, [fixed]).corrections
    offered = Verdict(checks=verdict.checks, corrections=(type(correction)(("k",), "", correction.files),))
    (result,) = json.loads(reporting.render_sarif(offered))["runs"][0]["results"]
    changes = result["fixes"][0]["artifactChanges"]
    assert {
        change["artifactLocation"]["uri"]: change["replacements"][0]["insertedContent"]["text"] for change in changes
    } == {"file:///p/k.cu": "long k;\n", "file:///p/t.cuh": "long t;\n"}


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


ELSEWHERE = {
    "a .cpp": ({"host/plot.cpp": '#include <turned.cuh>\n'}, "which ../host/plot.cpp includes, too: no launch"),
    "a chain": ({"a.tcc": '#include "turned.cuh"\n', "b.cxx": '#include "a.tcc"\n'}, "which ../b.cxx includes, too"),
    "a unity build": ({".build/all.cu": '#include "../src/floats.cu"\n'}, "which ../.build/all.cu includes, too"),
    "an umbrella": ({"include/all.h": '#include "turned.cuh"\n'}, "which ../include/all.h includes, too"),
    "a macro": ({"gen.c": "#include HEADER\n"}, "gen.c has '#include HEADER', and what that names is not followed"),
}  # fmt: skip


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "a unity build" else pytest.mark.slow) for name in ELSEWHERE]
)
def test_other_units_that_reach_what_changes_leave_it_unknown(name: str, described: Path) -> None:
    files, said = ELSEWHERE[name]
    for file, text in files.items():
        (described / file).parent.mkdir(exist_ok=True)
        (described / file).write_text(text)
    fixed = fix_all("src/floats.cu")
    assert (fixed.outcome, fixed.changed) == ("unknown", False)
    assert said in fixed.kernels[0].tiles[0].reason


@pytest.mark.long
@NEEDS_ALL
def test_host_code_that_mentions_a_changed_type_is_in_the_way(described: Path) -> None:
    """Only the code of kernels is compared, so that a size on the host would be missed."""
    shared = "#pragma once\nstruct Rows { float a[32][32]; };\n"
    (described / "include" / "turned.cuh").write_text(shared)
    floats = KERNEL.replace("NAME", "floats").replace("float ARRAY[32][32]", "Rows rows")
    read = "out[threadIdx.x] = rows.a[threadIdx.x][0];"
    text = floats.replace("ARRAY", "rows.a").replace("turned(rows.a, out);", read)
    (described / "src" / "floats.cu").write_text(text)
    (described / "src" / "others.cu").write_text(
        '#include "turned.cuh"\n__global__ void others(float *out, const float *in) { out[0] = in[0]; }\n'
        "unsigned long bytes() { return sizeof(Rows); }\n"
    )
    with (described / "ncu-swizzle.toml").open("a") as file:
        file.write(DESCRIBED.format(name="others", source="src/others.cu"))
    query = FixQuery(options=FixOptions(only=MappingKind.PADDING))
    (tile,) = fix_all("src/floats.cu", query).kernels[0].tiles
    assert "the patch changes Rows of turned.cuh, which the host code of others.cu mentions (line 3)" in tile.reason
    assert (tile.proved, tile.unknown) == (False, True)
    (described / "src" / "others.cu").write_text(
        '#include "turned.cuh"\n__global__ void others(float *out, const float *in) { out[0] = in[0]; }\n'
    )
    assert fix_all("src/floats.cu", query).kernels[0].proved


def test_what_only_the_device_runs_is_not_seen_by_the_host() -> None:
    before = b"__device__ int at(int r) { return r; }\nint both(int r) {\n    return r; }\n#define W 32\n"
    after = before.replace(b"return r; }", b"return r * 2; }").replace(b"W 32", b"W 33")
    assert host_names(before, after) == {"both", "W"}
    assert mentioned_by_host(b"__global__ void k() { int a[W]; }\n", {"W"}) is None
    assert mentioned_by_host(b"__host__ __device__ int f() {\n    return W; }\n", {"W"}) == ("W", 2)
    assert mentioned_by_host(b"int a;\n#define TWICE (2 * W)\n", {"W"}) == ("W", 2)
