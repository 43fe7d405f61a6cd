"""The main job, as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ncu_swizzle.catalog import collection
from ncu_swizzle.engines.context import Context, Request
from ncu_swizzle.errors import ProgramFailed, UsageError
from ncu_swizzle.jobs import entries, profile_kernel, time_kernels
from ncu_swizzle.jobs.companions import Companions
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.model import Profile

RECORDED = Request(engine="recorded")


def test_a_reference_that_fails_unasked_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = entries.profiles_of

    def failing(entry: entries.Entry, context: Context) -> Sequence[Profile]:
        if entry.name == "reference-attention":
            raise ProgramFailed("out of memory")
        return real(entry, context)

    monkeypatch.setattr(profile_kernel, "profiles_of", failing)
    result = profile_kernel.profile(
        collection.shipped(),
        collection.shipped().target("kernel2"),
        RECORDED,
        destination=Destination(tmp_path / "out"),
    )
    assert result.comparison.labels == ("kernel1", "kernel2")
    assert result.comparison.warnings == ("Without reference-attention: out of memory.",)
    with pytest.raises(ProgramFailed):
        profile_kernel.profile(
            collection.shipped(),
            collection.shipped().target("kernel2"),
            RECORDED,
            Companions(reference="reference-attention"),
            Destination(tmp_path / "2"),
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_reference_has_no_reference_of_its_own(tmp_path: Path) -> None:
    result = profile_kernel.profile(
        collection.shipped(),
        collection.shipped().target("reference-attention"),
        RECORDED,
        destination=Destination(tmp_path / "out"),
    )
    assert result.comparison.labels == ("reference-attention",)


def test_kernels_of_two_families_are_not_timed_together(tmp_path: Path) -> None:
    ours = collection.shipped()
    toy = tmp_path / "toy"
    toy.mkdir()
    text = (ours.families[0].folder / "family.toml").read_text(encoding="utf-8")
    (toy / "family.toml").write_text(text.replace('name = "kernel', 'name = "toy').replace("reference-", "toy-"))
    both = collection.Catalog((*ours.families, *collection.load(tmp_path).families))
    with pytest.raises(UsageError, match="toy1 does not belong to the family attention"):
        time_kernels.time_kernels(both, ["kernel1", "toy1"], Request(), reference=False)
