"""Tiles from tensor maps to wgmma: what is said of them against what an H100, or the oracle, computes with them."""

import re

import pytest

from bench.gemms import MutatedCase, ShapeCase, mutated_cases, repaired, shape_case
from bench.tile_oracle import outcome
from ncu_swizzle.emulate.code import STEP
from ncu_swizzle.emulate.run import emulate
from tests.support.emulation import kernel
from tests.support.places import table

CASES = table("emulate/tiles.toml")
EVERY = 4  # of the measured cases, in the slow test: 200 and more
groups = pytest.mark.parametrize(
    "group", ["quick", *(pytest.param(name, marks=pytest.mark.long) for name in ("measured", "shapes"))]
)


def case(label: str) -> MutatedCase | ShapeCase:
    measured = (one for one in mutated_cases() if one.label == label)
    return next(measured, None) or shape_case(label)


@groups
def test_what_computes_right_results_is_not_flagged(group: str) -> None:
    for label, followed in CASES[group]["right"].items():
        assert case(label).right, label
        found = case(label).judged()
        assert (list(found.misfits), list(found.lacking), found.followed) == ([], [], followed), label


@groups
def test_what_computes_wrong_results_is_named(group: str) -> None:
    for label, said in CASES[group]["wrong"].items():
        assert not case(label).right, label
        messages = " / ".join(misfit.message for misfit in case(label).judged().misfits)
        assert re.search(".*".join(map(re.escape, said.split(".*"))), messages), (label, messages)


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


@pytest.mark.slow
def test_every_wrong_case_is_flagged_and_no_right_one() -> None:
    chosen = mutated_cases()[::EVERY]
    flagged = {one.label: bool(one.judged().misfits) for one in chosen}
    assert flagged == {one.label: not one.right for one in chosen}


@pytest.mark.parametrize("label", ["0 as it is", "0 A SBO 512", "0 K pairs swapped", "5 A map outer size 512"])
def test_a_gemm_computes_what_it_did(label: str) -> None:
    case = next(one for one in mutated_cases() if one.label == label)
    assert outcome(case.gemm(), case.arrangements) == case.fields["result"]
