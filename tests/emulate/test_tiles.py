"""Tiles from tensor maps to wgmma: what is said of them against what an H100, or the oracle, computes with them."""

import re
from collections import Counter

import numpy as np
import pytest

from bench.gemms import MutatedCase, ShapeCase, mutated_cases, repaired, shape_case
from bench.tile_oracle import TensorMap, operand_bytes, outcome
from ncu_swizzle.emulate.code import STEP
from ncu_swizzle.emulate.run import emulate
from tests.support.emulation import kernel
from tests.support.places import measured, table

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


def test_the_measured_cases_are_of_every_kind() -> None:
    results = Counter(one.fields["result"] for one in mutated_cases())
    assert results == {"wrong": 516, "right": 235, "hang": 73, "refused": 41, "fault": 1}


@pytest.mark.slow
def test_every_wrong_case_is_flagged_and_no_right_one() -> None:
    chosen = mutated_cases()[::EVERY]
    flagged = {one.label: bool(one.judged().misfits) for one in chosen}
    assert flagged == {one.label: not one.right for one in chosen}


ROWS = {"A": 64, "B": 128}
WORD, MATRIX, LONGEST = 4, 64, 24576  # bytes of an element of the boxes; columns; bytes of shared memory


def test_descriptors_read_what_was_measured() -> None:
    rows = measured("descriptor_reads")
    assert len(rows) == 2800
    for row in rows:
        fields = (int(row[name]) for name in ("start", "leading", "stride", "base_offset", "mode"))
        across = row["mn"] == "1"
        at = operand_bytes(*fields, ROWS[row["side"]], across, 2)[:, :, 0]
        chunks = at.T.reshape(-1, 8)[:, 0] if across else at.reshape(-1, 8)[:, 0]
        assert (chunks // 16).tolist() == [int(word) for word in row["chunks"].split()], row


def test_boxes_are_where_they_were_measured() -> None:
    rows = measured("boxes")
    for row in rows:
        columns, high, start = (int(row[name]) for name in ("columns", "rows", "start"))
        tensor = TensorMap(2, (MATRIX, high), (MATRIX * WORD,), (columns, high), int(row["swizzle"]))
        assert tensor.refused == (row["result"] == "refused"), row
        if tensor.refused:
            continue
        buffer = np.arange(MATRIX * high, dtype=np.uint32).view(np.uint8)
        shared = np.full(LONGEST, 0xFF, np.uint8)
        tensor.copy(buffer, (0, 0), shared, start)
        found = ["." if word == 0xFFFFFFFF else str(word) for word in shared.view(np.uint32)[::4].tolist()]
        assert " ".join(found).rstrip(" .") == row["words"], row


@pytest.mark.parametrize("label", ["0 as it is", "0 A SBO 512", "0 K pairs swapped", "5 A map outer size 512"])
def test_a_gemm_computes_what_it_did(label: str) -> None:
    case = next(one for one in mutated_cases() if one.label == label)
    assert outcome(case.gemm(), case.arrangements) == case.fields["result"]
