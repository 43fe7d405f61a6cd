"""The page's pictures of fragments: those that occur in the SASS, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncu_swizzle.render import page
from ncu_swizzle.reports.comparison import compare
from tests.support.pages import rendered
from tests.support.recordings import Recorded


def titles(recorded: Recorded, *sass: str) -> list[str]:
    profile = recorded("transpose-plain")
    first = profile.instructions[0]
    changed = replace(profile, instructions=tuple(replace(first, sass=text) for text in sass))
    return [shape.title for shape in page.fragment_section(compare([changed]))]


def test_the_attention_kernels_show_what_they_load_and_multiply(recorded: Recorded) -> None:
    shapes = page.fragment_section(compare([recorded("kernel1"), recorded("kernel2")]))
    assert [shape.title for shape in shapes] == ["ldmatrix.x4", "ldmatrix.x4.trans", "mma.m16n8k16, 16-bit operands"]
    plain, turned, product = shapes
    assert [len(picture.parts) for picture in product.pictures] == [128, 64, 64], "a part is a lane's pair"
    assert {(part.lane, part.label) for part in plain.pictures[2].parts} == {(n, f"{n}:r2") for n in range(32)}
    assert (plain.pictures[0].parts[1].lane, turned.pictures[0].parts[1].lane) == (1, 4), "along rows, along columns"
    assert product.pictures[0].parts[4].label == "0:a4,5"


@pytest.mark.parametrize(
    ("sass", "title"),
    [
        ("LDSM.16.M88 R4, [R2]", "ldmatrix.x1"),
        ("LDSM.16.MT88.2 R4, [R2]", "ldmatrix.x2.trans"),
        ("@!P0 HMMA.1688.F32 R4, R2, R3, R4", "mma.m16n8k8, 16-bit operands"),
        ("HMMA.1688.F32.TF32 R4, R2, R3, R4", None),
        ("HMMA.1684.F32.TF32 R4, R2, R3, R4", None),
        ("LDS R4, [R2]", None),
    ],
)
def test_only_known_shapes_are_shown(recorded: Recorded, sass: str, title: str | None) -> None:
    assert titles(recorded, sass) == ([title] if title else [])


def test_a_kernel_without_them_has_no_such_section(recorded: Recorded) -> None:
    assert "fragments" not in rendered(recorded("transpose-plain")).values("id")
    assert "fragments" in rendered(recorded("kernel2")).values("id")
