"""The proof refuses fixes that are wrong in the ways in which fixes go wrong.

Not every mutant is wrong: ``x ^ y & 31`` and ``x ^ y`` are the same for y below 32. One that is proved must leave the
same bytes in every block, for inputs that the proof has not seen.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings
from tests.support.fix_corpus import OnceEmulated, specs
from tests.support.fixes import FIXES
from tests.support.judging import Fate, fate
from tests.support.marks import NEEDS_ALL
from tests.support.mutants import Mutant, mutants

pytestmark = NEEDS_ALL
OF_EACH = 24  # mutants of a fix, evenly spread over all of them
FEW = {"rows-transpose": 4, "async-columns": 3}
WANTED = 200


def some(name: str, count: int) -> list[Mutant]:
    target = specs()[name]
    every = list(mutants(target.source.read_text(encoding="utf-8"), FIXES[name].text(target)))
    step = max(1.0, len(every) / count)
    return [every[int(k * step)] for k in range(min(count, len(every)))]


def fates(name: str, count: int, folder: Path, settings: EmulationSettings, old: OnceEmulated) -> Counter[Fate]:
    met: Counter[Fate] = Counter()
    for number, mutant in enumerate(some(name, count)):
        found = fate(old(name), specs()[name], mutant.text, FIXES[name], folder / f"{name}-{number}", settings)
        assert found is not Fate.WRONG, f"{name}, {mutant.what}"
        met[found] += 1
    return met


@pytest.mark.long
@pytest.mark.parametrize("name", FEW)
def test_a_few_mutants_are_refused(
    name: str, tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    assert fates(name, FEW[name], tmp_path, settings, once_emulated)[Fate.REFUSED] >= FEW[name] - 1


@pytest.mark.slow
def test_all_of_200_wrong_ones_are_refused(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    met: Counter[Fate] = Counter()
    for name in FIXES:
        met += fates(name, OF_EACH, tmp_path, settings, once_emulated)
    assert met[Fate.REFUSED] >= WANTED, met
