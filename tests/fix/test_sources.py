"""A source is fixed, for all of its kernels, or left as it is with the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.sources import SourceFix, fix_all
from ncu_swizzle.gate import reporting
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Place, Verdict
from tests.support.marks import NEEDS_ALL

SHARED = """
template <typename F>
__device__ void turn(F (&tile)[32][32], F *out, const F *in) {
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
__global__ void floats(float *out, const float *in) { __shared__ float tile[32][32]; turn(tile, out, in); }
__global__ void ints(int *out, const int *in) { __shared__ int tile[32][32]; turn(tile, out, in); }
"""
DESCRIBED = """
[kernel.{name}]
source = "two.cu"
entry = "{name}"
grid = 1
block = "32, 32"
args = ["out={dtype}[1024]:out", "in={dtype}[1024]:random"]
"""


@NEEDS_ALL
def test_a_fix_is_written_and_applied_once(fix_example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fix_example)
    source = fix_example / "turn.cu"
    before = source.read_bytes()
    fixed = fix_all("turn.cu")
    assert fixed.outcome == "proved"
    files = shown.write(fixed, fix_example, applied=True)
    assert b"[threadIdx.x ^ (threadIdx.y + j)]" in source.read_bytes()
    assert "+        tile[threadIdx.y + j]" in Path(files.patch).read_text(encoding="utf-8")
    assert "Before and after" in Path(files.page).read_text(encoding="utf-8")
    content = json.loads(shown.to_json(fixed, files.patch))
    assert [claim["state"] for claim in content["kernels"][0]["proof"]["claims"]] == ["held"] * 4
    with pytest.raises(UsageError, match="has changed since it was read"):
        shown.write(fixed, fix_example, applied=True)
    assert fixed.before == before


@pytest.mark.long
@NEEDS_ALL
def test_what_escapes_is_refused_with_its_line_and_the_mapping(
    fix_example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fix_example)
    fixed = fix_all("view.cu")
    assert fixed.outcome == "refused"
    assert not fixed.changed
    (tile,) = fixed.kernels[0].tiles
    assert tile.reason_line == 15
    assert "Swizzle<5,0,5>" in tile.mapping
    assert fixed.kernels[0].suggest == "ncu-swizzle explain columns"


APART = """
__global__ void floats(float *out, const float *in) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""


@pytest.mark.long
@NEEDS_ALL
def test_kernels_of_one_source_are_fixed_each_with_arrays_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.cu").write_text(APART + APART.replace("float", "int"), encoding="utf-8")
    described = (DESCRIBED.format(name=name, dtype=dtype) for name, dtype in (("floats", "float32"), ("ints", "int32")))
    (tmp_path / "ncu-swizzle.toml").write_text("".join(described), encoding="utf-8")
    fixed = fix_all("two.cu")
    assert all(kernel.proved for kernel in fixed.kernels)
    assert fixed.after.count(b"threadIdx.x ^ threadIdx.y") == 2


@NEEDS_ALL
@pytest.mark.slow
def test_a_patch_of_shared_code_is_proved_for_every_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.cu").write_text(SHARED, encoding="utf-8")
    toml = "".join(
        DESCRIBED.format(name=name, dtype=dtype) for name, dtype in (("floats", "float32"), ("ints", "int32"))
    )
    (tmp_path / "ncu-swizzle.toml").write_text(toml, encoding="utf-8")
    floats, ints = fix_all("two.cu").kernels
    assert floats.proved
    assert ints.along
    # Described alone, it may not change the other one.
    (tmp_path / "ncu-swizzle.toml").write_text(DESCRIBED.format(name="ints", dtype="int32"), encoding="utf-8")
    (alone,) = fix_all("two.cu").kernels
    assert not alone.proved
    assert "of which no launch is described" in alone.tiles[0].reason


def test_sarif_has_the_fix_of_a_finding_and_of_no_other() -> None:
    before, after = b"a\nb\nc\n", b"a\nB\nB2\nc\n"
    fixed = SourceFix(source=Path("my.cu"), before=before, after=after, kernels=())
    verdict = Verdict(
        checks=tuple(
            Check(outcome=Outcome.failed, kernel=name, criterion=MAX_DEGREE, message="", place=Place("my.cu", 2))
            for name in "kl"
        )
    )
    with_fixes = shown.corrected(verdict, [fixed])
    with_fixes = replace(with_fixes, corrections=(replace(with_fixes.corrections[0], kernels=("k",)),))
    of_k, of_l = json.loads(reporting.render_sarif(with_fixes))["runs"][0]["results"]
    assert "fixes" not in of_l
    (change,) = of_k["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 2, "startColumn": 1, "endLine": 3, "endColumn": 1},
            "insertedContent": {"text": "B\nB2\n"},
        }
    ]


def test_a_page_shows_hostile_names_harmlessly() -> None:
    fixed = SourceFix(source=Path("<script>.cu"), before=b"<img src=x>\n", after=b"<b>\n", kernels=())
    made = shown.render(fixed)
    assert "<img" not in made
    assert "&lt;img src=x&gt;" in made
