"""The shipped kernels on wgmma and TMA, emulated at small sizes: every count is what their declared tiles predict."""

from __future__ import annotations

import pytest

from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL

SMALL = {
    "attention": {"batch": 1, "heads": 2, "seq": 192},
    "tma": {"n": 256},
    "wgmma": {"n": 768},
}  # odd multiples of the tiles
EARLY = ("wgmma-none", "wgmma-32", "wgmma-64", "wgmma-128", "wgmma-ring", "wgmma-wide", "wgmma-specialised")
KERNELS = [
    pytest.param(family.name, kernel.name, marks=[pytest.mark.slow] * (kernel.name in EARLY))
    for family, kernel in catalog.shipped()
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
