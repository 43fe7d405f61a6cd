"""The main job, as a function."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.engines import profiles
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Companions, Destination

RECORDED = Request(engine="recorded")


@pytest.mark.long
def test_a_reference_that_fails_unasked_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = profiles.profiles_of

    def failing(entry: TargetOrFile, context: Context) -> Sequence[Profile]:
        if entry.name == "reference-attention":
            raise ProgramFailed("out of memory")
        return real(entry, context)

    monkeypatch.setattr(run_kernel, "profiles_of", failing)
    result = run_kernel.profile(
        run_kernel.lineup_of("kernel2", KernelDescription()), RECORDED, destination=Destination(tmp_path / "out")
    )
    assert result.comparison.labels == ("kernel1", "kernel2")
    assert result.comparison.warnings == ("Without reference-attention: out of memory.",)
    with pytest.raises(ProgramFailed):
        run_kernel.profile(
            run_kernel.lineup_of("kernel2", KernelDescription(), Companions(reference="reference-attention")),
            RECORDED,
            Destination(tmp_path / "2"),
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.long
def test_a_reference_has_no_reference_of_its_own(tmp_path: Path) -> None:
    result = run_kernel.profile(
        run_kernel.lineup_of("reference-attention", KernelDescription()),
        RECORDED,
        destination=Destination(tmp_path / "out"),
    )
    assert result.comparison.labels == ("reference-attention",)
