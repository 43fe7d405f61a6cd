"""A kernel that names its layout is fixed by naming another one, with the places inferred from the accesses."""

from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.by_name import Naming
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.edits import source_of
from ncu_swizzle.fix.result import FixJob
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.kernels import naming
from tests.support.fixes import Projects
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL


def changed(fix: SourceFix) -> list[str]:
    """Return the lines that a patch writes."""
    return [row[1:].strip() for row in shown.patch_of(fix).splitlines() if row[0] == "+" and row[:3] != "+++"]


def rewritten(file: Path, *edits: tuple[str, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


@pytest.mark.long
def test_the_sibling_without_excess_is_named_in_one_line_and_other_sources_stay(project: Projects) -> None:
    project("policies")
    fix = fix_all("turned.cu")
    assert changed(fix) == ["turn<places::Mixed<32>>(out, in);"]
    (kernel,) = fix.kernels
    (tile,) = kernel.tiles
    assert (tile.name, tile.file, tile.line) == ("tile", "turning.cuh", 5)
    assert (tile.mapping, tile.extra_bytes) == ("places::Mixed", 0)
    assert (tile.excess_before, tile.excess_after) == (31 * 32, 0)
    assert [claim.state for claim in kernel.proof.claims] == ["held"] * 4


@pytest.mark.long
def test_padding_is_a_sibling_that_takes_more_bytes(project: Projects) -> None:
    project("policies")
    fix = fix_all("turned.cu", FixQuery(options=FixOptions(MappingKind.PADDING)))
    assert changed(fix) == ["turn<places::Longer<32>>(out, in);"]
    (tile,) = fix.kernels[0].tiles
    assert (tile.mapping, tile.extra_bytes) == ("places::Longer", 128)
    short = fix_all("turned.cu", FixQuery(options=FixOptions(MappingKind.PADDING, max_shared=4200)))
    assert not short.changed


@pytest.mark.parametrize(
    "wrong", ["column & 30 ^ row & 31", "column ^ ((row + (threadIdx.y == 0 && column == 3)) & 31)"]
)
def test_a_sibling_that_loses_elements_or_reads_others_is_refused(
    wrong: str, project: Projects, settings: EmulationSettings
) -> None:
    places = project("policies") / "places.cuh"
    rewritten(places, ("column ^ (row & 31)", wrong), ("column ^ (row & 15)", "column"))
    target = naming.everything().target("turned")
    options = FixOptions(MappingKind.SWIZZLE)
    named = Naming(job=FixJob(target=target, text=source_of(target), settings=settings, options=options))
    assert named.cheapest() is None
    assert "the accesses do not agree on one place" in named.stop.reason
