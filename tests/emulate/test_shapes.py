"""Tiles of other shapes: what is said of them against what an oracle computes, and whether what is named would fit."""

from __future__ import annotations

import random
import re

import pytest

from tests.support.shape_cases import bases
from tests.support.shape_mutations import mutations, repaired, shape_case, together
from tests.support.tile_oracle import outcome

PRODUCTS = 64  # of 4 blocks, 4 tiles and 4 steps
SINGLE, PAIRS = 3, 1  # mutations of each launch, in the slow test


RIGHT = (
    *("half64kk 128", "half64mm 64", "tf32 32", "int8 16", "half64kk 16 2-D 5-D", "multicast 64"),
    *("half64kk 128: base 640", "half64kk 128: a map type 1", "half64kk 64: a in words of type 2"),
)


@pytest.mark.long
@pytest.mark.parametrize("label", RIGHT)
def test_what_computes_right_results_is_not_flagged(label: str) -> None:
    case = shape_case(label)
    assert outcome(case.gemm, case.arrangements) == "right"
    found = case.judged()
    assert not found.misfits
    assert not found.lacking
    assert found.followed == PRODUCTS * (2 if case.gemm.multicast else 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("half64kk 128: a depth 0 0", "A and B are not side by side along K: A begins with element (0, 0)"),
        ("half64kk 32: b depth 1 8", "adds up products of different rows: B begins with element (64, 8)"),
        ("multicast 32: b box 1 8", "adds up products of different rows"),
        ("half64kk 128: a start 8192", "no wgmma reads any box of this tensor map"),
        ("half64kk 32: b boxes", "row 0, k 0 is at .* where no copy has written anything"),
        ("half64mm 128: a map size 0 127", "the tensor map of A ends before the results that are stored"),
        ("half64kk 128 4-D 3-D: a map stride 2 16", "parts of 128 bytes overlap .* stride is 16: 128 would fit"),
        ("half64kk 64 4-D 2-D: a map size 3 7", "A is filled from k 0 on"),
        ("half64kk 128: base 64", "a tensor copy to .* must be a multiple of 128"),
        ("half64kk 64: a in words of type 11", "which rounds words of 4 bytes"),
        ("registersK 128: b SBO 512", "an SBO of 1024 would fit"),
        ("fp8 64: b mode 1", "which TMA wrote with the 64-byte swizzle.* the 64-byte mode would fit"),
    ],
)
def test_what_computes_wrong_results_is_named(label: str, said: str) -> None:
    case = shape_case(label)
    assert outcome(case.gemm, case.arrangements) != "right"
    messages = " / ".join(misfit.message for misfit in case.judged().misfits)
    pattern = ".*".join(map(re.escape, said.split(".*")))
    assert re.search(pattern, messages), messages


NAMED = (
    *("half64kk 128: a SBO 512", "half64mm 64: b LBO 512", "tf32 32: a mode 1", "fp8 128: b base offset 3"),
    *("half64kk 128: a start 32", "half64kk 64 3-D 3-D: b map swizzle 0", "half64kk 128: b map box 1 32"),
)


@pytest.mark.long
@pytest.mark.parametrize("label", NAMED)
def test_what_is_named_fits(label: str) -> None:
    case = shape_case(label)
    found = case.judged().misfits
    assert found
    after = repaired(case, found[0].message)
    assert outcome(after.gemm, after.arrangements) == "right", found[0].message
    assert not after.judged().misfits


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("registersK 128", "is in registers: whether its K goes with that of B is not known"),
        ("half64kk 128 3-D 2-D: a map interleave 1", "a tensor map is not understood"),
    ],
)
def test_what_is_not_known_is_said(label: str, why: str) -> None:
    found = shape_case(label).judged()
    assert not found.misfits
    assert why in found.lacking


@pytest.mark.slow
def test_every_wrong_mutation_is_flagged_and_no_right_one() -> None:
    choose = random.Random(21)
    for base in bases():
        chosen = [*choose.sample(list(mutations(base)), SINGLE), *together(base, choose, PAIRS)]
        for case in [base, *chosen]:
            fate = outcome(case.gemm, case.arrangements)
            if fate in ("race", "unknown"):
                continue
            found = case.judged()
            if fate == "right" or not case.gemm.a_in_registers:
                assert bool(found.misfits) == (fate != "right"), (case.label, fate, found)
            assert found.misfits or bool(found.lacking) == case.gemm.a_in_registers, (case.label, found)
