"""The stress kernels of bench/recording/stress, and what an H100 recorded of them."""

from typing import Any

import pytest

from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports.container import ReportResult
from ncu_swizzle.reports.model import Profile
from tests.support.emulation import recorded_launch
from tests.support.places import RECORDED_STRESS, STRESS

KERNELS = {kernel.name: (family, kernel) for family, kernel in catalog.load(STRESS)}
NEEDS_RECORDING = pytest.mark.skipif(
    not RECORDED_STRESS.is_file(), reason="not recorded yet: python3 bench/recording/record_stress.py on a GPU"
)
Recordings = dict[str, tuple[Profile, ReportResult, dict[str, Any]]]


def launch_of(name: str, recordings: Recordings) -> tuple[Code, Launch]:
    """Return the recorded code of a stress kernel, and its launch."""
    family, kernel = KERNELS[name]
    _, result, _ = recordings[name]
    return recorded_launch(Target(family, kernel, family.problem()), result)
