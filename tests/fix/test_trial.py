"""Right patches are proved, and nothing else is: not what data decide, nor versions that are wrong in any way."""

from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings, executable
from ncu_swizzle.fix import trial
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Excess, Proof, excess_claim, excess_of, spans_of
from ncu_swizzle.fix.trial import FixJob
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from tests.support.fixes import FIXES, OnceEmulated, adversaries, specs, with_text
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
WRITTEN = [name for name, fix in FIXES.items() if not fix.shared]  # the launch is as it was
TIERS = {"rows-transpose": pytest.mark.long, "async-columns": pytest.mark.long, "flat-stencil": pytest.mark.long}
ADVERSARIES = adversaries()


def tried(target: Target, text: str, settings: EmulationSettings) -> Proof:
    """Try a patch that has to lower the excess of all arrays that have some."""
    job = FixJob(target=target, text=target.source.read_bytes(), settings=settings)
    excess = excess_of(job.old.emulated, spans_of(job.old.arrays)).moved
    return job.tried(text.encode(), {name: before for name, before in excess.items() if before})


def failed(proof: Proof, about: About) -> Claim:
    """Return the claim that fails, which is the first that does not hold."""
    assert proof.obstacle is not None
    assert (proof.obstacle.about, proof.obstacle.state) == (about, ClaimState.FAILED), proof.obstacle
    return proof.obstacle


@pytest.mark.parametrize("name", [pytest.param(name, marks=TIERS.get(name, pytest.mark.slow)) for name in WRITTEN])
def test_a_right_patch_is_proved(name: str, settings: EmulationSettings) -> None:
    target, fix = specs()[name], FIXES[name]
    proof = tried(target, fix.text(target), settings)
    assert proof.held, proof.obstacle
    assert [claim.about for claim in proof.claims] == [About.REBUILT, About.EXCESS, About.MEANING, About.RESOURCES]
    assert proof.after.moved == dict.fromkeys(fix.moved, 0)
    assert all(proof.before.moved.values())
    launches, *rest = proof.covers
    assert launches.startswith("proved for every launch with blocks of ")
    assert rest[-1].startswith("not covered: ")


@pytest.mark.long
def test_a_use_that_a_patch_forgets_is_found(settings: EmulationSettings) -> None:
    target, fix = specs()["rows-transpose"], FIXES["rows-transpose"]
    for subscript, mapped in fix.edits:
        proof = tried(target, fix.text(target).replace(mapped, subscript), settings)
        assert not proof.held
        assert not proof.offered
    failed(tried(target, "__global__ void transpose(int) { nothing }", settings), About.REBUILT)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in ADVERSARIES])
def test_wrong_versions_are_not_proved_and_equal_ones_are(name: str, settings: EmulationSettings) -> None:
    adversary = ADVERSARIES[name]

    def state(text: str) -> ClaimState:
        return trial.judged((adversary.target,), text.encode(), CatalogOptions(), settings).state

    assert [what for what in adversary.wrong if state(adversary.version(what)) is ClaimState.HELD] == []
    assert state(adversary.right) is ClaimState.HELD


def test_a_trace_refutes_other_results_and_proves_nothing(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target, old = specs()["rows-transpose"], once_emulated("rows-transpose")
    assert not trial.other_results(old, old, 60)
    text = target.source.read_text(encoding="utf-8").replace("tile[threadIdx.x][", "tile[threadIdx.x ^ 1][")
    other = executable(with_text(target, text, tmp_path), settings)
    assert trial.other_results(old, other, 60)


def test_a_patch_that_leaves_all_conflicts_is_refused(settings: EmulationSettings) -> None:
    target = specs()["rows-transpose"]
    half = target.source.read_text(encoding="utf-8").replace("tile[32][32]", "tile[32][64]")
    claim = failed(tried(target, half, settings), About.EXCESS)
    assert "tile still has" in claim.reason


def test_excess_that_is_not_known_is_said_to_be_unknown() -> None:
    old = Excess(moved={"tile": 992, "other": None}, wavefronts=None)
    claim = excess_claim({"tile": 992}, old, Excess(moved={"tile": 0, "other": None}, wavefronts=64))
    assert claim.state == ClaimState.HELD
    assert "tile from 992 to 0" in claim.reason
    assert claim.reason.count("an unknown number") == 3
    claim = excess_claim({"tile": 992}, old, Excess(moved={"tile": None}, wavefronts=None))
    assert claim.state == ClaimState.UNKNOWN
