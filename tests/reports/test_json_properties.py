"""A saved profile is read or refused, whatever its JSON holds under a digest that fits; what is read is consistent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.model import Profile
from tests.support.corpus import bytewise, hostile, originals, trees
from tests.support.properties import chances, examples, holds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=8), part, max_size=4),
    max_leaves=12,
)
SMALL = "tma/tma-128"


def few_instructions() -> trees.Content:
    """Return a profile with its first instructions only: what is tried is the reading, not the size."""
    profile = originals.profile(SMALL)
    sources = {name: text[:200] for name, text in profile.sources.items()}
    small: trees.Content = json.loads(
        dataclasses.replace(profile, instructions=profile.instructions[:20], sources=sources).to_json()
    )
    return small


def read(file: Path) -> None:
    """Read the profile, and ask it for everything that it derives."""
    try:
        profile = run_folder.load_profile(file)
    except (BadFile, DamagedFile):
        return
    assert Profile.from_json(profile.to_json()) == profile
    derived = (profile.grid, profile.block, profile.stalls, profile.missing, profile.duration_ns)
    assert isinstance(repr(derived), str)
    for total in (profile.total, *profile.accesses.values(), *profile.lines.values()):
        for count in (total.executed, total.wavefronts, total.ideal):
            assert count is None or count >= 0, "a count is not negative"
        assert isinstance(repr((total.excessive, total.degree)), str)


@examples
def test_a_hostile_value_under_a_digest_that_fits_is_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = few_instructions(), tmp_path / "k.json"

    def check(chance: Random) -> None:
        changed = trees.with_hostile_value(content, chance)
        file.write_bytes(trees.written(changed, trees.sealed_profile))
        read(file)

    holds(examples // 2, check, chances)


@examples
def test_a_hostile_number_of_an_instruction_is_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = few_instructions(), tmp_path / "k.json"
    columns = content["instructions"]["columns"]

    def check(row: int, column: str, value: Any) -> None:
        rows = [list(values) for values in content["instructions"]["rows"]]
        rows[row][columns.index(column)] = value
        changed = {**content, "instructions": {**content["instructions"], "rows": rows}}
        file.write_bytes(trees.written(changed, trees.sealed_profile))
        read(file)

    numbers = st.sampled_from(["pc", "executed", "wavefronts", "ideal", "stack", "at"])
    values = st.sampled_from((*hostile.INTEGERS, *hostile.FLOATS)) | st.integers() | JSON
    holds(examples, check, st.integers(0, 19), numbers, values)


@examples
def test_any_json_under_a_digest_that_fits_is_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = few_instructions(), tmp_path / "k.json"

    def check(name: str, value: Any) -> None:
        file.write_bytes(trees.written({**content, name: value}, trees.sealed_profile))
        read(file)

    holds(examples, check, st.sampled_from(sorted(content)), JSON)


@examples
def test_damage_to_a_profile_is_always_noticed(examples: int, tmp_path: Path) -> None:
    content, file = few_instructions(), tmp_path / "k.json"
    whole = trees.written(content)

    def check(damage: str, chance: Random) -> None:
        data = bytewise.TEXT[damage](whole, whole, chance)
        file.write_bytes(data)
        try:
            profile = run_folder.load_profile(file)
        except (BadFile, DamagedFile):
            return
        same: Mapping[str, Any] = json.loads(profile.to_json())
        assert same == content, "what is read is what was saved"

    holds(examples, check, st.sampled_from(list(bytewise.TEXT)), chances)
