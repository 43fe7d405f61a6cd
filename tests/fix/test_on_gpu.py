"""What is launched on a GPU, and how what it said is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.fix import on_gpu
from ncu_swizzle.fix.claims import ClaimState
from ncu_swizzle.kernels.family import Target, write
from ncu_swizzle.kernels.family import read as read_family_json
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import fixes
from tests.support.marks import NEEDS_ALL


@pytest.mark.long
@NEEDS_ALL
def test_both_versions_are_kernels_of_one_family(tmp_path: Path) -> None:
    before, after = fixes.apply("carved-matmul", tmp_path / "after")
    family, (old, new) = on_gpu.together(before, after, tmp_path, Toolchain())
    write(family, tmp_path / "family.json")
    read = read_family_json(tmp_path / "family.json")
    assert [kernel.name for kernel in read.kernels] == ["before", "after"]
    assert list(read.source_texts()) == ["carved_matmul.cu"]
    assert Path(old.cubin).read_bytes() != Path(new.cubin).read_bytes()
    assert [Target(family, kernel, before.problem).launch.shared for kernel in (old, new)] == [8192, 8192 + 128]


@pytest.mark.parametrize(
    ("after", "state", "reason"),
    [
        (["a", "a"], ClaimState.HELD, "bit-identical"),
        (["b", "b"], ClaimState.FAILED, "y differs"),
        (["a", "b"], ClaimState.FAILED, "y differs"),
    ],
)
def test_outputs_must_be_bit_identical(after: list[str], state: ClaimState, reason: str) -> None:
    claim = on_gpu._outputs([{"before": {"y": ["a", "a"]}, "after": {"y": after}}])
    assert claim.state is state
    assert reason in claim.reason


def test_outputs_that_vary_by_themselves_prove_nothing() -> None:
    claim = on_gpu._outputs([{"before": {"y": ["a", "b"]}, "after": {"y": ["a", "b"]}}])
    assert claim.state is ClaimState.UNKNOWN
    assert on_gpu._outputs([{"before": {}, "after": {}}]).state is ClaimState.UNKNOWN


def test_an_output_that_varies_hides_no_wrong_one() -> None:
    draw = {"before": {"x": ["a", "b"], "y": ["c", "c"]}, "after": {"x": ["b", "a"], "y": ["d", "d"]}}
    claim = on_gpu._outputs([draw])
    assert (claim.state, claim.reason) == (ClaimState.FAILED, "y differs")


@pytest.mark.parametrize(
    ("after", "state"),
    [
        ([0.9] * 5, ClaimState.HELD),
        ([1.015] * 5, ClaimState.HELD),
        ([1.03] * 5, ClaimState.FAILED),
        ([1.03, 1.03, 1.03, 1.03, 0.9], ClaimState.UNKNOWN),
        ([1.03] * 12 + [0.9] * 3, ClaimState.FAILED),
        ([1.3] * 11 + [0.9] * 4, ClaimState.UNKNOWN),
    ],
)
def test_a_fix_may_not_be_slower_but_by_chance(after: list[float], state: ClaimState) -> None:
    assert on_gpu._time({"before": [1.0] * len(after), "after": after}).state is state


def test_one_slow_sample_before_the_fix_makes_it_no_faster() -> None:
    assert on_gpu._time({"before": [1.0, 1.0, 1.0, 1.0, 9.0], "after": [1.03] * 4 + [9.3]}).state is ClaimState.FAILED
