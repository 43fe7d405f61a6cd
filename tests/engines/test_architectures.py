"""Other architectures, wgmma and tcgen05: counted as sm_90 where that was measured, unknown otherwise."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.explain import predict
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

FEW = ("sm_75", "sm_90", "sm_120")
OTHERS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_121")


def source(name: str) -> str:
    return (DATA / "engines" / f"{name}.cu").read_text(encoding="utf-8")


def counts(profile: Profile) -> dict[str, tuple[int | None, ...]]:
    totals: Counter[tuple[str, int]] = Counter()
    for one in profile.shared():
        for place, number in enumerate((one.executed, one.wavefronts, one.ideal)):
            assert number is not None, (one.sass, profile.notes)
            totals[one.access, place] += number
    return {access: tuple(totals[access, place] for place in range(3)) for access, _ in totals}


@NEEDS_ALL
@pytest.mark.parametrize("archs", [FEW, pytest.param(OTHERS, marks=pytest.mark.long)], ids=["few", "others"])
def test_an_architecture_that_was_not_measured_has_the_counts_of_sm_90_and_says_so(
    emulated: Callable[..., Profile], archs: tuple[str, ...]
) -> None:
    matrix = np.zeros((128, 128), np.float32)
    for arch in archs:
        profile = emulated(source("turn"), "turn", arch, [matrix, matrix, np.int32(128).tobytes()], (32, 8))
        assert counts(profile) == {"STS": (512, 512, 512), "LDS": (512, 16384, 512)}, arch
        mark = "" if arch.startswith("sm_90") else "rule measured on sm_90"
        assert profile.rule_from == mark, arch
        assert (f"turn: wavefronts: {mark}." in profile.notes) == bool(mark), arch
        assert (f"turn: wavefronts: {mark}." in compare([profile]).warnings) == bool(mark), arch
        (check, *_) = judge([profile], Policy()).checks
        assert check.message.endswith(f" allowed ({mark})" if mark else " allowed"), arch


@NEEDS_ALL
def test_what_no_rule_covers_is_unknown(emulated: Callable[..., Profile]) -> None:
    profile = emulated(
        source("tcgen05"), "product", "sm_100a", [bytes(8), bytes(8), bytes(4), np.zeros(32, np.uint32)], (32,)
    )
    (product,) = [one for one in profile.shared() if one.access == "UTCHMMA"]
    assert product.wavefronts is None
    assert profile.total.excessive is None
    assert any("what ncu counts for UTCHMMA has not been measured" in note for note in profile.notes)


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize("name", [kernel.name for family, kernel in catalog.shipped() if family.never_run])
def test_kernels_that_never_ran_are_followed_to_their_end_and_have_their_degrees(name: str) -> None:
    target = catalog.shipped().target(name, {"n": 512})
    emulated = emulation.emulate_target(target, EmulationSettings(Toolchain()))
    assert not emulated.counts.tiles.misfits
    assert not emulated.counts.tiles.lacking
    assert emulated.counts.tiles.followed
    shared = [one for one in emulated.profile.shared() if not one.access.startswith("UTC")]
    for access, degree in target.kernel.degree.items():  # others have none
        assert degree == max((one.wavefronts or 0) / (one.ideal or 1) for one in shared if one.access == access)


SMALL = {
    "attention": {"batch": 1, "heads": 2, "seq": 192},
    "tma": {"n": 256},
    "wgmma": {"n": 768},
}  # odd multiples of the tiles
EARLY = ("wgmma-none", "wgmma-32", "wgmma-64", "wgmma-128", "wgmma-ring", "wgmma-wide", "wgmma-specialised")
KERNELS = [
    pytest.param(family.name, kernel.name, marks=[pytest.mark.slow] * (kernel.name in EARLY))
    for family, kernel in catalog.shipped().run()
    if not kernel.library and (kernel.arch or kernel.name.startswith("tma-stream"))
]


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(("family", "name"), KERNELS)
def test_the_emulator_counts_what_the_tiles_predict(family: str, name: str) -> None:
    target = catalog.shipped().target(name, SMALL[family])
    profile = emulation.emulate_target(target, EmulationSettings(Toolchain())).profile
    checks = predict.checked_against(predict.target_predictions(target), profile)
    assert {check.predicted.access: check.verdict for check in checks} == dict.fromkeys(target.kernel.degree, "equal")
