"""What becomes of a wrong version of a fix, and whether one that is proved is wrong at all."""

from __future__ import annotations

import itertools
from enum import Enum
from pathlib import Path

from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.fix import values
from ncu_swizzle.fix.claims import About, ClaimState
from ncu_swizzle.fix.proving import prove_version
from ncu_swizzle.kernels.family import Target
from tests.support.fix_corpus import with_text
from tests.support.fixes import Fix

SEEDS = (2, 3, 4)  # of inputs that the proof does not use


class Fate(Enum):
    """What the proof says of a mutant."""

    INVALID = "it does not compile"
    REFUSED = "it is refused"
    SAME = "it is proved, and does the same in every block for other inputs"
    WRONG = "it is proved, and differs"


def fate(old: Executable, target: Target, text: str, fix: Fix, folder: Path, settings: EmulationSettings) -> Fate:
    """Return what becomes of a version of a fix."""
    after = with_text(target, text, folder, fix.shared)
    proof = prove_version(old, after, fix.moved, settings)
    rebuilt = proof.claim(About.REBUILT)
    if rebuilt is not None and rebuilt.state is ClaimState.FAILED:
        return Fate.INVALID
    if not proof.held:
        return Fate.REFUSED
    return Fate.SAME if does_the_same(old, executable(after, settings)) else Fate.WRONG


def does_the_same(old: Executable, new: Executable) -> bool:
    """Say whether all blocks of the grid leave the same bytes, all of them known, for inputs of other seeds."""
    x, y, z = old.launch(None).grid
    blocks = list(itertools.product(range(x), range(y), range(z)))
    return all(values.compare(old, new, blocks, 600, seed).complete for seed in SEEDS)
