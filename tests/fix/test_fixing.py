"""A source is fixed, for all of its kernels, by the mapping that suits, or left as it is with the reason."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle import cli
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.edits import splice
from ncu_swizzle.fix.result import Stop, furthest, unproved
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.gate import reporting
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Place, Verdict
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from tests.support.fixes import CORPUS, REFUSED, Projects, described_too
from tests.support.marks import NEEDS_ALL

PADDING, SWIZZLE = MappingKind.PADDING, MappingKind.SWIZZLE
LONG, SLOW = pytest.mark.long, pytest.mark.slow
WRITTEN = [  # what a fix of a kernel of the corpus writes
    ("columns-first", None, ["cells[y][x] =", "cells[31 - y][x]"], ()),
    ("functor-transpose", None,
     ["(threadIdx.x ^ ((threadIdx.y + i) & 31))]", "((threadIdx.y + i) ^ (threadIdx.x & 31))]"], LONG),
    ("view-sums", None, ["buffer[64 * 36]", "tile(buffer, 36)"], SLOW),
    ("view-pairs", None,
     ["tile.at(r, threadIdx.x ^ (r & 31))", "a.get(r, k ^ (r & 31)) * b.get(c, k ^ (c & 31))"], SLOW),
    ("nested-stages", None,
     [".a[i / 16][(i % 16) ^ ((i / 16) >> 1)] =", ".a[t % 32][k ^ ((t % 32) >> 1)] *"], SLOW),
    ("lists-topk", None, ["kept = list[j ^ ((threadIdx.x >> 1) & 15)];"], SLOW),
    ("buffers-flat", None, ["Bs[2][BN * (BK + 4)]", "Bs[stage][tx * (BK + 4) + k]"], SLOW),
    ("granules-sum", None, ["(threadIdx.y ^ (threadIdx.x & 7)) * 4 + k]"], SLOW),
    ("class-transpose", None,
     ["return cells[row][column ^ (row & 31)];", "this->cells[row][threadIdx.x ^ "], LONG),
    ("class-transpose", PADDING, ["T cells[Rows][Columns + 1];"], ()),
    ("class-rows", None, ["data[H * (W + 4)]", "data + row * (W + 4)", "&data[row * (W + 4)]"], LONG),
    ("class-stages", None, ["b[k][column]", "b[y][x] ="], SLOW),
    ("class-stages", SWIZZLE, ["b[column][k ^ column]", "b[x][y ^ x] ="], LONG),
    ("class-stages", PADDING, ["float b[32][33];"], SLOW),
]  # fmt: skip


def fixed(name: str, only: MappingKind | None = None) -> SourceFix:
    """Return the fix of a kernel of the corpus."""
    sources = CatalogOptions(config=str(CORPUS / "ncu-swizzle.toml"))
    return fix_all(name, FixQuery(description=KernelDescription(sources=sources), options=FixOptions(only)))


@NEEDS_ALL
def test_a_fix_is_written_and_applied_once(project: Projects) -> None:
    folder = project("example")
    source = folder / "turn.cu"
    before = source.read_bytes()
    fix = fix_all("turn.cu")
    assert fix.outcome == "proved"
    files = shown.write(fix, folder, applied=True)
    assert b"[threadIdx.x ^ (threadIdx.y + j)]" in source.read_bytes()
    assert "+        tile[threadIdx.y + j]" in Path(files.patch).read_text(encoding="utf-8")
    assert "Before and after" in Path(files.page).read_text(encoding="utf-8")
    content = json.loads(shown.to_json(fix, files.patch))
    assert [claim["state"] for claim in content["kernels"][0]["proof"]["claims"]] == ["held"] * 4
    with pytest.raises(UsageError, match="has changed since it was read"):
        shown.write(fix, folder, applied=True)
    assert fix.before == before


@pytest.mark.long
@NEEDS_ALL
def test_lint_shows_a_fix_then_writes_it_and_offers_it_no_longer(
    project: Projects, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project("example")
    before = (folder / "turn.cu").read_bytes()
    for arguments, status, said in ((["--diff"], 1, ""), (["--fix", "--diff"], 0, "fixed turn.cu")):
        monkeypatch.setattr(sys, "argv", ["ncu-swizzle", "lint", "turn.cu", *arguments, "--sarif", "lint.sarif"])
        assert cli.main() == status
        printed = capsys.readouterr().err
        assert "+        tile[threadIdx.y + j]" in printed
        assert said in printed
        (log,) = json.loads((folder / "lint.sarif").read_text(encoding="utf-8"))["runs"]
        assert any("fixes" in result for result in log["results"]) == bool(status)
        assert ((folder / "turn.cu").read_bytes() == before) == bool(status)


@NEEDS_ALL
def test_what_escapes_is_refused_with_its_line_and_the_mapping(project: Projects) -> None:
    project("example")
    fix = fix_all("view.cu")
    assert (fix.outcome, fix.changed) == ("refused", False)
    (tile,) = fix.kernels[0].tiles
    assert tile.reason_line == 15
    assert "Swizzle<5,0,5>" in tile.mapping
    assert fix.kernels[0].suggest == "ncu-swizzle explain columns"


@pytest.mark.long
@NEEDS_ALL
def test_what_does_not_compile_says_what_the_compiler_does(project: Projects) -> None:
    source = project("example") / "turn.cu"
    text = source.read_text(encoding="utf-8")
    # Nothing is left of a block's 48 KiB, so that no padding compiles; only the smallest one is tried.
    rest = "__shared__ volatile char rest[49152 - 4096]; rest[threadIdx.x] = 0; __syncthreads();"
    source.write_text(text.replace("__syncthreads();", rest), encoding="utf-8")
    (kernel,) = fix_all("turn.cu", FixQuery(options=FixOptions(PADDING, max_shared=49152 + 128))).kernels
    assert "does not compile" in kernel.tiles[0].reason
    assert "too much shared data" in kernel.tiles[0].reason


@pytest.mark.long
@NEEDS_ALL
def test_a_patch_of_shared_code_is_proved_for_every_kernel(project: Projects) -> None:
    folder = project("two")
    floats, ints = fix_all("shared.cu").kernels
    assert floats.proved
    assert ints.along
    # Described alone, it may not change the other one.
    described = (folder / "ncu-swizzle.toml").read_text(encoding="utf-8")
    (folder / "ncu-swizzle.toml").write_text(described[described.index("[kernel.shared-ints]") :], encoding="utf-8")
    (alone,) = fix_all("shared.cu").kernels
    assert not alone.proved
    assert "of which no launch is described" in alone.tiles[0].reason


@NEEDS_ALL
@pytest.mark.parametrize(("name", "only", "written"), [pytest.param(*row, marks=marks) for *row, marks in WRITTEN])
def test_kernels_of_the_corpus_are_fixed_as_by_hand(name: str, only: MappingKind | None, written: list[str]) -> None:
    fix = fixed(name, only)
    assert fix.outcome == "proved", fix.kernels[0].tiles
    text = fix.after.decode()
    assert all(piece in text for piece in written), shown.patch_of(fix)


@NEEDS_ALL
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG if name == "refused-registers" else SLOW) for name in REFUSED]
)
def test_what_must_not_be_fixed_is_refused(name: str) -> None:
    fix = fixed(name)
    assert fix.outcome in ("refused", "unknown")
    assert fix.after == fix.before
    if name == "refused-registers":  # elements would have to leave them
        (tile,) = fix.kernels[0].tiles
        assert tile.reason.startswith(REFUSED[name][0])
        assert tile.reason_line == REFUSED[name][2]
        assert "more than before" in tile.reason


# ---------------------------------------------------------------------------------------------- classes


def fixed_class(folder: Path, only: MappingKind | None = None, method: str = "", before: str = "") -> SourceFix:
    """Return the fix of the project `class` with a method that is not called, or something before the kernel."""
    source = folder / "k.cu"
    text = source.read_text(encoding="utf-8")
    text = text.replace("// another method", method).replace("// another object or kernel", before)
    source.write_text(text, encoding="utf-8")
    return fix_all("k.cu", FixQuery(options=FixOptions(only)))


@NEEDS_ALL
def test_methods_that_are_not_called_follow_the_padding(project: Projects) -> None:
    methods = (
        "__device__ float* row(int r) { return v + r * C; } __device__ float sum() { return row(1)[0] + v[C]; } "
        "__device__ float nth(int i) { return v[i]; }"
    )
    fix = fixed_class(project("class"), PADDING, methods)
    text = fix.after.decode()
    assert fix.outcome == "proved"
    assert "return v + r * (C + 1);" in text
    assert "row(1)[0] + v[(C + 1)]" in text or "row(1)[0] + v[C + 1]" in text
    assert "return v[padded(i)];" in text  # it counts through the array
    assert text.index("int padded(int i)") < text.index("template <int R, int C>")


@NEEDS_ALL
def test_what_is_unknown_has_its_code_in_json(project: Projects) -> None:
    project("unknown")
    fix = fix_all("u.cu")
    assert fix.outcome == "unknown"
    (kernel,) = json.loads(shown.to_json(fix, ""))["kernels"]
    assert {why["code"]: why["remedy"].split(",")[0] for why in kernel["unknowns"]} == {
        "UN001": "--arg 'at=int32[32]:iota%256'",
        "UN013": "give the data that addresses and branches depend on",
    }


@pytest.mark.long
@NEEDS_ALL
def test_another_kernel_with_such_objects_is_proved_too_if_it_is_described(project: Projects) -> None:
    folder = project("class")
    _, _, kernel = (folder / "k.cu").read_text(encoding="utf-8").partition("__global__")
    other = "__global__" + kernel.replace("void k(", "void other(").replace("= t.at", "= 2 * t.at")
    unknown = fixed_class(folder, before=other)
    assert unknown.outcome == "unknown"
    assert "the patch changes other" in unknown.kernels[0].tiles[0].reason
    described_too(folder, "other", "k.cu")
    assert fix_all("k.cu").outcome == "proved"


# ---------------------------------------------------------------------------------------------- what is said


def test_of_the_candidates_the_one_that_came_furthest_says_why_nothing_is_proved() -> None:
    rebuilt = Claim(about=About.REBUILT, state=ClaimState.HELD, reason="by nvcc")
    left = Claim(about=About.EXCESS, state=ClaimState.FAILED, reason="8 are left")
    open_ = Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason="it depends", line=("body.cuh", 9))
    unfit = Stop(stage=0, reason="p escapes", line=("k.cu", 7), mapping="the best")
    failed = unproved(Proof(claims=(rebuilt, left)), ("k.cu", 3), "another")
    unknown = unproved(Proof(claims=(rebuilt, open_)), ("k.cu", 3), "another")
    assert furthest(unfit, failed) is furthest(failed, unfit) is failed
    assert furthest(failed, unknown) is unknown
    assert furthest(unfit, unfit) is unfit
    assert (unfit.line, failed.line, unknown.line) == (("k.cu", 7), ("k.cu", 3), ("body.cuh", 9))
    assert (failed.unknown, unknown.unknown) == (False, True)
    # The mapping is named unless it is the best.
    assert [stop.against("the best") for stop in (unfit, failed)] == ["p escapes", "8 are left, with another"]


def test_sarif_has_the_fix_of_a_finding_and_of_no_other_in_each_file() -> None:
    source, header = Path("/p/k.cu"), Path("/p/t.cuh")
    texts = {source: b'#include "t.cuh"\nint k;\nc\n', header: b"#pragma once\nint t;\n"}
    before = splice(source, texts[source], lambda name, *_: Path("/p", name), texts.__getitem__).text
    after = before.replace(b"int k;\n", b"K\nK2\n").replace(b"int t;", b"long t;")
    fix = SourceFix(source=source, before=before, after=after, kernels=())
    checks = tuple(
        Check(
            outcome=Outcome.failed, kernel=name, criterion=MAX_DEGREE, message="", place=Place("k.cu", 2), code="SW001"
        )
        for name in "kl"
    )
    offered = shown.corrected(Verdict(checks=checks), [fix])
    offered = replace(offered, corrections=(replace(offered.corrections[0], kernels=("k",)),))
    of_k, of_l = json.loads(reporting.render_sarif(offered))["runs"][0]["results"]
    assert "fixes" not in of_l
    changes = {
        change["artifactLocation"]["uri"]: change["replacements"] for change in of_k["fixes"][0]["artifactChanges"]
    }
    region = {"startLine": 2, "startColumn": 1, "endLine": 3, "endColumn": 1}
    assert changes == {
        "file:///p/k.cu": [{"deletedRegion": region, "insertedContent": {"text": "K\nK2\n"}}],
        "file:///p/t.cuh": [{"deletedRegion": region, "insertedContent": {"text": "long t;\n"}}],
    }


def test_a_page_shows_hostile_names_harmlessly() -> None:
    fix = SourceFix(source=Path("<script>.cu"), before=b"<img src=x>\n", after=b"<b>\n", kernels=())
    page = shown.render(fix)
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page
