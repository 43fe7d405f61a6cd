"""Versions that are wrong in ways that have nothing to do with a mapping are not proved either, and equal ones are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings, executable
from ncu_swizzle.fix.claims import About, ClaimState, Proof
from ncu_swizzle.fix.excess import Moved
from ncu_swizzle.fix.proving import prove_version
from tests.support.adversaries import ADVERSARIES, UNFOLLOWED, XOR, Adversary
from tests.support.fix_corpus import with_text
from tests.support.fixes import array, swizzled
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
QUICK = ("ticket",)  # of each version, a compilation and two emulations


def proofs(
    adversary: Adversary, texts: list[str], folder: Path, settings: EmulationSettings, moved: Sequence[Moved] = ()
) -> list[Proof]:
    """Return the proof of each version of a kernel; none of its arrays has moved unless it is said where to."""
    target = adversary.target(folder)
    old = executable(target, settings)
    afters = [with_text(target, text, folder / str(number)) for number, text in enumerate(texts)]
    return [prove_version(old, after, moved, settings) for after in afters]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNFOLLOWED)
def test_what_cannot_be_followed_is_compared(name: str, tmp_path: Path, settings: EmulationSettings) -> None:
    adversary = UNFOLLOWED[name]
    texts = [adversary.text.replace(*XOR), *(adversary.wrong(what).replace(*XOR) for what in adversary.edits)]
    tile = array("tile", 1024, 4, swizzled(32))
    right, *wrong = proofs(adversary, texts, tmp_path, settings, [tile])
    assert right.held, right.obstacle
    assert [what for what, proof in zip(adversary.edits, wrong, strict=True) if proof.held] == []
    assert all(proof.claim(About.MEANING) for proof in wrong)


@pytest.mark.long
def test_an_access_that_the_launch_does_not_execute_is_named(tmp_path: Path, settings: EmulationSettings) -> None:
    kernel = UNFOLLOWED["clock"]
    idle = Adversary(kernel.text.replace("time[", "if (at < 0) y[0] = AT(0, at & 63);\n    time["), kernel.launch, {})
    (proof,) = proofs(idle, [idle.text.replace(*XOR)], tmp_path, settings, [array("tile", 1024, 4, swizzled(32))])
    claim = proof.claim(About.MEANING)
    assert claim is not None
    assert claim.state is ClaimState.UNKNOWN
    assert "does not execute" in claim.reason
    assert claim.line == ("k.cu", 10)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ADVERSARIES]
)
def test_wrong_versions_are_not_proved(name: str, tmp_path: Path, settings: EmulationSettings) -> None:
    adversary = ADVERSARIES[name]
    wrong = proofs(adversary, [adversary.wrong(what) for what in adversary.edits], tmp_path, settings)
    assert [what for what, proof in zip(adversary.edits, wrong, strict=True) if proof.held] == []
    assert all(proof.claim(About.REBUILT) or proof.claim(About.MEANING) for proof in wrong)


@pytest.mark.long
@pytest.mark.parametrize("name", ["copies", "ticket"])
def test_another_spelling_of_the_same_is_proved(name: str, tmp_path: Path, settings: EmulationSettings) -> None:
    text = ADVERSARIES[name].text.replace("int t = threadIdx.x;", "const int unused = 0, t = unused + threadIdx.x;")
    (same,) = proofs(ADVERSARIES[name], [text], tmp_path, settings)
    assert same.state is ClaimState.HELD


def test_what_does_not_synchronise_any_more_is_named(tmp_path: Path, settings: EmulationSettings) -> None:
    adversary = ADVERSARIES["copies"]
    (proof,) = proofs(adversary, [adversary.wrong("it waits for one copy fewer")], tmp_path, settings)
    meaning = proof.claim(About.MEANING)
    assert meaning is not None
    assert meaning.state is ClaimState.FAILED
    assert "synchronises by DEPBAR.LE SB0, 0x1, and the new kernel does not do so here" in meaning.reason
