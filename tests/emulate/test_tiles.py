"""Tiles from tensor maps to wgmma: what is said of mutated descriptors against what an H100 computed with them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter

import pytest

from ncu_swizzle.emulate.code import STEP
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.tensor_map import decoded
from tests.support.descriptor_cases import MutatedCase, mutated_cases
from tests.support.emulation import kernel
from tests.support.places import DATA

EVERY = 4  # of the cases, in the slow test: 200 and more


def case(label: str) -> MutatedCase:
    return next(one for one in mutated_cases() if one.label == label)


def test_the_cases_are_of_every_kind() -> None:
    results = Counter(one.fields["result"] for one in mutated_cases())
    assert results == {"wrong": 516, "right": 235, "hang": 73, "refused": 41, "fault": 1}


@pytest.mark.parametrize("label", ["5 as it is", "0 base 640", "0 K pairs swapped", "1 A LBO 1024"])
def test_what_computes_right_results_is_not_flagged(label: str) -> None:
    one = case(label)
    assert one.right
    found = one.judged()
    assert not found.misfits
    assert found.followed == 128  # 4 blocks, 2 warpgroups, 4 tiles, 4 steps


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("0 A SBO 512", "row 7 is element (0, 7) and row 8 is (0, 4).*an SBO of 1024 would fit"),
        ("0 A base offset 2", "but row 2, k 0 is (16, 2); a base offset of 0 would fit"),
        ("0 A map swizzle 0", "which TMA wrote with no swizzle.*CU_TENSOR_MAP_SWIZZLE_128B in the tensor map"),
        ("0 A map inner box 128", "a box of 128 elements, 256 bytes wide, exceeds the 128-byte swizzle: at most 64"),
        ("0 A step 64", "k 0 of A is element 32 along K, and that of B is element 16; a start 32 bytes earlier would"),
        ("0 A group 0", "no wgmma reads 512 of the 1,024 chunks of 16 bytes of the box"),
        ("0 A map inner size 248", "A is filled from k 8 on, where its tensor map (248 x 256 elements) ends"),
        ("0 A map outer size 255", "the tensor map of A ends before the results that are stored"),
        ("0 A map stride 528", "past the end of a (131,072 bytes)"),
        ("0 A map stride 496", "rows of 512 bytes overlap"),
        ("0 expected 65536", "never ends: 65,536 bytes are expected, and the boxes have 32,768"),
        ("5 expected 16384", "before the mbarrier at 0x400 has counted its bytes"),
    ],
)
def test_what_computes_wrong_results_is_named(label: str, said: str) -> None:
    one = case(label)
    assert not one.right
    messages = " / ".join(misfit.message for misfit in one.judged().misfits)
    assert re.search(".*".join(map(re.escape, said.split(".*"))), messages), messages


def test_a_launch_says_what_does_not_fit() -> None:
    one = case("0 A SBO 512")
    code = kernel("tiles", "kk")
    counts = emulate(code, one.launch())
    blamed = [code.instructions[misfit.offset // STEP].text for misfit in counts.tiles.misfits]
    assert len(blamed) == 4
    assert all(text.startswith("HGMMA") for text in blamed)
    assert not counts.unknown


@pytest.mark.slow
def test_every_wrong_case_is_flagged_and_no_right_one() -> None:
    chosen = mutated_cases()[::EVERY]
    assert len(chosen) > 200
    flagged = {one.label: bool(one.judged().misfits) for one in chosen}
    assert flagged == {one.label: not one.right for one in chosen}


def test_tensor_maps_are_decoded_as_they_were_encoded() -> None:
    decodable = 0
    with gzip.open(DATA / "tensor_maps_h100.jsonl.gz", "rt", encoding="utf-8") as lines:
        entries = [entry for entry in map(json.loads, lines) if entry["map"]]
    for entry in entries:
        tiled = decoded(bytes.fromhex(entry["map"]))
        plain = not entry["channels"] and set(entry["steps"]) == {1}
        assert (tiled is not None) == plain, entry
        if tiled is not None:
            decodable += 1
            assert tiled.encoded().hex() == entry["map"]
            assert [*tiled.sizes] == entry["sizes"]
            assert [*tiled.box] == entry["box"]
            assert (tiled.data_type, tiled.swizzle) == (entry["dtype"], entry["swizzle"])
    assert decodable == 121
