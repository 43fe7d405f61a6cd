"""Counterexamples in the emulator: what a read gets decides, not whether two accesses may meet."""

from pathlib import Path

import pytest

from ncu_swizzle.certify.replay import replayed
from ncu_swizzle.certify.verdict import Counterexample, KernelVerdict, MovedAccess, ProofOutcome
from ncu_swizzle.kernels import halves
from ncu_swizzle.kernels.halves import TranslationUnit, Tree
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL

pytestmark = [pytest.mark.long, NEEDS_ALL]
SYMBOL = "_Z4turnPKfPfi"
# A candidate that says nothing true: what becomes of it is the emulator's.
FOUND = Counterexample(
    what="two accesses meet",
    array="tile",
    accesses=(MovedAccess(thread=(5, 3, 0), line=("turn.cu", 4), width=4, write=True, before=0, after=0),),
    block=(1, 1, 0),
    values={f"{SYMBOL}_param_2": 100},
)


def ptx(folder: Path, name: str) -> str:
    return halves.compiled(
        TranslationUnit(source=folder / f"{name}.cu"), "sm_90a", Toolchain(), Tree(folder, folder)
    ).ptx


@pytest.mark.parametrize(
    ("version", "outcome", "said"),
    [
        ("right", ProofOutcome.UNPROVED, "not confirmed by the emulator"),
        ("padded", ProofOutcome.UNPROVED, "not confirmed by the emulator"),
        ("wrong", ProofOutcome.REFUTED, "other values are stored"),
        ("outside", ProofOutcome.REFUTED, "other values are stored"),
    ],
)
def test_a_candidate_is_a_refutation_if_the_emulator_shows_it(
    version: str, outcome: ProofOutcome, said: str, turns: Path
) -> None:
    candidate = KernelVerdict(kernel=SYMBOL, outcome=ProofOutcome.REFUTED, counterexample=FOUND, block=(32, 8, 1))
    verdict = replayed(candidate, ptx(turns, "before"), ptx(turns, version), None, Toolchain())
    assert verdict.outcome is outcome
    assert verdict.counterexample is not None
    assert said in (verdict.obstacle.reason if verdict.obstacle else verdict.counterexample.what)
