"""Certificates: one script, which says what it shows, and whose every query another solver answers with unsat."""

from pathlib import Path

import pytest

from ncu_swizzle.certify.certificate import queries, written
from ncu_swizzle.certify.change import ChangeVerdict, UnitVerdict
from ncu_swizzle.certify.verdict import Assumption, KernelVerdict, ProofOutcome, Query
from ncu_swizzle.commands.api import prove
from tests.support.marks import NEEDS_ALL

SMT = "(set-logic QF_BV)\n(declare-const x (_ BitVec 32))\n(assert (bvult x #x00000000))\n(check-sat)\n"
PROVED = ChangeVerdict(
    compiler="13.0",
    sources=(("a.cu\n(assert false)", "1", "2"),),
    units=(
        UnitVerdict(
            source=Path("a.cu"),
            arch="sm_90a",
            digests=("3", "4"),
            unchanged=("_Z1bv",),
            kernels=(
                KernelVerdict(
                    kernel="_Z1av",
                    outcome=ProofOutcome.PROVED,
                    block=(32, 8, 1),
                    assumptions=(Assumption.IN_BOUNDS, Assumption.NO_WRAP),
                    queries=(Query(says='it is "in" bounds', line=("/a.cu", 3), smt=SMT),) * 2,
                ),
            ),
        ),
    ),
)


def test_a_certificate_says_what_it_shows() -> None:
    text = written(PROVED)
    assert [said.partition(", ")[0] for said, _ in queries(text)] == ["a", "a"]
    assert all(said.endswith(':3: it is "in" bounds') for said, _ in queries(text))
    assert [script.startswith(SMT) for _, script in queries(text)] == [True, True]
    for line in ("; PTX: SHA-256 3, then 4", "; kernel _Z1bv: the same code", f"; assumed: {Assumption.NO_WRAP.value}"):
        assert line in text.splitlines()
    # A name with a line end stays within its comment.
    assert [line for line in text.splitlines() if line.startswith("(assert false")] == []


@pytest.mark.long
@NEEDS_ALL
def test_a_second_solver_agrees(turns: Path) -> None:
    z3 = pytest.importorskip("z3")
    change = prove(turns / "before.cu", turns / "right.cu", block=(32, 8), queries=True)
    assert change.outcome is ProofOutcome.PROVED
    scripts = [script for _, script in queries(written(change))]
    assert scripts
    for script in scripts:
        solver = z3.Solver()
        solver.from_string(script)
        assert solver.check() == z3.unsat
