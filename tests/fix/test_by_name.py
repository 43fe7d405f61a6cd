"""A kernel that names its layout is fixed by naming another one, with the places inferred from the accesses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.by_name import Naming
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.copies import source_of
from ncu_swizzle.fix.fixing import fix_kernel
from ncu_swizzle.fix.result import FixJob
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.kernels import build, catalog, project
from ncu_swizzle.kernels.family import Family, Target
from ncu_swizzle.kernels.project import specs
from tests.support.marks import NEEDS_ALL

XOR = "column ^ (row & 31)"


def changed(fixed: SourceFix) -> list[str]:
    """Return the lines that a patch writes."""
    return [row[1:].strip() for row in shown.patch_of(fixed).splitlines() if row[0] == "+" and row[:3] != "+++"]


def rewritten(folder: Path, old: str, new: str, file: str = "places.cuh") -> None:
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.usefixtures("policies")
def test_the_sibling_without_excess_is_named_in_one_line_and_other_sources_stay() -> None:
    fixed = fix_all("turned.cu")
    assert changed(fixed) == ["turn<places::Mixed<32>>(out, in);"]
    (kernel,) = fixed.kernels
    (tile,) = kernel.tiles
    assert (tile.name, tile.file, tile.line) == ("tile", "turning.cuh", 5)
    assert (tile.mapping, tile.extra_bytes) == ("places::Mixed, Swizzle<5,0,5> on elements of 4 bytes", 0)
    assert (tile.excess_before, tile.excess_after) == (31 * 32, 0)
    assert kernel.proof is not None
    assert [claim.state for claim in kernel.proof.claims] == ["held"] * 4


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.usefixtures("policies")
def test_padding_is_a_sibling_that_takes_more_bytes() -> None:
    fixed = fix_all("turned.cu", FixQuery(options=FixOptions(MappingKind.PADDING)))
    assert changed(fixed) == ["turn<places::Longer<32>>(out, in);"]
    (tile,) = fixed.kernels[0].tiles
    assert (tile.mapping, tile.extra_bytes) == ("places::Longer, rows of 33 instead of 32 elements of 4 bytes", 128)
    short = fix_all("turned.cu", FixQuery(options=FixOptions(MappingKind.PADDING, max_shared=4200)))
    assert not short.changed


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    "wrong", ["column & 30 ^ row & 31", "column ^ ((row + (threadIdx.y == 0 && column == 3)) & 31)"]
)
def test_a_sibling_that_loses_elements_or_reads_others_is_refused(
    policies: Path, wrong: str, settings: EmulationSettings
) -> None:
    rewritten(policies, XOR, wrong)
    rewritten(policies, "column ^ (row & 15)", "column")
    (family,) = (family for family in _families(policies) if family.kernels[0].name == "turned")
    target = Target(family, family.kernels[0], family.problem())
    options = FixOptions(MappingKind.SWIZZLE)
    naming = Naming(job=FixJob(target=target, text=source_of(target), settings=settings, options=options))
    assert naming.cheapest() is None
    assert naming.stop is not None
    assert "the accesses do not agree on one place" in naming.stop.reason


def _families(folder: Path) -> list[Family]:
    settings = project.project_in(folder / project.OWN)
    return [build.family_of(spec) for spec in specs(settings)]


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
        assert changed(fix_all("turned.cu")) == [declared.replace("Rows", "Mixed")]


@NEEDS_ALL
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "problem", "sibling"),
    [
        ("transpose-plain", {}, "XorSwizzle"),
        ("vectors-4-stride", {}, "Padded"),  # with the XOR its results are unknown, and its code moves other constants
        ("vectors-8-stride", {}, "XorSwizzle"),
        ("vectors-16-stride", {}, "XorSwizzle"),
        ("gemm-plain", {"n": 256}, "XorSwizzle"),
        ("kernel1", {"seq": 128}, "XorSwizzle"),
    ],
)
def test_the_catalogues_plain_kernels_become_free_of_conflicts_by_one_name(
    name: str, problem: dict[str, int], sibling: str, settings: EmulationSettings
) -> None:
    target = catalog.shipped().target(name)
    target = replace(target, problem=target.family.problem(problem))
    made = fix_kernel(FixJob(target=target, text=source_of(target), settings=settings))
    assert made.proved
    assert [tile.excess_after for tile in made.tiles] == [0]
    assert made.tiles[0].mapping.startswith(f"layout::{sibling}, ")
    policy = f"layout::{sibling}<".encode()
    assert made.after == made.before.replace(b"layout::RowMajor<", policy)
