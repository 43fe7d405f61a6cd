"""A kernel that names its layout is fixed by naming another one, with the places inferred from the accesses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.catalog import collection, kernel_spec, project, project_kernels
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.by_name import Naming
from ncu_swizzle.fix.fixing import FixOptions, fix
from ncu_swizzle.fix.other_kernels import OtherKernels
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.patch.candidates import MappingKind
from ncu_swizzle.patch.headers import source_of
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

XOR = "column ^ (row & 31)"


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with two kernels that are given policies of one header."""
    shutil.copytree(DATA / "fix" / "policies", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(fixed: SourceFix) -> list[str]:
    """Return the lines that a patch writes."""
    return [row[1:].strip() for row in shown.patch_of(fixed).splitlines() if row[0] == "+" and row[:3] != "+++"]


def rewritten(folder: Path, old: str, new: str, file: str = "places.cuh") -> None:
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")


@NEEDS_ALL
@pytest.mark.usefixtures("policies")
def test_the_sibling_without_excess_is_named_in_one_line_and_other_sources_stay() -> None:
    fixed = fix_all(FixQuery("turned.cu"))
    assert changed(fixed) == ["turn<places::Mixed<32>>(out, in);"]
    (kernel,) = fixed.kernels
    (tile,) = kernel.tiles
    assert (tile.name, tile.file, tile.line) == ("tile", "turning.cuh", 5)
    assert (tile.mapping, tile.extra_bytes) == ("places::Mixed, Swizzle<5,0,5> on elements of 4 bytes", 0)
    assert (tile.excess_before, tile.excess_after) == (31 * 32, 0)
    assert kernel.proof is not None
    assert [claim.state for claim in kernel.proof.claims] == ["held"] * 4


@NEEDS_ALL
@pytest.mark.usefixtures("policies")
def test_padding_is_a_sibling_that_takes_more_bytes() -> None:
    fixed = fix_all(FixQuery("turned.cu", options=FixOptions(MappingKind.PADDING)))
    assert changed(fixed) == ["turn<places::Longer<32>>(out, in);"]
    (tile,) = fixed.kernels[0].tiles
    assert (tile.mapping, tile.extra_bytes) == ("places::Longer, rows of 33 instead of 32 elements of 4 bytes", 128)
    short = fix_all(FixQuery("turned.cu", options=FixOptions(MappingKind.PADDING, max_shared=4200)))
    assert not short.changed


@NEEDS_ALL
@pytest.mark.parametrize(
    "wrong", ["column & 30 ^ row & 31", "column ^ ((row + (threadIdx.y == 0 && column == 3)) & 31)"]
)
def test_a_sibling_that_loses_elements_or_reads_others_is_refused(
    policies: Path, wrong: str, emulated: Context
) -> None:
    rewritten(policies, XOR, wrong)
    rewritten(policies, "column ^ (row & 15)", "column")
    settings = EmulationSettings.of(emulated.request)
    (family,) = (family for family in _families(policies) if family.kernels[0].name == "turned")
    target = Target(family, family.kernels[0], family.problem())
    others = OtherKernels(target, (), None, emulated, settings)
    naming = Naming(target, source_of(target), MappingKind.SWIZZLE, None, emulated, settings, others)
    assert naming.fix() is None
    assert naming.stop is not None
    assert "the accesses do not agree on one place" in naming.stop.reason


def _families(folder: Path) -> list[Family]:
    settings = project.read(folder / project.OWN)
    return [kernel_spec.family(spec) for spec in project_kernels.specs(settings)]


@NEEDS_ALL
@pytest.mark.slow
def test_a_policy_may_be_named_in_an_alias_or_a_default(policies: Path) -> None:
    named = "template <class Place = places::Rows<32>> __device__ void turn_by(float *out, const float *in)"
    for declared, call in (
        ("using Place = places::Rows<32>;", "turn<Place>(out, in);"),
        (f"{named} {{ turn<Place>(out, in); }}", "turn_by(out, in);"),
    ):
        source = f'#include "places.cuh"\n#include "turning.cuh"\n{declared}\n'
        (policies / "turned.cu").write_text(f"{source}__global__ void turned(float *out, const float *in) {{ {call} }}")
        assert changed(fix_all(FixQuery("turned.cu"))) == [declared.replace("Rows", "Mixed")]


@NEEDS_ALL
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("transpose-plain", {}),
        ("vectors-4-stride", {}),
        ("vectors-8-stride", {}),
        ("vectors-16-stride", {}),
        ("gemm-plain", {"n": 256}),
        ("kernel1", {"seq": 128}),
    ],
)
def test_the_catalogues_plain_kernels_become_its_swizzled_ones(
    name: str, problem: dict[str, int], emulated: Context
) -> None:
    target = collection.shipped().target(name)
    made: KernelFix = fix(replace(target, problem=target.family.problem(problem)), FixOptions(), emulated)
    assert made.proved
    assert [tile.excess_after for tile in made.tiles] == [0]
    assert made.tiles[0].mapping.startswith("layout::XorSwizzle, Swizzle<")
    assert made.after == made.before.replace(b"<layout::RowMajor<", b"<layout::XorSwizzle<").replace(
        b", layout::RowMajor<", b", layout::XorSwizzle<"
    )
