"""Tiles from tensor maps to wgmma and tcgen05.mma: what is said of them against what an H100 or an oracle computes."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from bench.gemms import MutatedCase, ShapeCase, mutated_cases, repaired, shape_case
from bench.tile_oracle import outcome
from bench.umma_cases import UmmaCase
from bench.umma_mutations import umma_case
from ncu_swizzle.emulate.code import STEP
from ncu_swizzle.emulate.run import emulate
from tests.support.emulation import kernel
from tests.support.places import table

CASES = table("emulate/tiles.toml")
LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("measured", "shapes", "tcgen05_more")]
groups = pytest.mark.parametrize("group", ["quick", "tcgen05", *LONG])


def case(label: str) -> MutatedCase | ShapeCase:
    measured = (one for one in mutated_cases() if one.label == label)
    return next(measured, None) or shape_case(label)


def cases(group: str, computes: str) -> Iterator[tuple[MutatedCase | ShapeCase | UmmaCase, Any]]:
    """Yield the cases of a group whose results are right or wrong, and what is said of each."""
    find = umma_case if group.startswith("tcgen05") else case
    for label, said in CASES[group][computes].items():
        one = find(label)
        assert one.right == (computes == "right"), label
        yield one, said


@groups
def test_what_computes_right_results_is_not_flagged(group: str) -> None:
    for one, followed in cases(group, "right"):
        found = one.judged()
        assert (list(found.misfits), list(found.lacking), found.followed) == ([], [], followed), one.label


@groups
def test_what_computes_wrong_results_is_named(group: str) -> None:
    for one, said in cases(group, "wrong"):
        pattern = ".*".join(map(re.escape, said.split(".*")))
        messages = [f"{misfit.code} {misfit.message}" for misfit in one.judged().misfits]
        assert any(re.search(pattern, message) for message in messages), (one.label, messages)


@pytest.mark.long
def test_what_is_named_fits() -> None:
    for label in CASES["shapes"]["repaired"]:
        wrong = shape_case(label)
        message = wrong.judged().misfits[0].message
        after = repaired(wrong, message)
        assert after.right, message
        assert not after.judged().misfits, message


@pytest.mark.long
def test_what_is_not_known_is_said() -> None:
    for label, why in CASES["unknown"].items():
        found = shape_case(label).judged()
        assert not found.misfits, label
        assert why in found.lacking, label


def test_a_launch_says_what_does_not_fit() -> None:
    code = kernel("tiles", "kk")
    counts = emulate(code, case("0 A SBO 512").launch())
    blamed = [code.instructions[misfit.offset // STEP].text for misfit in counts.tiles.misfits]
    assert len(blamed) == 4
    assert all(text.startswith("HGMMA") for text in blamed)
    assert not counts.unknown


@pytest.mark.parametrize("label", ["0 as it is", "0 A SBO 512", "0 K pairs swapped", "5 A map outer size 512"])
def test_a_gemm_computes_what_it_did(label: str) -> None:
    case = next(one for one in mutated_cases() if one.label == label)
    assert outcome(case.gemm(), case.arrangements) == case.fields["result"]
