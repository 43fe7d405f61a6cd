"""What TTGIR says of accesses with conflicts, from texts of Triton 3.6 and 3.9 and from counts of an H100."""

from dataclasses import replace

import pytest

from ncu_swizzle.reports import layouts, pack
from ncu_swizzle.reports.model import Profile
from tests.support.places import DATA

TEXTS = DATA / "python" / "ttgir"
TF32, SUMS = "matmul-tf32-triton3.6", "column-sums-triton3.6"


def text(name: str) -> str:
    return (TEXTS / f"{name}.ttgir").read_text(encoding="utf-8")


@pytest.mark.parametrize("version", ["3.6", "3.9"])
def test_operations_on_shared_memory_are_read_with_their_lines_and_layouts(version: str) -> None:
    view = layouts.read(text(f"matmul-tf32-triton{version}"))
    assert view.warps == 4
    copies = [each for each in view.operations if each.reaches("LDGSTS")]
    assert {(each.operand, each.shape, each.element, each.contiguous) for each in copies} == {
        ("a_tile", (128, 32), "f32", 4),
        ("b_tile", (32, 128), "f32", 4),
    }
    assert {each.places for each in copies} == {(("matmul.py", 25),)}
    turned = next(each for each in copies if each.operand == "b_tile")
    assert turned.layouts[1] == "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 32}>"
    (dot,) = (each for each in view.operations if each.reaches("HGMMA"))
    assert dot.name == "ttng.warp_group_dot"
    (conversion,) = (each for each in view.operations if each.reaches("LDS"))
    assert (conversion.name, conversion.places) == ("ttg.convert_layout", (("matmul.py", 30),))


def test_an_operation_with_a_region_has_the_callers_of_its_line() -> None:
    (reduction,) = (each for each in layouts.read(text(SUMS)).operations if each.name == "tt.reduce")
    assert (reduction.axis, reduction.shape, reduction.operand) == (0, (32, 64), "total")
    assert reduction.places == (("triton/language/standard.py", 293), ("tiles.py", 29))


def test_what_is_not_ttgir_says_nothing() -> None:
    for other in (
        "",
        "module {",
        "%x = ttg.convert_layout",
        "%x = ttg.convert_layout %y : loc(#loc1)\n#loc1 = loc(#loc1)",
    ):
        assert all(not each.places for each in layouts.read(other).operations)


def test_a_product_in_tf32_is_told_to_store_b_the_other_way(profiles: dict[str, Profile]) -> None:
    explained = layouts.explained(profiles[TF32], text(TF32), explicit=False)
    (note,) = explained.layouts
    assert note.text.startswith("matmul.py:25 is ttg.async_copy_global_to_local of b_tile, 32x128xf32, #ttg.blocked<{")
    assert "transposed = true, elementBitWidth = 32}>, LDGSTS of 4 bytes, degree 16.00: wgmma reads 32-bit" in note.text
    assert note.text.endswith(
        "store b_tile with K contiguous (strides 1 along K), or make both operands of tl.dot float16 or bfloat16"
    )
    offsets = {access.pc for access in explained.shared() if (access.wavefronts or 0) > (access.ideal or 0)}
    assert set(note.offsets) == offsets
    assert Profile.from_json(explained.to_json()) == explained
    (finding,) = (each for each in pack.findings(explained) if each.rule == "SwizzleAdvice")
    assert finding.title == "Layout Advice"
    assert finding.message == f"{note.text}."


def test_a_reduction_over_several_warps_is_told_to_try_one(profiles: dict[str, Profile]) -> None:
    notes = layouts.explained(profiles[SUMS], text(SUMS), explicit=False).layouts
    (note,) = notes
    assert note.text.startswith("tiles.py:29 is tt.reduce of total along axis 0, 32x64xf32, #ttg.blocked<{")
    assert ", STS of 4 bytes, degree 8.00 and LDS of 4 bytes, degree 8.00: axis 0 is spread over 4 warps" in note.text
    assert note.text.endswith("--before num_warps=4 --after num_warps=1 compares with one warp")


def test_without_conflicts_or_without_a_text_nothing_is_said(profiles: dict[str, Profile]) -> None:
    profile = profiles[TF32]
    assert layouts.explained(profile, "", explicit=False).layouts == ()
    ideal = tuple(replace(each, wavefronts=each.ideal) for each in profile.instructions)
    assert layouts.explained(replace(profile, instructions=ideal), text(TF32), explicit=False).layouts == ()
    assert layouts.explained(profile, text(SUMS), explicit=False).layouts == ()
