"""Correct fixes of the corpus are proved, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import proving, values
from ncu_swizzle.fix.claims import About, ClaimState, Proof
from ncu_swizzle.fix.proving import prove, prove_version
from tests.support import fixes
from tests.support.fix_corpus import REFUSED, OnceEmulated, specs, with_text
from tests.support.fixes import FIXES, array, padded, swizzled
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
FAST = ("rows-transpose", "carved-matmul", "ldmatrix-gemm")


def proved(name: str, folder: Path, settings: EmulationSettings) -> Proof:
    before, after = fixes.apply(name, folder)
    return prove(before, after, FIXES[name].moved, settings)


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in FIXES])
def test_a_correct_fix_is_proved(name: str, tmp_path: Path, settings: EmulationSettings) -> None:
    proof = proved(name, tmp_path, settings)
    assert proof.held, proof.obstacle
    assert [claim.about for claim in proof.claims] == [About.REBUILT, About.EXCESS, About.MEANING, About.RESOURCES]
    assert set(proof.after.moved.values()) == {0}
    assert all(proof.before.moved.values())
    accesses, results = proof.compared
    assert "the same elements per thread" in accesses
    assert "unknown" not in results
    assert "no results" not in results


@pytest.mark.long
def test_what_a_fix_takes_is_told(tmp_path: Path, settings: EmulationSettings) -> None:
    proof = proved("carved-matmul", tmp_path, settings)
    assert proof.resources_before is not None
    assert proof.resources_after is not None
    assert proof.resources_before.shared_dynamic == 8192
    assert proof.resources_after.shared_dynamic == 8192 + 128
    claim = proof.claim(About.RESOURCES)
    assert claim is not None
    assert "8,320 bytes of shared memory per block for 8,192" in claim.reason


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in REFUSED if name != "refused-registers"])
def test_what_data_decide_cannot_be_proved(name: str, once_emulated: OnceEmulated) -> None:
    kernel = once_emulated(name)
    reason, file, line = REFUSED[name]
    outcome = proving.compare(kernel, kernel, [], 60)
    assert outcome.state is ClaimState.UNKNOWN
    assert outcome.reason.startswith(reason)
    assert outcome.line == (file, line)


@pytest.mark.long
def test_a_forgotten_subscript_is_found_and_its_line_named(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target, fix = specs()["rows-transpose"], FIXES["rows-transpose"]
    (old, new), *_ = fix.edits
    wrong = with_text(target, fix.text(target).replace(new, old), tmp_path)
    proof = prove_version(once_emulated("rows-transpose"), wrong, fix.moved, settings)
    assert proof.state is ClaimState.FAILED
    claim = proof.claim(About.MEANING)
    assert claim is not None
    assert claim.line == ("rows_transpose.cu", 11)
    assert "writes tile[" in claim.reason


@pytest.mark.long
def test_a_fix_that_leaves_conflicts_is_refused(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target = specs()["rows-transpose"]
    half = target.source.read_text(encoding="utf-8").replace("tile[32][32]", "tile[32][34]")
    moved = array("tile", 1024, 4, padded(32, 2), after=32 * 34)
    old = once_emulated("rows-transpose")
    proof = prove_version(old, with_text(target, half, tmp_path), [moved], settings)
    assert proof.state is ClaimState.FAILED
    assert proof.obstacle is not None
    assert proof.obstacle.about is About.EXCESS
    assert "tile still has" in proof.obstacle.reason
    allowed = replace(moved, least=proof.after.moved["tile"] or 0, reason="as little as possible")
    assert prove_version(old, with_text(target, half, tmp_path), [allowed], settings).held


def test_a_wrong_mapping_proves_nothing(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target, after = fixes.apply("macro-transpose", tmp_path)
    wrong = array("tile", 1024, 4, lambda i: swizzled(32)(i) ^ 1)
    old = once_emulated(target.name)
    proof = prove_version(old, after, [wrong], settings)
    claim = proof.claim(About.MEANING)
    assert claim is not None
    assert claim.state is ClaimState.FAILED


def test_a_version_that_does_not_compile_is_refused(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target = specs()["rows-transpose"]
    broken = with_text(target, "__global__ void transpose(int) { nothing }", tmp_path)
    proof = prove_version(once_emulated("rows-transpose"), broken, [], settings)
    assert proof.state is ClaimState.FAILED
    assert proof.obstacle is not None
    assert proof.obstacle.about is About.REBUILT


def test_other_results_are_found_where_the_accesses_are_the_same(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target, fix = specs()["ldmatrix-gemm"], FIXES["ldmatrix-gemm"]
    text = fix.text(target).replace("mma(sums[0], fa, fb[0], fb[2])", "mma(sums[0], fa, fb[2], fb[0])")
    wrong = with_text(target, text, tmp_path)
    proof = prove_version(once_emulated("ldmatrix-gemm"), wrong, fix.moved, settings)
    claim = proof.claim(About.MEANING)
    assert claim is not None
    assert claim.state is ClaimState.FAILED
    assert "of c, which block" in claim.reason


@pytest.mark.long
def test_the_results_of_a_kernel_are_its_own(once_emulated: OnceEmulated) -> None:
    kernel = once_emulated("ldmatrix-gemm")
    compared = values.compare(kernel, kernel, [(0, 0, 0), (3, 1, 0)], 60)
    assert compared.complete
    assert compared.same == 2 * 32 * 32 * 4


@pytest.mark.long
def test_accesses_fill_the_arrays_of_a_kernel(once_emulated: OnceEmulated) -> None:
    kernel = once_emulated("stages-matmul")
    (stage,) = kernel.arrays
    everything = np.concatenate([made.addresses[made.active] for made in kernel.emulated.counts.requests.values()])
    assert everything.min() == stage.start
    assert everything.max() == stage.start + stage.size - 4
