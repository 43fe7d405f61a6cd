"""Versions that are wrong in ways that have nothing to do with a mapping are not proved either, and equal ones are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.executable import executable
from ncu_swizzle.proof.claims import About, Proof, State
from ncu_swizzle.proof.proving import prove_version
from tests.support.adversaries import ADVERSARIES
from tests.support.fix_corpus import with_text
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
QUICK = ("ticket",)  # of each version, a compilation and two emulations


def proofs(name: str, texts: list[str], folder: Path, context: Context) -> list[Proof]:
    """Return the proof of each version of a kernel, none of whose arrays has moved."""
    settings = EmulationSettings.of(context.request)
    target = ADVERSARIES[name].target(folder)
    old = executable(target, settings)
    afters = [with_text(target, text, folder / str(number)) for number, text in enumerate(texts)]
    return [prove_version(old, after, (), settings) for after in afters]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ADVERSARIES]
)
def test_wrong_versions_are_not_proved(name: str, tmp_path: Path, emulated: Context) -> None:
    adversary = ADVERSARIES[name]
    wrong = proofs(name, [adversary.wrong(what) for what in adversary.edits], tmp_path, emulated)
    assert [what for what, proof in zip(adversary.edits, wrong, strict=True) if proof.held] == []
    assert all(proof.claim(About.REBUILT) or proof.claim(About.MEANING) for proof in wrong)


@pytest.mark.parametrize("name", ["copies", "ticket"])
def test_another_spelling_of_the_same_is_proved(name: str, tmp_path: Path, emulated: Context) -> None:
    text = ADVERSARIES[name].text.replace("int t = threadIdx.x;", "const int unused = 0, t = unused + threadIdx.x;")
    (same,) = proofs(name, [text], tmp_path, emulated)
    assert same.state is State.HELD


def test_what_does_not_synchronise_any_more_is_named(tmp_path: Path, emulated: Context) -> None:
    adversary = ADVERSARIES["copies"]
    (proof,) = proofs("copies", [adversary.wrong("it waits for one copy fewer")], tmp_path, emulated)
    meaning = proof.claim(About.MEANING)
    assert meaning is not None
    assert meaning.state is State.FAILED
    assert "synchronises by DEPBAR.LE SB0, 0x1, and the new kernel does not do so here" in meaning.reason
